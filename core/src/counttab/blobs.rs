//! The body of a table in an RDB file: its length, its number of rows, the fences, and the pages in blobs of at most
//! 1 MB.

use super::wire::{self, Bad};
use super::{CountTab, MAX_SLOT};
use crate::countint::{CountError, FIELD_MAX};

/// No blob is longer.
const MAX_BLOB: usize = 1 << 20;

/// The bytes of a fence: slot (2) and offset (5), little-endian.
pub const FENCE: usize = 7;

impl CountTab {
    /// The fences as bytes, at most 448 KB.
    pub fn save_fences(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.fences.iter().len() * FENCE);
        for (slot, next) in self.fences.iter() {
            bytes.extend_from_slice(&slot.to_le_bytes());
            bytes.extend_from_slice(&next.to_le_bytes()[..FENCE - 2]);
        }
        bytes
    }

    /// Takes over the fences that [`save_fences`](Self::save_fences) gave.
    pub(super) fn load_fences(&mut self, bytes: &[u8]) -> Result<(), CountError> {
        let (fences, []) = bytes.as_chunks::<FENCE>() else {
            return Err(CountError::Payload);
        };
        let mut free = 0;
        for &[low, high, a, b, c, d, e] in fences {
            let slot = u16::from_le_bytes([low, high]);
            let next = u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]);
            if u32::from(slot) < free
                || usize::from(slot) > MAX_SLOT
                || !(1..=FIELD_MAX).contains(&next)
            {
                return Err(CountError::Payload);
            }
            free = u32::from(slot) + 1;
            self.fences.set(slot, next);
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
            wire::put(first, page, &mut blob);
        }
        if !blob.is_empty() {
            emit(&blob);
        }
    }
}

/// Makes a table of what was saved.
///
/// What it allocates is in proportion to the bytes that it is given; the stated number of rows is only compared.
pub struct BlobLoader {
    rows: u64,
    table: CountTab,
    /// The smallest id that the next page may begin with; None after the largest.
    next: Option<u64>,
}

impl BlobLoader {
    /// A loader of a table that is said to have so many rows, with these fences.
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

    /// Takes the next blob. After an error the loader is of no more use.
    ///
    /// # Errors
    /// [`CountError::Payload`], or [`CountError::OutOfMemory`] where the allocator refused.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), CountError> {
        while !bytes.is_empty() {
            let (first, page) = wire::take(&mut bytes).map_err(|bad| match bad {
                Bad::Payload => CountError::Payload,
                Bad::OutOfMemory => CountError::OutOfMemory,
            })?;
            if self.next.is_none_or(|next| first < next) || page.exceeds(self.table.len()) {
                return Err(CountError::Payload);
            }
            self.next = (first + page.last_offset()).checked_add(1);
            self.table.append_page((first, page));
        }
        Ok(())
    }

    /// The table, if it has as many rows as was said.
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
