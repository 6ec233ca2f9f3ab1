//! Segments: files with chunks, each written by one process.

use super::chunk::Chunk;
use super::error::ArchiveError;
use super::index::IndexLine;
use crate::domain::event::now_ms;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The first bytes of a segment.
pub(super) const MAGIC: &[u8] = b"CNTDSEG1";

/// The segment to which a process appends.
pub struct Segment {
    path: PathBuf,
    name: String,
    file: File,
    /// The end of the last chunk.
    end: u64,
}

impl Segment {
    /// Creates a segment in the directory of an archive.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn create(dir: &Path) -> Result<Segment, ArchiveError> {
        std::fs::create_dir_all(dir).map_err(ArchiveError::file(dir))?;
        let (ms, process, random) = (now_ms(), std::process::id(), fastrand::u32(..));
        let name = format!("{ms:013}-{process}-{random:08x}.seg");
        let path = dir.join(&name);
        let create = || {
            let mut file = OpenOptions::new()
                .create_new(true)
                .write(true)
                .open(&path)?;
            file.write_all(MAGIC)?;
            file.sync_all()?;
            File::open(dir)?.sync_all()?;
            Ok(file)
        };
        let file = create().map_err(ArchiveError::file(&path))?;
        Ok(Segment {
            path,
            name,
            file,
            end: MAGIC.len() as u64,
        })
    }

    /// The size of its chunks in bytes.
    pub fn len(&self) -> u64 {
        self.end
    }

    /// Whether its file still exists. A prune deletes segments without chunks.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Whether it has no chunk.
    pub fn is_empty(&self) -> bool {
        self.end == MAGIC.len() as u64
    }

    /// Appends a chunk, durably. Returns its line for the index. After an error the next chunk overwrites it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, chunk: &Chunk, level: i32) -> Result<IndexLine, ArchiveError> {
        let mut append = || {
            let bytes = chunk.encode(level)?;
            self.file.set_len(self.end)?;
            self.file.seek(SeekFrom::Start(self.end))?;
            self.file.write_all(&bytes)?;
            self.file.sync_data()?;
            Ok(bytes)
        };
        let bytes = append().map_err(ArchiveError::file(&self.path))?;
        let line = IndexLine {
            file: self.name.clone(),
            at: self.end,
            bytes: bytes.len() as u64,
            crc: crc32c::crc32c(&bytes),
            entries: chunk.records.len() as u64,
            ms: now_ms(),
        };
        self.end += line.bytes;
        Ok(line)
    }
}
