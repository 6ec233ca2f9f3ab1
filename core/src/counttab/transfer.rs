//! Exports: a range of rows, or a whole table, with a checksum.
//!
//! ```text
//! "CTAB" | version u8 = 1 | len u16 | number of fences u16 | fences | pages | CRC-32 of all preceding bytes
//! ```
//!
//! All numbers are little-endian. `blobs` describes fences, `wire` describes pages. Pages are in ascending order.

use byteorder::{LE, ReadBytesExt};
use bytes::BufMut;

use super::blobs::{BlobLoader, FENCE};
use super::build::{RowSource, build, fitting};
use super::directory::Place;
use super::fences::MAX_SOURCE;
use super::page::Page;
use super::remove::merge_below;
use super::table::CountTab;
use super::wire;
use crate::countint::CountError;

const MAGIC: u32 = u32::from_le_bytes(*b"CTAB");
const VERSION: u8 = 1;
const CHECKSUM: usize = 4;

/// The error of an import, which has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The bytes are not an export.
    #[error("invalid payload")]
    Payload,
    /// An allocation failed.
    #[error("out of memory")]
    OutOfMemory,
    /// The rows of the export have a different length than the table's.
    #[error("lengths differ")]
    Length,
    /// The fences of the export differ from the table's: the two have applied different parts of their logs.
    #[error("fences differ")]
    Fences,
    /// The table already has one of the rows.
    #[error("id already exists")]
    Exists,
}

/// For errors of decoding.
impl From<CountError> for ImportError {
    fn from(error: CountError) -> ImportError {
        match error {
            CountError::OutOfMemory => ImportError::OutOfMemory,
            _ => ImportError::Payload,
        }
    }
}

impl CountTab {
    /// The rows with ids in `min ..= max`, and all fences. None when the export is longer than `limit` bytes.
    pub fn export(&self, min: u64, max: u64, limit: usize) -> Option<Vec<u8>> {
        let mut out = self.header(true);
        for (first, page) in self.pages.iter_from(self.pages.locate(min)) {
            if first > max {
                break;
            }
            if out.len() > limit {
                return None;
            }
            let from = min
                .checked_sub(first)
                .map_or(0, |offset| page.find(offset).unwrap_or_else(|row| row));
            let to = page.find(max - first).map_or_else(|row| row, |row| row + 1);
            if from == 0 && to == page.rows() {
                wire::write(first, page, &mut out);
            } else if from < to {
                let parts = [RowSource::of(first, page, from..to)];
                let (first, page) = build(&parts, fitting(&parts, self.len()));
                wire::write(first, &page, &mut out);
            }
        }
        Some(with_checksum(out)).filter(|out| out.len() <= limit)
    }

    /// Splits the table into exports of at most `max_bytes` (at least 1 MB) and calls `emit` with each. Only the first
    /// contains the fences. A table without rows is one export.
    pub fn export_chunks(&self, max_bytes: usize, emit: &mut dyn FnMut(&[u8])) {
        let mut chunk = self.header(true);
        for (first, page) in self.pages.iter() {
            if chunk.len() + wire::size(page) + CHECKSUM > max_bytes {
                let full = std::mem::replace(&mut chunk, self.header(false));
                emit(&with_checksum(full));
            }
            wire::write(first, page, &mut chunk);
        }
        emit(&with_checksum(chunk));
    }

    fn header(&self, with_fences: bool) -> Vec<u8> {
        let fences = if with_fences {
            self.save_fences()
        } else {
            Vec::new()
        };
        let mut out = Vec::new();
        out.put_u32_le(MAGIC);
        out.put_u8(VERSION);
        out.put_u16_le(self.len);
        out.put_u16_le((fences.len() / FENCE) as u16);
        out.extend(fences);
        out
    }

    /// Decodes an [`export`](Self::export).
    ///
    /// # Errors
    /// [`ImportError::Payload`] or [`ImportError::OutOfMemory`].
    pub fn from_export(bytes: &[u8]) -> Result<CountTab, ImportError> {
        Ok(decode(bytes)?)
    }

    /// Adds the rows of another table, and its fences when this table has neither rows nor fences. Returns whether anything
    /// changed. O(k log n) for k rows.
    ///
    /// # Errors
    /// [`ImportError::Length`]; [`ImportError::Fences`] when the other table has fences that differ from this one's;
    /// [`ImportError::Exists`] when a row is in both.
    pub fn absorb(&mut self, other: CountTab) -> Result<bool, ImportError> {
        if other.len != self.len {
            return Err(ImportError::Length);
        }
        let fresh = self.is_empty() && self.fences.is_empty();
        if !fresh && !other.fences.is_empty() && other.fences != self.fences {
            return Err(ImportError::Fences);
        }
        if self.intersects(&other) {
            return Err(ImportError::Exists);
        }
        let changed = !other.is_empty() || (fresh && !other.fences.is_empty());
        if fresh {
            self.fences = other.fences.clone();
        }
        for (first, page) in other.pages.iter() {
            self.absorb_page(first, page);
        }
        Ok(changed)
    }

    /// Whether a row is in both tables.
    fn intersects(&self, other: &CountTab) -> bool {
        other.pages.iter().any(|(first, page)| {
            !self.is_free(first, first + page.last_offset())
                && (0..page.rows()).any(|row| self.contains(first + page.offset(row)))
        })
    }

    /// Whether the table has no rows in `min ..= max`.
    fn is_free(&self, min: u64, max: u64) -> bool {
        let mut id = Vec::new();
        self.scan(min, 1, &mut id);
        id.first().is_none_or(|&id| id > max)
    }

    /// Adds the rows of a page, none of which the table has: the whole page if it fits between two pages.
    fn absorb_page(&mut self, first: u64, page: &Page) {
        match self.gap(first, page) {
            Some(before) => {
                self.rows += page.rows() as u64;
                self.pages.insert_after(before, (first, page.clone()));
                let at = self.pages.locate(first);
                if let Some(at) =
                    at.filter(|_| page.rows() < merge_below(self.full_rows(page.cols())))
                {
                    self.merge(at);
                }
            }
            None => {
                let mut fields = Vec::new();
                for row in 0..page.rows() {
                    fields.clear();
                    fields.extend(page.nonzero(row));
                    self.insert(first + page.offset(row), &fields);
                }
            }
        }
    }

    /// The page after which this one fits as a whole. None when it overlaps a page or precedes all of them.
    fn gap(&self, first: u64, page: &Page) -> Option<Option<Place>> {
        let Some(place) = self.pages.locate(first) else {
            return Some(None);
        };
        let (other_first, other) = self.pages.get(place);
        let after = other_first + other.last_offset() < first;
        (after && self.is_free(first, first + page.last_offset())).then_some(Some(place))
    }
}

fn decode(bytes: &[u8]) -> Result<CountTab, CountError> {
    let (mut body, checksum) = bytes.split_last_chunk().ok_or(CountError::Payload)?;
    if crc32(body) != u32::from_le_bytes(*checksum)
        || body.read_u32::<LE>()? != MAGIC
        || body.read_u8()? != VERSION
    {
        return Err(CountError::Payload);
    }
    let len = u64::from(body.read_u16::<LE>()?);
    let fences = FENCE * usize::from(body.read_u16::<LE>()?);
    let fences = body.split_off(..fences).ok_or(CountError::Payload)?;
    let mut loader = BlobLoader::new(len, 0, fences)?;
    loader.push(body)?;
    Ok(loader.table)
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32(&bytes);
    bytes.put_u32_le(checksum);
    bytes
}

/// CRC-32 as in zip and PNG (IEEE 802.3), 8 bytes at a time ("slicing by 8", Kounavis and Berry 2005).
fn crc32(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(!0u32, |crc, word| {
        let word = u64::from_le_bytes(*word) ^ u64::from(crc);
        let parts = word.to_le_bytes().into_iter().zip(CRC_TABLES.iter().rev());
        parts.fold(0, |sum, (byte, table)| sum ^ table[usize::from(byte)])
    });
    let one = |crc: u32, &byte: &u8| CRC_TABLES[0][usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
    !rest.iter().fold(crc, one)
}

/// The CRC of each byte followed by 0 to 7 zero bytes.
static CRC_TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            };
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
    }
    let mut after = 1;
    while after < 8 {
        let mut i = 0;
        while i < 256 {
            let crc = tables[after - 1][i];
            tables[after][i] = (crc >> 8) ^ tables[0][(crc & 0xff) as usize];
            i += 1;
        }
        after += 1;
    }
    tables
};

/// The number of fences fits its two bytes.
const _: () = assert!(MAX_SOURCE < u16::MAX as usize);

#[cfg(test)]
mod tests {
    #[test]
    fn crc32_of_the_check_string() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
        let long: Vec<u8> = (0..=255).collect();
        assert_eq!(super::crc32(&long), 0x2905_8c73);
    }
}
