//! The body of a table in an RDB file: the length of its rows, the number of rows, the fences, and the pages in blobs of
//! at most 1 MB.

use byteorder::{LE, ReadBytesExt};
use bytes::BufMut;

use super::fences::MAX_SOURCE;
use super::page::Page;
use super::table::CountTab;
use super::wire;
use crate::countint::{CountError, FIELD_BYTES, FIELD_MAX};

/// The largest blob.
const MAX_BLOB: usize = 1 << 20;

/// The size of a serialized fence: source (2 bytes) and offset (5), little-endian.
pub(super) const FENCE: usize = 2 + FIELD_BYTES;

impl CountTab {
    /// Serializes the fences, at most 448 KB.
    pub fn save_fences(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.fences.iter().len() * FENCE);
        for (source, next) in self.fences.iter() {
            bytes.put_u16_le(source);
            bytes.put_uint_le(next, FIELD_BYTES);
        }
        bytes
    }

    /// Deserializes the bytes of [`save_fences`](Self::save_fences).
    fn load_fences(&mut self, mut bytes: &[u8]) -> Result<(), CountError> {
        let mut min = 0;
        while !bytes.is_empty() {
            let source = bytes.read_u16::<LE>()?;
            let next = bytes.read_uint::<LE>(FIELD_BYTES)?;
            let ascends = (min..=MAX_SOURCE).contains(&usize::from(source));
            if !ascends || !(1..=FIELD_MAX).contains(&next) {
                return Err(CountError::Payload);
            }
            min = usize::from(source) + 1;
            self.fences.set(source, next);
        }
        Ok(())
    }

    /// Calls `emit` with the pages, in blobs of 1 byte to 1 MB.
    pub fn save_blobs(&self, emit: &mut dyn FnMut(&[u8])) {
        let mut blob = Vec::new();
        for (first, page) in self.pages.iter() {
            if blob.len() + wire::size(page) > MAX_BLOB {
                emit(&blob);
                blob.clear();
            }
            wire::write(first, page, &mut blob);
        }
        if !blob.is_empty() {
            emit(&blob);
        }
    }

    /// Appends a page.
    fn append_page(&mut self, (first, page): (u64, Page)) {
        self.rows += page.rows() as u64;
        self.pages
            .insert_after(self.pages.locate(u64::MAX), (first, page));
    }
}

/// Loads a table from its blobs.
///
/// Allocates memory in proportion to the bytes received. The claimed number of rows is only validated at the end.
pub struct BlobLoader {
    rows: u64,
    pub(super) table: CountTab,
    /// The smallest id with which the next page may begin. None after the largest id.
    next: Option<u64>,
}

impl BlobLoader {
    /// A loader of a table with `rows` rows of `len` counters and these fences.
    ///
    /// # Errors
    /// [`CountError::Length`] or [`CountError::Payload`].
    pub fn new(len: u64, rows: u64, fences: &[u8]) -> Result<BlobLoader, CountError> {
        let mut table = CountTab::new(usize::try_from(len).unwrap_or(usize::MAX))?;
        table.load_fences(fences)?;
        Ok(BlobLoader {
            rows,
            table,
            next: Some(0),
        })
    }

    /// Loads the next blob. After an error the loader must not be used again.
    ///
    /// # Errors
    /// [`CountError::Payload`] or [`CountError::OutOfMemory`].
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), CountError> {
        while !bytes.is_empty() {
            let (first, page) = wire::read(&mut bytes)?;
            if self.next.is_none_or(|next| first < next) || page.exceeds(self.table.len()) {
                return Err(CountError::Payload);
            }
            self.next = (first + page.last_offset()).checked_add(1);
            self.table.append_page((first, page));
        }
        Ok(())
    }

    /// The table, if it has the claimed number of rows.
    ///
    /// # Errors
    /// [`CountError::Payload`].
    pub fn finish(self) -> Result<CountTab, CountError> {
        if self.table.rows == self.rows {
            Ok(self.table)
        } else {
            Err(CountError::Payload)
        }
    }
}
