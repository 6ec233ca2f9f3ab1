//! The serialization of a page in exports and RDB files: the first id (8 bytes, little-endian), then the bytes of the
//! page. The page's header determines its length. Reading checks every invariant of a page.

use byteorder::{LE, ReadBytesExt};
use bytes::BufMut;

use super::bits;
use super::page::{HEAD, Page, Shape, group_size, id_width, max_rows};
use crate::countint::CountError;

/// The width of the largest counter.
const MAX_WIDTH: u8 = 40;

/// The size of a page's first id in bytes.
const FIRST: usize = 8;

/// The number of bytes that [`write`] appends.
pub fn size(page: &Page) -> usize {
    FIRST + page.bytes().len()
}

/// Appends a page.
pub fn write(first: u64, page: &Page, out: &mut Vec<u8>) {
    out.put_u64_le(first);
    out.put_slice(page.bytes());
}

/// Reads the page at the beginning of `bytes`, with its first id, and advances `bytes` beyond it.
///
/// # Errors
/// [`CountError::Payload`] or [`CountError::OutOfMemory`].
pub fn read(bytes: &mut &[u8]) -> Result<(u64, Page), CountError> {
    let first = bytes.read_u64::<LE>()?;
    let page = page_len(bytes).and_then(|len| bytes.split_off(..len));
    let page = page.ok_or(CountError::Payload)?;
    let page = Page::from_bytes(page).ok_or(CountError::OutOfMemory)?;
    check(first, &page).map_err(|_| CountError::Payload)?;
    Ok((first, page))
}

/// The length of the page at the beginning of `bytes`. None when its header is invalid.
fn page_len(bytes: &[u8]) -> Option<usize> {
    let (&[rows, id_width, low, high], rest) = bytes.split_first_chunk::<HEAD>()?;
    let cols = usize::from(u16::from_le_bytes([low, high]));
    if cols == 0 || rows == 0 || usize::from(rows) > max_rows(cols) || id_width > 64 {
        return None;
    }
    let widths = rest.get(..cols.div_ceil(group_size(cols)))?;
    if widths.iter().any(|&width| width > MAX_WIDTH) {
        return None;
    }
    let shape = Shape {
        id_width: u32::from(id_width),
        cols,
        widths: widths.to_vec(),
    };
    Some(shape.bytes(usize::from(rows)))
}

/// Checks every invariant of a page whose header is valid.
pub fn check(first: u64, page: &Page) -> Result<(), &'static str> {
    let rows = page.rows();
    if page_len(page.raw()) != Some(page.bytes().len()) {
        return Err("invalid page header");
    }
    let last = first
        .checked_add(page.last_offset())
        .ok_or("an id above the maximum")?;
    if last - first < rows as u64 - 1 || id_width(first, last, rows) != page.id_width() {
        return Err("wrong width of ids");
    }
    if page.id_width() > 0 && page.offset(0) != 0 {
        return Err("the first offset is not 0");
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
