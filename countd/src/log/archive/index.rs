//! The index of the archive: a file with a line for each chunk, in the order in which they were archived.

use super::error::ArchiveError;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const INDEX: &str = "index";
const LOCK: &str = "lock";

/// A line of the index: a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexLine {
    /// The segment.
    pub file: String,
    /// Where the chunk begins in it.
    pub at: u64,
    /// The size of the chunk in bytes.
    pub bytes: u64,
    /// Its CRC-32C.
    pub crc: u32,
    /// The number of its records.
    pub entries: u64,
    /// When it was archived, in milliseconds since 1970.
    pub ms: u64,
}

/// The index of an archive.
#[derive(Clone, Debug)]
pub struct Index {
    dir: PathBuf,
}

/// The lock of the index, until it is dropped. Only one process at a time writes to the index.
pub struct IndexLock(#[allow(dead_code, reason = "dropping it unlocks")] File);

impl Index {
    /// The index of the archive in a directory.
    pub fn of(dir: &Path) -> Index {
        Index {
            dir: dir.to_owned(),
        }
    }

    /// The directory of the archive.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Locks the index. Waits while another process has the lock.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn lock(&self) -> Result<IndexLock, ArchiveError> {
        let path = self.dir.join(LOCK);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = file.map_err(ArchiveError::file(&path))?;
        file.lock().map_err(ArchiveError::file(&path))?;
        Ok(IndexLock(file))
    }

    /// Appends a line, durably.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&self, _: &IndexLock, line: &IndexLine) -> Result<(), ArchiveError> {
        let path = self.dir.join(INDEX);
        let is_new = !path.exists();
        let append = || {
            let mut file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(&path)?;
            let end = end_of_lines(&mut file)?;
            file.set_len(end)?;
            file.seek(SeekFrom::Start(end))?;
            let mut line = serde_json::to_vec(line)?;
            line.push(b'\n');
            file.write_all(&line)?;
            file.sync_all()?;
            if is_new {
                File::open(&self.dir)?.sync_all()?;
            }
            Ok(())
        };
        append().map_err(ArchiveError::file(&path))
    }

    /// Reads all lines. There are none if there is no index.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn load(&self) -> Result<Vec<IndexLine>, ArchiveError> {
        let path = self.dir.join(INDEX);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(ArchiveError::file(&path)(error)),
        };
        // What follows the last line end was being written when its process was killed.
        let end = text.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        let lines = text[..end].split(|byte| *byte == b'\n').enumerate();
        lines
            .filter(|(_, line)| !line.is_empty())
            .map(|(number, line)| {
                let line: Result<IndexLine, _> = serde_json::from_slice(line);
                let line =
                    line.map_err(|error| error.to_string()).and_then(|line| {
                        match Path::new(&line.file).components().count() == 1 {
                            true => Ok(line),
                            false => Err("the name of the segment is invalid".to_owned()),
                        }
                    });
                line.map_err(|reason| {
                    ArchiveError::damaged(&path, format!("line {}: {reason}", number + 1))
                })
            })
            .collect()
    }
}

/// The end of the last complete line.
fn end_of_lines(file: &mut File) -> std::io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut byte = [0];
    while end > 0 {
        file.seek(SeekFrom::Start(end - 1))?;
        file.read_exact(&mut byte)?;
        if byte[0] == b'\n' {
            break;
        }
        end -= 1;
    }
    Ok(end)
}
