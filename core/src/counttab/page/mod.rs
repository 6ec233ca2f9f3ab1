//! A page: up to about 64 rows in one allocation, each column as narrow as its values in the page allow.
//!
//! ```text
//! rows u8 | id width u8 | columns u16 LE | the width of each group of columns, u8 ... | rows, bit after bit
//! ```
//!
//! A row is its id, as an offset from the page's first id (frame of reference), and then its counters in order. All rows
//! of a page have the same number of bits, so one multiplication finds a row. Consecutive ids take no bits at all.
//! Counters that the page has no column for are 0, so a table gains columns without changing its pages.
//!
//! Up to [`MAX_GROUPS`] columns have a width each. More columns share widths, in groups of equal size.

mod cursor;
mod layout;
mod nonzero;

pub use self::layout::{
    COLUMN_STEP, HEAD, MAX_GROUPS, Shape, common_columns, full_rows, group_size, id_width, max_rows,
};

use byteorder::{ByteOrder, LE};

use self::layout::row_bits;
use super::bits;
use crate::size_class::size_class;

/// The position and width of one counter in a page.
#[derive(Clone, Copy)]
pub struct BitField {
    bit: usize,
    /// The width in bits.
    pub width: u32,
}

/// A page. The directory stores its first id.
#[derive(Clone, PartialEq, Eq)]
pub struct Page(Box<[u8]>);

impl Page {
    /// A page without rows, with capacity for `rows` of them.
    pub fn with_capacity(shape: &Shape, rows: usize) -> Page {
        let mut page = Page(vec![0; allocation_size(shape.bytes(rows))].into_boxed_slice());
        page.write_head(shape);
        page
    }

    /// A page with these unvalidated bytes. None if the allocation fails.
    pub fn from_bytes(bytes: &[u8]) -> Option<Page> {
        let mut copy = Vec::new();
        let size = allocation_size(bytes.len());
        copy.try_reserve_exact(size).ok()?;
        copy.extend_from_slice(bytes);
        copy.resize(size, 0);
        Some(Page(copy.into_boxed_slice()))
    }

    fn write_head(&mut self, shape: &Shape) {
        self.0[1] = shape.id_width as u8;
        LE::write_u16(&mut self.0[2..HEAD], shape.cols as u16);
        self.0[HEAD..HEAD + shape.widths.len()].copy_from_slice(&shape.widths);
    }

    /// The number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        usize::from(self.0[0])
    }

    /// Sets the number of rows.
    pub fn set_rows(&mut self, rows: usize) {
        self.0[0] = rows as u8;
    }

    /// The width of an id's offset.
    #[inline]
    pub fn id_width(&self) -> u32 {
        u32::from(self.0[1])
    }

    /// The number of columns.
    #[inline]
    pub fn cols(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[2], self.0[3]]))
    }

    /// The widths of the groups of columns.
    #[inline]
    pub fn widths(&self) -> &[u8] {
        let cols = self.cols();
        let groups = if cols <= MAX_GROUPS {
            cols
        } else {
            cols.div_ceil(group_size(cols))
        };
        &self.0[HEAD..HEAD + groups]
    }

    /// The layout of the rows.
    pub fn shape(&self) -> Shape {
        Shape {
            id_width: self.id_width(),
            cols: self.cols(),
            widths: self.widths().to_vec(),
        }
    }

    /// The size of a row in bits.
    #[inline]
    pub fn row_bits(&self) -> usize {
        row_bits(self.id_width(), self.cols(), self.widths())
    }

    /// The bit at which the rows begin.
    #[inline]
    pub fn start(&self) -> usize {
        (HEAD + self.widths().len()) * 8
    }

    /// The bytes in use, without the spare bytes of the allocation.
    pub fn bytes(&self) -> &[u8] {
        &self.0[..(self.start() + self.rows() * self.row_bits()).div_ceil(8)]
    }

    /// All bytes of the allocation, mutable.
    pub fn raw_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// All bytes of the allocation.
    #[inline]
    pub fn raw(&self) -> &[u8] {
        &self.0
    }

    /// The offset of a row's id from the page's first.
    #[inline]
    pub fn offset(&self, row: usize) -> u64 {
        match self.id_width() {
            0 => row as u64,
            width => bits::load(&self.0, self.start() + row * self.row_bits(), width),
        }
    }

    /// The offset of the last id.
    pub fn last_offset(&self) -> u64 {
        self.offset(self.rows() - 1)
    }

    /// The row of the id at `offset`: `Err` with the row before which it would be inserted. A branch-free binary search.
    #[inline]
    pub fn find(&self, offset: u64) -> Result<usize, usize> {
        let (rows, width) = (self.rows(), self.id_width());
        if width == 0 {
            return if offset < rows as u64 {
                Ok(offset as usize)
            } else {
                Err(rows)
            };
        }
        let (start, stride) = (self.start(), self.row_bits());
        let (mut low, mut size) = (0, rows);
        // The offset of row `low` is never greater than `offset`: that of row 0 is 0.
        while size > 1 {
            let half = size / 2;
            let at = bits::load(&self.0, start + (low + half) * stride, width);
            low = if at <= offset { low + half } else { low };
            size -= half;
        }
        match bits::load(&self.0, start + low * stride, width) {
            at if at == offset => Ok(low),
            _ => Err(low + 1),
        }
    }

    /// Prefetches the row at `offset`, of ids that span `span`, assuming that the ids are evenly distributed. The rows of a
    /// large table are not in the CPU caches: the cache misses of the page's head and of the row then overlap.
    #[inline]
    pub fn prefetch(&self, offset: u64, span: u64) {
        let share = offset as f64 / span as f64;
        let near = (share * self.0.len() as f64) as usize;
        std::hint::black_box(self.0[near.min(self.0.len() - 1)]);
    }

    /// The first byte of a row, to prefetch it; the last byte of the page where rows have no bits.
    #[inline]
    pub fn first_byte(&self, row: usize) -> u8 {
        let at = (self.start() + row * self.row_bits()) / 8;
        self.0[at.min(self.0.len() - 1)]
    }

    /// The position and width of a counter. None if the page has no such column.
    #[inline]
    pub fn field(&self, row: usize, idx: usize) -> Option<BitField> {
        let (cols, widths) = (self.cols(), self.widths());
        if idx >= cols {
            return None;
        }
        let (per_group, group, within) = match cols {
            // Avoids a division, which would dominate the cost.
            ..=MAX_GROUPS => (1, idx, 0),
            _ => {
                let per_group = group_size(cols);
                (per_group, idx / per_group, idx % per_group)
            }
        };
        let before: usize = widths[..group]
            .iter()
            .map(|&width| usize::from(width))
            .sum();
        let width = u32::from(widths[group]);
        let column = self.id_width() as usize + before * per_group + within * width as usize;
        Some(BitField {
            bit: self.start() + row * self.row_bits() + column,
            width,
        })
    }

    /// The value of a counter.
    #[inline]
    pub fn load(&self, field: BitField) -> u64 {
        bits::load(&self.0, field.bit, field.width)
    }

    /// Stores the value of a counter. It must fit.
    #[inline]
    pub fn store(&mut self, field: BitField, value: u64) {
        bits::store(&mut self.0, field.bit, field.width, value);
    }

    /// The value of a counter; 0 when the page has no such column.
    #[inline]
    pub fn get(&self, row: usize, idx: usize) -> u64 {
        self.field(row, idx).map_or(0, |field| self.load(field))
    }

    /// The first `len` counters of a row, in order.
    #[inline]
    pub fn for_each(&self, row: usize, len: usize, mut visit: impl FnMut(u64)) {
        let (cols, widths) = (self.cols(), self.widths());
        let per_group = group_size(cols);
        let mut bit = self.start() + row * self.row_bits() + self.id_width() as usize;
        let mut left = len.min(cols);
        for &width in widths {
            for _ in 0..per_group.min(left) {
                visit(bits::load(&self.0, bit, u32::from(width)));
                bit += usize::from(width);
            }
            left = left.saturating_sub(per_group);
        }
        (cols..len).for_each(|_| visit(0));
    }

    /// The number of columns up to the last one that has bits. All later columns are 0 in every row.
    pub fn used(&self) -> usize {
        let widths = self.widths();
        let groups = widths.iter().rposition(|&width| width > 0);
        groups.map_or(0, |last| {
            ((last + 1) * group_size(self.cols())).min(self.cols())
        })
    }

    /// Whether the allocation has room for another row.
    pub fn has_room(&self) -> bool {
        self.start() + (self.rows() + 1) * self.row_bits() <= self.0.len() * 8
    }
}

/// The size of a page's allocation: jemalloc's size class, so that rounding up loses no bytes.
fn allocation_size(bytes: usize) -> usize {
    size_class(bytes.max(16))
}

#[cfg(test)]
mod tests;
