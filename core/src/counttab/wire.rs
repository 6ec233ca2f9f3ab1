//! Pages as they are exported and saved: the first id (8 bytes, little-endian) and the page's bytes, whose length the
//! page itself tells. Everything is checked when they come back.

use super::bits;
use super::page::{HEAD, Page, Shape, group_size, id_width, most_rows};

/// The bytes of the largest counter's width.
const MOST_BITS: u8 = 40;

/// The bytes of a page's first id.
const FIRST: usize = 8;

/// How many bytes [`put`] adds.
pub fn size(page: &Page) -> usize {
    FIRST + page.bytes().len()
}

/// Appends a page.
pub fn put(first: u64, page: &Page, out: &mut Vec<u8>) {
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(page.bytes());
}

/// Why bytes did not become a page.
#[derive(Debug, PartialEq, Eq)]
pub enum Bad {
    /// They are none.
    Payload,
    /// The allocator refused.
    OutOfMemory,
}

/// Takes the page at the beginning of `bytes` off them, with its first id.
pub fn take(bytes: &mut &[u8]) -> Result<(u64, Page), Bad> {
    let (first, rest) = bytes.split_first_chunk::<FIRST>().ok_or(Bad::Payload)?;
    let first = u64::from_le_bytes(*first);
    let len = length(rest).ok_or(Bad::Payload)?;
    let (page, rest) = rest.split_at_checked(len).ok_or(Bad::Payload)?;
    let page = Page::from_bytes(page).ok_or(Bad::OutOfMemory)?;
    check(first, &page).map_err(|_| Bad::Payload)?;
    *bytes = rest;
    Ok((first, page))
}

/// How many bytes the page at the beginning of `bytes` has, if its head is a page's.
fn length(bytes: &[u8]) -> Option<usize> {
    let (&[rows, id_width, low, high], rest) = bytes.split_first_chunk::<HEAD>()?;
    let cols = usize::from(u16::from_le_bytes([low, high]));
    if cols == 0 || rows == 0 || usize::from(rows) > most_rows(cols) || id_width > 64 {
        return None;
    }
    let widths = rest.get(..cols.div_ceil(group_size(cols)))?;
    if widths.iter().any(|&width| width > MOST_BITS) {
        return None;
    }
    let shape = Shape {
        id_width: u32::from(id_width),
        cols,
        widths: widths.to_vec(),
    };
    Some(shape.bytes(usize::from(rows)))
}

/// Checks all that a page promises. Its head is in order.
pub fn check(first: u64, page: &Page) -> Result<(), &'static str> {
    let rows = page.rows();
    if length(page.raw()) != Some(page.bytes().len()) {
        return Err("a damaged head");
    }
    let last = first
        .checked_add(page.last_offset())
        .ok_or("ids beyond the largest")?;
    if last - first < rows as u64 - 1 || id_width(first, last, rows) != page.id_width() {
        return Err("ids of a wrong width");
    }
    if page.id_width() > 0 && page.offset(0) != 0 {
        return Err("the first id is another");
    }
    if page.id_width() > 0 && (1..rows).any(|row| page.offset(row - 1) >= page.offset(row)) {
        return Err("ids out of order");
    }
    let (end, bytes) = (page.start() + rows * page.row_bits(), page.bytes().len());
    if bits::load(page.bytes(), end, (bytes * 8 - end) as u32) != 0 {
        return Err("bits after the last row");
    }
    Ok(())
}
