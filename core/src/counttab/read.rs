//! Reads batches of rows.
//!
//! Rows of a large table, or of many small tables, are not in the CPU caches. Each step of a lookup is executed for a
//! whole batch of rows before the next step, so that the cache misses of the batch overlap.

use super::directory::{Directory, Place};
use super::page::Page;
use super::table::CountTab;
use crate::countint::FIELD_BYTES;

/// The number of rows of a batch.
const BATCH: usize = 32;

/// A page that may have a row, and the offset of the row's id from the page's first.
type Candidate<'t> = Option<(&'t Page, u64)>;

impl CountTab {
    /// Appends the first `len` counters of each of these rows, 5 big-endian bytes each. Missing counters are 0.
    pub fn read_packed(&self, ids: &[u64], len: usize, out: &mut Vec<u8>) {
        let fields = append_zeros(ids.len() * len, out);
        let places = fields.chunks_mut(BATCH * len.max(1));
        for (ids, fields) in ids.chunks(BATCH).zip(places) {
            let mut pages = [None; BATCH];
            for (page, &id) in pages.iter_mut().zip(ids) {
                *page = candidate(&self.pages, self.pages.locate(id), id);
            }
            pack_rows(&pages, len, fields);
        }
    }
}

/// Appends the first `len` counters of one row of each of these tables, 5 big-endian bytes each. Counters of missing
/// tables and rows are 0.
pub fn read_pairs<'t>(
    mut pairs: impl ExactSizeIterator<Item = (Option<&'t CountTab>, u64)>,
    len: usize,
    out: &mut Vec<u8>,
) {
    let fields = append_zeros(pairs.len() * len, out);
    for fields in fields.chunks_mut(BATCH * len.max(1)) {
        let mut groups = [None; BATCH];
        for (group, (table, id)) in groups.iter_mut().zip(&mut pairs) {
            *group = table.map(|table| (&table.pages, table.pages.group_of(id), id));
        }
        let mut pages = [None; BATCH];
        for (page, group) in pages.iter_mut().zip(groups) {
            *page = group.and_then(|(directory, group, id)| {
                candidate(directory, directory.locate_in(group, id), id)
            });
        }
        pack_rows(&pages, len, fields);
    }
}

/// Appends `count` counters that are 0.
fn append_zeros(count: usize, out: &mut Vec<u8>) -> &mut [[u8; FIELD_BYTES]] {
    let start = out.len();
    out.resize(start + count * FIELD_BYTES, 0);
    out[start..].as_chunks_mut().0
}

#[inline]
fn candidate(directory: &Directory, place: Option<Place>, id: u64) -> Candidate<'_> {
    let (first, page) = directory.get(place?);
    Some((page, id.checked_sub(first)?))
}

/// Writes the first `len` counters of each row into `fields`, which are 0.
fn pack_rows(pages: &[Candidate; BATCH], len: usize, fields: &mut [[u8; FIELD_BYTES]]) {
    prefetch(pages.iter().flatten().map(|(page, _)| page.raw()[0]));
    let mut rows: [Option<(&Page, usize)>; BATCH] = [None; BATCH];
    for (row, page) in rows.iter_mut().zip(pages) {
        *row = page.and_then(|(page, offset)| Some((page, page.find(offset).ok()?)));
    }
    prefetch(
        rows.iter()
            .flatten()
            .map(|(page, row)| page.first_byte(*row)),
    );
    for (row, fields) in rows.iter().zip(fields.chunks_exact_mut(len.max(1))) {
        if let Some((page, row)) = row {
            page.pack(*row, fields);
        }
    }
}

/// Reads bytes to bring their cache lines into the CPU caches.
fn prefetch(bytes: impl Iterator<Item = u8>) {
    std::hint::black_box(bytes.fold(0, |sum, byte| sum ^ byte));
}
