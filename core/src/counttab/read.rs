//! Reading many rows at once.

use super::CountTab;
use super::page::Page;
use crate::countint::FIELD_BYTES;

/// Rows that are looked for together.
const TOGETHER: usize = 32;

impl CountTab {
    /// Appends the first `len` counters of each of these rows, 5 big-endian bytes each; zeros for what is missing.
    ///
    /// Rows of a large table are not in the processor's caches. So each step towards them is taken for some rows before
    /// the next one: the processor then waits for all of them at once, instead of for one after the other.
    pub fn read_packed(&self, ids: &[u64], len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + ids.len() * len * FIELD_BYTES, 0);
        let (fields, _) = out[start..].as_chunks_mut();
        let mut places = fields.chunks_exact_mut(len.max(1));
        for ids in ids.chunks(TOGETHER) {
            let mut pages = [None; TOGETHER];
            for (page, &id) in pages.iter_mut().zip(ids) {
                let place = self.pages.locate(id);
                *page = place.map(|place| self.pages.get(place));
            }
            touch(pages.iter().flatten().map(|(_, page)| page.raw()[0]));
            let mut rows: [Option<(&Page, usize)>; TOGETHER] = [None; TOGETHER];
            for ((row, page), &id) in rows.iter_mut().zip(pages).zip(ids) {
                *row = page.and_then(|(first, page)| {
                    Some((page, page.find(id.checked_sub(first)?).ok()?))
                });
            }
            touch(
                rows.iter()
                    .flatten()
                    .map(|(page, row)| page.touched_by(*row)),
            );
            for (row, fields) in rows[..ids.len()].iter().zip(&mut places) {
                if let Some((page, row)) = row {
                    page.pack(*row, fields);
                }
            }
        }
    }
}

/// Reads bytes for the sake of what it brings into the caches.
fn touch(bytes: impl Iterator<Item = u8>) {
    std::hint::black_box(bytes.fold(0, |sum, byte| sum ^ byte));
}
