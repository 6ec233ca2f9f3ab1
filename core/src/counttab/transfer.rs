//! Parts of a table on their way to another: a range of rows, in a format of its own with a checksum.
//!
//! ```text
//! "CTAB" | version u8 = 1 | len u16 | number of fences u16 | fences | pages | CRC-32 of all before it
//! ```
//!
//! All numbers are little-endian; fences are as in `blobs`, pages as in `wire`, in ascending order.

use super::blobs::FENCE;
use super::build::{Part, build, fitting};
use super::directory::Place;
use super::page::Page;
use super::wire::{self, Bad};
use super::{CountTab, MAX_SLOT};

const MAGIC: &[u8; 4] = b"CTAB";
const VERSION: u8 = 1;
const HEAD: usize = MAGIC.len() + 1 + 2 + 2;
const CHECKSUM: usize = 4;

/// Why rows were not taken. Nothing has changed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The bytes are no export.
    #[error("invalid payload")]
    Payload,
    /// The allocator refused.
    #[error("out of memory")]
    OutOfMemory,
    /// The rows are of another length than the table's.
    #[error("lengths differ")]
    Length,
    /// The rows come from a table that has seen another part of its logs.
    #[error("fences differ")]
    Fences,
    /// A row is there already.
    #[error("id already exists")]
    Exists,
}

impl From<Bad> for ImportError {
    fn from(bad: Bad) -> ImportError {
        match bad {
            Bad::Payload => ImportError::Payload,
            Bad::OutOfMemory => ImportError::OutOfMemory,
        }
    }
}

impl CountTab {
    /// The rows with ids in `min ..= max`, and all fences; None where that comes to more than `limit` bytes.
    pub fn export(&self, min: u64, max: u64, limit: usize) -> Option<Vec<u8>> {
        let mut out = self.head(true);
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
                wire::put(first, page, &mut out);
            } else if from < to {
                let parts = [Part::Rows {
                    first,
                    page,
                    from,
                    to,
                }];
                let (first, page) = build(&parts, fitting(&parts, self.len()));
                wire::put(first, &page, &mut out);
            }
        }
        Some(seal(out)).filter(|out| out.len() <= limit)
    }

    /// Calls `emit` with exports of at most `max_bytes` (at least 1 MB), which together, in order, are the table. Only
    /// the first has the fences. A table without rows is one export.
    pub fn export_chunks(&self, max_bytes: usize, emit: &mut dyn FnMut(&[u8])) {
        let mut chunk = self.head(true);
        for (first, page) in self.pages.iter() {
            if chunk.len() + wire::size(page) + CHECKSUM > max_bytes {
                emit(&seal(std::mem::replace(&mut chunk, self.head(false))));
            }
            wire::put(first, page, &mut chunk);
        }
        emit(&seal(chunk));
    }

    fn head(&self, with_fences: bool) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(VERSION);
        out.extend_from_slice(&self.len.to_le_bytes());
        let fences = if with_fences {
            self.save_fences()
        } else {
            Vec::new()
        };
        out.extend_from_slice(&((fences.len() / FENCE) as u16).to_le_bytes());
        out.extend_from_slice(&fences);
        out
    }

    /// A table of what [`export`](Self::export) gave.
    ///
    /// # Errors
    /// [`ImportError::Payload`] or [`ImportError::OutOfMemory`].
    pub fn from_export(bytes: &[u8]) -> Result<CountTab, ImportError> {
        let (bytes, checksum) = bytes
            .split_last_chunk::<CHECKSUM>()
            .ok_or(ImportError::Payload)?;
        let (head, rest) = bytes
            .split_first_chunk::<HEAD>()
            .ok_or(ImportError::Payload)?;
        let &[a, b, c, d, version, len_low, len_high, low, high] = head;
        let fences = usize::from(u16::from_le_bytes([low, high])) * FENCE;
        let (fences, mut pages) = rest.split_at_checked(fences).ok_or(ImportError::Payload)?;
        if [a, b, c, d] != *MAGIC
            || version != VERSION
            || crc32(bytes) != u32::from_le_bytes(*checksum)
        {
            return Err(ImportError::Payload);
        }
        let len = usize::from(u16::from_le_bytes([len_low, len_high]));
        let mut table = CountTab::new(len).map_err(|_| ImportError::Payload)?;
        table
            .load_fences(fences)
            .map_err(|_| ImportError::Payload)?;
        let mut next = Some(0);
        while !pages.is_empty() {
            let (first, page) = wire::take(&mut pages)?;
            if next.is_none_or(|next| first < next) || page.exceeds(len) {
                return Err(ImportError::Payload);
            }
            next = (first + page.last_offset()).checked_add(1);
            table.append_page((first, page));
        }
        Ok(table)
    }

    /// Takes over the rows of another table, none of which may be here already, and its fences where this one has
    /// neither rows nor fences. Whether anything is another now. O(k log n) for k rows.
    ///
    /// # Errors
    /// [`ImportError::Length`]; [`ImportError::Fences`] where the other has fences, and not those of this one;
    /// [`ImportError::Exists`].
    pub fn absorb(&mut self, other: CountTab) -> Result<bool, ImportError> {
        if other.len != self.len {
            return Err(ImportError::Length);
        }
        let fresh = self.is_empty() && self.fences.is_empty();
        if !fresh && !other.fences.is_empty() && other.fences != self.fences {
            return Err(ImportError::Fences);
        }
        if self.meets(&other) {
            return Err(ImportError::Exists);
        }
        let changed = !other.is_empty() || (fresh && !other.fences.is_empty());
        if fresh {
            self.fences = other.fences.clone();
        }
        for (first, page) in other.pages.iter() {
            self.take_page(first, page);
        }
        Ok(changed)
    }

    /// Whether a row is in both.
    fn meets(&self, other: &CountTab) -> bool {
        other.pages.iter().any(|(first, page)| {
            !self.is_free(first, first + page.last_offset())
                && (0..page.rows()).any(|row| self.contains(first + page.offset(row)))
        })
    }

    /// Whether there is no row in `min ..= max`.
    fn is_free(&self, min: u64, max: u64) -> bool {
        let mut id = Vec::new();
        self.scan(min, 1, &mut id);
        id.first().is_none_or(|&id| id > max)
    }

    /// Adds the rows of a page, none of which is here.
    fn take_page(&mut self, first: u64, page: &Page) {
        match self.gap(first, page) {
            Some(before) => {
                self.rows += page.rows() as u64;
                self.pages.insert_after(before, (first, page.clone()));
                let at = self.pages.locate(first);
                if let Some(at) = at.filter(|_| page.rows() < self.full(page.cols()).div_ceil(4)) {
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

    /// The page after which all of this one fits; None where it would have to go into a page or before all others.
    fn gap(&self, first: u64, page: &Page) -> Option<Option<Place>> {
        let Some(place) = self.pages.locate(first) else {
            return Some(None);
        };
        let (other_first, other) = self.pages.get(place);
        let behind = other_first + other.last_offset() < first;
        (behind && self.is_free(first, first + page.last_offset())).then_some(Some(place))
    }

    /// Adds a page behind all others.
    pub(super) fn append_page(&mut self, (first, page): (u64, Page)) {
        self.rows += page.rows() as u64;
        self.pages
            .insert_after(self.pages.locate(u64::MAX), (first, page));
    }
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
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

/// What a byte comes to that 0 to 7 others follow.
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

/// Slots fit the number of fences.
const _: () = assert!(MAX_SLOT < u16::MAX as usize);

#[cfg(test)]
mod tests {
    #[test]
    fn crc32_of_the_check_string() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
        let long: Vec<u8> = (0..=255).collect();
        assert_eq!(super::crc32(&long), 0x2905_8c73);
    }
}
