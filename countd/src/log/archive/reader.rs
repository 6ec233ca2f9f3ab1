//! Reads the archive.

use super::chunk::{Chunk, OffsetRange};
use super::error::ArchiveError;
use super::index::{Index, IndexLine};
use super::record::Record;
use super::segment::MAGIC;
use crate::domain::keys::Partition;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The maximum size of a chunk in bytes. A longer one is damaged.
const MAX_CHUNK: u64 = 1 << 30;

/// What the archive has of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The ranges of offsets, in order. Between two ranges offsets are missing.
    pub ranges: Vec<(u64, u64)>,
}

impl Coverage {
    /// The offset after the last archived one; 1 if there is none.
    pub fn end(&self) -> u64 {
        self.ranges.last().map_or(1, |(_, next)| *next)
    }

    fn extend(&mut self, from: u64, next: u64) {
        match self.ranges.last_mut() {
            Some((_, end)) if *end >= from => *end = next.max(*end),
            _ => self.ranges.push((from, next)),
        }
    }

    /// Checks that no offset from `from` to `until` (exclusive) is missing.
    ///
    /// # Errors
    /// Offsets are missing.
    pub fn check_range(
        &self,
        partition: Partition,
        (from, until): (u64, u64),
    ) -> Result<(), ArchiveError> {
        let mut end = from;
        for (first, next) in &self.ranges {
            if *first > end || end >= until {
                break;
            }
            end = end.max(*next);
        }
        match end >= until {
            true => Ok(()),
            false => {
                let later = self.ranges.iter().map(|(first, _)| *first);
                let next = later.filter(|first| *first > end).min();
                Err(ArchiveError::Gap {
                    partition,
                    from: end,
                    next: next.unwrap_or(until).min(until),
                })
            }
        }
    }

    /// Checks that no offset from `from` on is missing.
    ///
    /// # Errors
    /// Offsets are missing.
    pub fn check_from(&self, partition: Partition, from: u64) -> Result<(), ArchiveError> {
        let mut end = from;
        for (first, next) in &self.ranges {
            if *first > end {
                let (from, next) = (end, *first);
                return Err(ArchiveError::Gap {
                    partition,
                    from,
                    next,
                });
            }
            end = end.max(*next);
        }
        Ok(())
    }
}

/// An archive, as its index was when it was opened.
pub struct Archive {
    index: Index,
    lines: Vec<IndexLine>,
    /// The ranges of these chunks that later chunks replace, by chunk and partition: the offset from which on they do.
    replaced: HashMap<(usize, Partition), u64>,
    /// What the archive has, by partition.
    pub coverage: BTreeMap<Partition, Coverage>,
}

impl Archive {
    /// Opens the archive in a directory. Reads the index and the ranges of all chunks.
    ///
    /// # Errors
    /// A file cannot be read, or is damaged.
    pub fn open(dir: &Path) -> Result<Archive, ArchiveError> {
        let index = Index::of(dir);
        let mut archive = Archive {
            lines: index.load()?,
            index,
            replaced: HashMap::new(),
            coverage: BTreeMap::new(),
        };
        for (partition, offset) in archive.index.pruned()? {
            // An empty range: what is before it is missing, also if nothing follows.
            let coverage = archive.coverage.entry(partition).or_default();
            coverage.extend(offset, offset);
        }
        let mut first_later: HashMap<Partition, u64> = HashMap::new();
        for at in (0..archive.lines.len()).rev() {
            for range in archive.ranges(at)? {
                let later = first_later.entry(range.partition).or_insert(u64::MAX);
                if range.next > *later {
                    archive.replaced.insert((at, range.partition), *later);
                }
                *later = range.from.min(*later);
            }
        }
        for at in 0..archive.lines.len() {
            for range in archive.ranges(at)? {
                let next = archive.end_of((at, range));
                if range.from < next {
                    let coverage = archive.coverage.entry(range.partition).or_default();
                    coverage.extend(range.from, next);
                }
            }
        }
        Ok(archive)
    }

    /// The lines of its index.
    pub fn lines(&self) -> &[IndexLine] {
        &self.lines
    }

    /// The end of a range of a chunk: where it ends, or where a later chunk replaces it.
    pub(super) fn end_of(&self, (at, range): (usize, OffsetRange)) -> u64 {
        let replaced = self.replaced.get(&(at, range.partition));
        replaced.map_or(range.next, |replaced| range.next.min(*replaced))
    }

    /// The ranges of a chunk.
    pub(super) fn ranges(&self, at: usize) -> Result<Vec<OffsetRange>, ArchiveError> {
        ranges_of(&self.index, &self.lines[at])
    }

    /// The number of chunks.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether nothing is archived.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Reads the records of a chunk, without those that later chunks replace.
    ///
    /// # Errors
    /// The segment cannot be read, or is damaged.
    pub fn read(&self, at: usize) -> Result<Vec<Record>, ArchiveError> {
        let line = &self.lines[at];
        let path = self.index.dir().join(&line.file);
        let mut bytes = Vec::new();
        let file = open_segment(&self.index, line)?;
        let read = file.take(line.bytes.min(MAX_CHUNK)).read_to_end(&mut bytes);
        read.map_err(ArchiveError::file(&path))?;
        if bytes.len() as u64 != line.bytes {
            return Err(damaged_at(&path, line, "it is cut off"));
        }
        if crc32c::crc32c(&bytes) != line.crc {
            return Err(damaged_at(&path, line, "its checksum does not match"));
        }
        let chunk = Chunk::decode(&bytes).map_err(|reason| damaged_at(&path, line, &reason))?;
        let ranges: HashMap<Partition, (u64, u64)> = chunk
            .ranges
            .iter()
            .map(|range| (range.partition, (range.from, self.end_of((at, *range)))))
            .collect();
        let mut records = chunk.records;
        records.retain(|record| {
            let range = ranges.get(&record.partition);
            range.is_some_and(|(from, next)| (*from..*next).contains(&record.entry.offset))
        });
        Ok(records)
    }
}

fn open_segment(index: &Index, line: &IndexLine) -> Result<File, ArchiveError> {
    let path = index.dir().join(&line.file);
    let open = || {
        let mut file = File::open(&path)?;
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic)?;
        Ok((file, magic))
    };
    let (mut file, magic) = open().map_err(ArchiveError::file(&path))?;
    if magic != MAGIC {
        return Err(ArchiveError::damaged(&path, "it is not a segment"));
    }
    let seek = file.seek(SeekFrom::Start(line.at));
    seek.map_err(ArchiveError::file(&path))?;
    Ok(file)
}

/// The ranges of a chunk.
pub(super) fn ranges_of(index: &Index, line: &IndexLine) -> Result<Vec<OffsetRange>, ArchiveError> {
    let path = index.dir().join(&line.file);
    let mut file = open_segment(index, line)?;
    let mut bytes = vec![0; 8];
    let mut read = || {
        file.read_exact(&mut bytes)?;
        let length = [bytes[0], bytes[1], bytes[2], bytes[3]];
        let length = u64::from(u32::from_le_bytes(length)).min(line.bytes);
        (&file).take(length).read_to_end(&mut bytes)
    };
    read().map_err(|error| damaged_at(&path, line, &error.to_string()))?;
    let ranges = Chunk::take_ranges(&mut bytes.as_slice());
    ranges.map_err(|reason| damaged_at(&path, line, &reason))
}

fn damaged_at(path: &Path, line: &IndexLine, reason: &str) -> ArchiveError {
    ArchiveError::damaged(path, format!("the chunk at byte {}: {reason}", line.at))
}
