//! The index of the archive: a file with a line for each chunk, in the order in which they were archived.

use super::error::ArchiveError;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const INDEX: &str = "index";
const LOCK: &str = "lock";
/// The number of bytes of the index that are read first to find its last lines.
const TAIL: u64 = 64 * 1024;

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
        parse(&path, &text[..end])
    }

    /// Reads the lines from the first one on that is followed by no line of before a time (in milliseconds since 1970), and possibly earlier ones.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub(super) fn load_since(&self, ms: u64) -> Result<Vec<IndexLine>, ArchiveError> {
        let path = self.dir.join(INDEX);
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file.map_err(ArchiveError::file(&path))?,
        };
        let mut length = TAIL;
        loop {
            let (text, is_whole) = tail(&file, length).map_err(ArchiveError::file(&path))?;
            let end = text.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
            let lines = parse(&path, &text[..end])?;
            if is_whole || lines.first().is_some_and(|line| line.ms < ms) {
                return Ok(lines);
            }
            length *= 8;
        }
    }

    /// Replaces all lines, durably.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub(super) fn rewrite(&self, _: &IndexLock, lines: &[IndexLine]) -> Result<(), ArchiveError> {
        let mut text = Vec::new();
        for line in lines {
            let line = serde_json::to_vec(line);
            text.extend(line.map_err(|error| ArchiveError::damaged(&self.dir, error.to_string()))?);
            text.push(b'\n');
        }
        replace(&self.dir, INDEX, &text)
    }
}

/// Parses lines.
fn parse(path: &Path, text: &[u8]) -> Result<Vec<IndexLine>, ArchiveError> {
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| {
            let line: Result<IndexLine, _> = serde_json::from_slice(line);
            let line = line.map_err(|error| error.to_string()).and_then(|line| {
                match Path::new(&line.file).components().count() == 1 {
                    true => Ok(line),
                    false => Err("the name of the segment is invalid".to_owned()),
                }
            });
            line.map_err(|reason| {
                ArchiveError::damaged(path, format!("line {}: {reason}", number + 1))
            })
        })
        .collect()
}

/// The last bytes of a file, from the beginning of a line on, and whether that is the whole file.
fn tail(mut file: &File, length: u64) -> std::io::Result<(Vec<u8>, bool)> {
    let size = file.seek(SeekFrom::End(0))?;
    let start = size.saturating_sub(length);
    file.seek(SeekFrom::Start(start))?;
    let mut text = Vec::new();
    file.take(size - start).read_to_end(&mut text)?;
    if start > 0 {
        let line = text.iter().position(|byte| *byte == b'\n');
        text.drain(..line.map_or(text.len(), |end| end + 1));
    }
    Ok((text, start == 0))
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

/// Replaces a file in one step, durably.
pub(super) fn replace(dir: &Path, name: &str, content: &[u8]) -> Result<(), ArchiveError> {
    let part = dir.join(format!("{name}.part"));
    let replace = || {
        let mut file = File::create(&part)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&part, dir.join(name))?;
        File::open(dir)?.sync_all()
    };
    replace().map_err(ArchiveError::file(&part))
}
