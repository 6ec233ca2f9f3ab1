//! Chunks: what one write appends to a segment.
//!
//! The first frame of a chunk has the ranges of offsets that it covers; the other frames have its records.

use super::codec::{put_frame, put_integer, take_frame, take_integer};
use super::record::Record;
use crate::domain::keys::Partition;
use crate::log::offset::MAX_OFFSET;
use std::io;

/// The size of the content of a frame at which the next frame begins, in bytes.
const FRAME_BYTES: usize = 1 << 20;

/// A range of offsets of a partition. Offsets without an entry were deleted from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetRange {
    /// The partition.
    pub partition: Partition,
    /// The first offset.
    pub from: u64,
    /// The offset after the last one.
    pub next: u64,
}

/// Records to archive together.
#[derive(Default)]
pub struct Chunk {
    /// What they cover.
    pub ranges: Vec<OffsetRange>,
    /// The records, those of a partition in the order of their offsets.
    pub records: Vec<Record>,
}

impl Chunk {
    /// The bytes of the chunk.
    ///
    /// # Errors
    /// It cannot be compressed.
    pub fn encode(&self, level: i32) -> io::Result<Vec<u8>> {
        let (mut bytes, mut raw) = (Vec::new(), Vec::new());
        for range in &self.ranges {
            put_integer(&mut raw, range.partition.into());
            put_integer(&mut raw, range.from);
            put_integer(&mut raw, range.next);
        }
        put_frame(&mut bytes, &raw, level)?;
        raw.clear();
        for record in &self.records {
            record.write(&mut raw);
            if raw.len() >= FRAME_BYTES {
                put_frame(&mut bytes, &raw, level)?;
                raw.clear();
            }
        }
        if !raw.is_empty() {
            put_frame(&mut bytes, &raw, level)?;
        }
        Ok(bytes)
    }

    /// Takes the ranges from the front of a chunk.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn take_ranges(from: &mut &[u8]) -> Result<Vec<OffsetRange>, String> {
        let raw = take_frame(from)?;
        let (mut raw, mut ranges) = (raw.as_slice(), Vec::new());
        while !raw.is_empty() {
            let mut range = || {
                Some(OffsetRange {
                    partition: take_integer(&mut raw)?.try_into().ok()?,
                    from: take_integer(&mut raw)?,
                    next: take_integer(&mut raw)?,
                })
            };
            let range =
                range().filter(|range| range.from < range.next && range.next <= MAX_OFFSET + 1);
            ranges.push(range.ok_or("the ranges of a chunk are malformed")?);
        }
        Ok(ranges)
    }

    /// Decodes a chunk.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(mut bytes: &[u8]) -> Result<Chunk, String> {
        let ranges = Chunk::take_ranges(&mut bytes)?;
        let mut records = Vec::new();
        while !bytes.is_empty() {
            let raw = take_frame(&mut bytes)?;
            let mut raw = raw.as_slice();
            while !raw.is_empty() {
                let record = Record::read(&mut raw);
                records.push(record.ok_or("a record is malformed")?);
            }
        }
        Ok(Chunk { ranges, records })
    }
}
