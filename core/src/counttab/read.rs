//! Reads batches of rows.

use super::page::Page;
use super::table::CountTab;
use crate::countint::FIELD_BYTES;

/// The number of rows that are prefetched together.
const BATCH: usize = 32;

impl CountTab {
    /// Appends the first `len` counters of each of these rows, 5 big-endian bytes each. Missing counters are 0.
    ///
    /// Rows of a large table are not in the CPU caches. Each step of a lookup is executed for a whole batch of rows
    /// before the next step, so that the cache misses of the batch overlap.
    pub fn read_packed(&self, ids: &[u64], len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + ids.len() * len * FIELD_BYTES, 0);
        let (fields, _) = out[start..].as_chunks_mut();
        let mut places = fields.chunks_exact_mut(len.max(1));
        for ids in ids.chunks(BATCH) {
            let mut pages = [None; BATCH];
            for (page, &id) in pages.iter_mut().zip(ids) {
                let place = self.pages.locate(id);
                *page = place.map(|place| self.pages.get(place));
            }
            prefetch(pages.iter().flatten().map(|(_, page)| page.raw()[0]));
            let mut rows: [Option<(&Page, usize)>; BATCH] = [None; BATCH];
            for ((row, page), &id) in rows.iter_mut().zip(pages).zip(ids) {
                *row = page.and_then(|(first, page)| {
                    Some((page, page.find(id.checked_sub(first)?).ok()?))
                });
            }
            prefetch(
                rows.iter()
                    .flatten()
                    .map(|(page, row)| page.first_byte(*row)),
            );
            for (row, fields) in rows[..ids.len()].iter().zip(&mut places) {
                if let Some((page, row)) = row {
                    page.pack(*row, fields);
                }
            }
        }
    }
}

/// Reads bytes to bring their cache lines into the CPU caches.
fn prefetch(bytes: impl Iterator<Item = u8>) {
    std::hint::black_box(bytes.fold(0, |sum, byte| sum ^ byte));
}
