//! Reads batches of rows.

use super::page::Page;
use super::table::CountTab;
use crate::countint::FIELD_BYTES;

/// The number of rows that are prefetched together.
const BATCH: usize = 32;

impl CountTab {
    /// Appends the first `len` counters of each of these rows, 5 big-endian bytes each. Missing counters are 0.
    pub fn read_packed(&self, ids: &[u64], len: usize, out: &mut Vec<u8>) {
        read_pairs(ids.iter().map(|&id| (Some(self), id)), len, out);
    }
}

/// Appends the first `len` counters of one row of each of these tables, 5 big-endian bytes each. Counters of missing
/// tables and rows are 0.
///
/// Rows of large tables, and small tables of a large number, are not in the CPU caches. Each step of a lookup is
/// executed for a whole batch of rows before the next step, so that the cache misses of the batch overlap.
pub fn read_pairs<'t>(
    mut pairs: impl ExactSizeIterator<Item = (Option<&'t CountTab>, u64)>,
    len: usize,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.resize(start + pairs.len() * len * FIELD_BYTES, 0);
    let (fields, _) = out[start..].as_chunks_mut();
    for places in fields.chunks_mut(BATCH * len.max(1)) {
        let mut tables = [None; BATCH];
        for (table, pair) in tables.iter_mut().zip(&mut pairs) {
            *table = Some(pair);
        }
        read_batch(&tables, len, places);
    }
}

/// Reads a batch of rows into `fields`, which are zeros.
fn read_batch(pairs: &[Option<(Option<&CountTab>, u64)>; BATCH], len: usize, fields: &mut [[u8; 5]]) {
    let mut groups = [(None, 0, 0); BATCH];
    for (group, pair) in groups.iter_mut().zip(pairs) {
        if let &Some((Some(table), id)) = pair {
            *group = (Some(&table.pages), table.pages.group_of(id), id);
        }
    }
    prefetch(groups.iter().filter_map(|(pages, group, _)| Some(pages.as_ref()?.touch(*group) as u8)));
    let mut pages = [None; BATCH];
    for (page, (directory, group, id)) in pages.iter_mut().zip(groups) {
        *page = directory.and_then(|directory| {
            let (first, page) = directory.get(directory.locate_in(group, id)?);
            Some((page, id.checked_sub(first)?))
        });
    }
    prefetch(pages.iter().flatten().map(|(page, _)| page.raw()[0]));
    let mut rows: [Option<(&Page, usize)>; BATCH] = [None; BATCH];
    for (row, page) in rows.iter_mut().zip(pages) {
        *row = page.and_then(|(page, offset)| Some((page, page.find(offset).ok()?)));
    }
    prefetch(rows.iter().flatten().map(|(page, row)| page.first_byte(*row)));
    for (fields, row) in fields.chunks_exact_mut(len.max(1)).zip(rows) {
        if let Some((page, row)) = row {
            page.pack(row, fields);
        }
    }
}

/// Reads bytes to bring their cache lines into the CPU caches.
fn prefetch(bytes: impl Iterator<Item = u8>) {
    std::hint::black_box(bytes.fold(0, |sum, byte| sum ^ byte));
}
