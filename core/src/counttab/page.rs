//! A page: up to some 64 rows in one allocation, each column as narrow as its values there allow.
//!
//! ```text
//! rows u8 | id width u8 | columns u16 LE | the width of each group of columns, u8 ... | rows, bit after bit
//! ```
//!
//! A row is its id, as an offset from the page's first id, and then its counters in order. All rows of a page are of
//! the same number of bits, so a row is one multiplication away. Ids that follow one another take no bits at all.
//! Counters that the page has no column for are 0: a table gains columns without touching its pages.
//!
//! Up to [`GROUPS`] columns have a width each; more share them in runs of equal length.

mod slots;
mod used;

pub use self::slots::Slot;

use super::bits::{self, width_of};
use super::cost;

/// The most widths that a page keeps.
pub const GROUPS: usize = 64;

/// The bytes before the widths.
pub const HEAD: usize = 4;

/// A page is not made larger than this by adding rows, whatever their values may become.
const MOST_BYTES: usize = 8192;

/// Rows of a page before it is full, where they are short.
const MOST_ROWS: usize = 64;

/// How many columns share a width.
#[inline]
pub fn group_size(cols: usize) -> usize {
    if cols <= GROUPS {
        1
    } else {
        cols.div_ceil(GROUPS)
    }
}

/// How many rows of so many columns fill a page.
pub fn full_rows(cols: usize) -> usize {
    (MOST_BYTES / (5 * cols.max(1))).clamp(1, MOST_ROWS)
}

/// A page has columns in multiples of this, as far as its table has so many: a few to spare, so that not each new one
/// takes a new page.
pub const COLUMNS: usize = 8;

/// The most rows that a page of so many columns may have. One that is full takes half as many again where its allocation
/// has room for them. After that its columns may be rounded up, when the table has got more.
pub fn most_rows(cols: usize) -> usize {
    full_rows(cols.saturating_sub(COLUMNS - 1)) * 3 / 2
}

/// Columns that have one width in a page of `from` columns and one in a page of `to`.
pub struct Shared {
    pub columns: std::ops::Range<usize>,
    /// Their group in either page.
    pub groups: (usize, usize),
}

/// The columns that two pages of so many have in common, cut where either begins another group: at most twice as many
/// pieces as a page has groups.
pub fn shared(from: usize, to: usize) -> impl Iterator<Item = Shared> {
    let (sizes, cols) = ((group_size(from), group_size(to)), from.min(to));
    let mut groups = (0, 0);
    let mut ends = sizes;
    let mut next = 0;
    std::iter::from_fn(move || {
        if next >= cols {
            return None;
        }
        cost::step();
        let end = ends.0.min(ends.1).min(cols);
        let piece = Shared {
            columns: next..end,
            groups,
        };
        if end == ends.0 {
            ends.0 += sizes.0;
            groups.0 += 1;
        }
        if end == ends.1 {
            ends.1 += sizes.1;
            groups.1 += 1;
        }
        next = end;
        Some(piece)
    })
}

/// The bytes to ask for so that none are lost to the rounding of the server's allocator (jemalloc's classes: steps
/// of 16 up to 128, then four to each doubling).
fn rounded(bytes: usize) -> usize {
    let step = match bytes {
        0..=128 => 16,
        _ => (bytes - 1).ilog2().checked_sub(2).map_or(1, |log| 1 << log),
    };
    bytes.next_multiple_of(step)
}

/// How the rows of a page are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The bits of an id's offset, 0 where ids follow one another.
    pub id_width: u32,
    /// The number of columns.
    pub cols: usize,
    /// The bits of a value of each group of columns.
    pub widths: Vec<u8>,
}

impl Shape {
    /// The shape for values that are all 0.
    pub fn flat(cols: usize) -> Shape {
        Shape {
            id_width: 0,
            cols,
            widths: vec![0; cols.div_ceil(group_size(cols))],
        }
    }

    /// Makes room for this value.
    pub fn widen(&mut self, idx: usize, value: u64) {
        let width = &mut self.widths[idx / group_size(self.cols)];
        *width = (*width).max(width_of(value) as u8);
    }

    /// The bits of a row.
    pub fn row_bits(&self) -> usize {
        row_bits(self.id_width, self.cols, &self.widths)
    }

    /// The bytes of a page of so many rows.
    pub fn bytes(&self, rows: usize) -> usize {
        HEAD + self.widths.len() + (rows * self.row_bits()).div_ceil(8)
    }
}

#[inline]
fn row_bits(id_width: u32, cols: usize, widths: &[u8]) -> usize {
    let sum: usize = widths.iter().map(|&width| usize::from(width)).sum();
    if cols <= GROUPS {
        return id_width as usize + sum;
    }
    let per_group = group_size(cols);
    let missing = per_group * widths.len() - cols; // in the last group
    let last = widths.last().map_or(0, |&width| usize::from(width));
    id_width as usize + sum * per_group - last * missing
}

/// The width of ids from `first` to `last`, of which there are `rows`.
pub fn id_width(first: u64, last: u64, rows: usize) -> u32 {
    let span = last - first;
    if span == rows as u64 - 1 {
        0
    } else {
        width_of(span)
    }
}

/// A page. Its first id is kept by the directory, where it is looked for.
#[derive(Clone, PartialEq, Eq)]
pub struct Page(Box<[u8]>);

impl Page {
    /// A page for so many rows, none of them there yet.
    pub fn with_room(shape: &Shape, rows: usize) -> Page {
        let mut page = Page(vec![0; rounded(shape.bytes(rows))].into_boxed_slice());
        page.write_head(shape);
        page
    }

    /// A page with the bytes of another; None where the allocator refuses, or where they cannot be a page's.
    pub fn from_bytes(bytes: &[u8]) -> Option<Page> {
        let mut copy = Vec::new();
        let size = rounded(bytes.len());
        copy.try_reserve_exact(size).ok()?;
        copy.extend_from_slice(bytes);
        copy.resize(size, 0);
        Some(Page(copy.into_boxed_slice()))
    }

    fn write_head(&mut self, shape: &Shape) {
        self.0[1] = shape.id_width as u8;
        self.0[2..HEAD].copy_from_slice(&(shape.cols as u16).to_le_bytes());
        self.0[HEAD..HEAD + shape.widths.len()].copy_from_slice(&shape.widths);
    }

    /// The number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        usize::from(self.0[0])
    }

    /// Says how many rows there are.
    pub fn set_rows(&mut self, rows: usize) {
        self.0[0] = rows as u8;
    }

    /// The bits of an id's offset.
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
        let groups = if cols <= GROUPS {
            cols
        } else {
            cols.div_ceil(group_size(cols))
        };
        &self.0[HEAD..HEAD + groups]
    }

    /// How the rows are laid out.
    pub fn shape(&self) -> Shape {
        Shape {
            id_width: self.id_width(),
            cols: self.cols(),
            widths: self.widths().to_vec(),
        }
    }

    /// The bits of a row.
    #[inline]
    pub fn row_bits(&self) -> usize {
        row_bits(self.id_width(), self.cols(), self.widths())
    }

    /// The bit at which rows begin.
    #[inline]
    pub fn start(&self) -> usize {
        (HEAD + self.widths().len()) * 8
    }

    /// The bytes, without those that the allocation has to spare.
    pub fn bytes(&self) -> &[u8] {
        &self.0[..(self.start() + self.rows() * self.row_bits()).div_ceil(8)]
    }

    /// All bytes, to be changed.
    pub fn raw_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// All bytes.
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

    /// The row whose id lies `offset` after the first one, or where it would be.
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
        // The row at `low` is never beyond the place: row 0 has offset 0.
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

    /// Reads a byte near the row whose id lies `offset` after the first one, of ids that span `span`, which are spread evenly
    /// for all that is known. Rows of a large table are not in the processor's caches: so it waits for the head of
    /// the page and for the row at once, not for one after the other.
    #[inline]
    pub fn expect(&self, offset: u64, span: u64) {
        let share = offset as f64 / span as f64;
        let near = (share * self.0.len() as f64) as usize;
        std::hint::black_box(self.0[near.min(self.0.len() - 1)]);
    }

    /// The first byte of a row, or the last one of the page where rows have no bits.
    #[inline]
    pub fn touched_by(&self, row: usize) -> u8 {
        let at = (self.start() + row * self.row_bits()) / 8;
        self.0[at.min(self.0.len() - 1)]
    }

    /// Where a counter is; None where the page has no such column.
    #[inline]
    pub fn slot(&self, row: usize, idx: usize) -> Option<Slot> {
        let (cols, widths) = (self.cols(), self.widths());
        if idx >= cols {
            return None;
        }
        let (per_group, group, within) = match cols {
            // A division takes longer than all the rest.
            ..=GROUPS => (1, idx, 0),
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
        Some(Slot {
            bit: self.start() + row * self.row_bits() + column,
            width,
        })
    }

    /// The value at a place.
    #[inline]
    pub fn load(&self, slot: Slot) -> u64 {
        bits::load(&self.0, slot.bit, slot.width)
    }

    /// Puts a value, which must fit, at a place.
    #[inline]
    pub fn store(&mut self, slot: Slot, value: u64) {
        bits::store(&mut self.0, slot.bit, slot.width, value);
    }

    /// A counter; 0 where the page has no such column.
    #[inline]
    pub fn get(&self, row: usize, idx: usize) -> u64 {
        self.slot(row, idx).map_or(0, |slot| self.load(slot))
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

    /// The columns up to the last one that has bits: those behind it are 0 in every row.
    pub fn used(&self) -> usize {
        let widths = self.widths();
        let groups = widths.iter().rposition(|&width| width > 0);
        groups.map_or(0, |last| {
            ((last + 1) * group_size(self.cols())).min(self.cols())
        })
    }

    /// Whether there is room for another row in the allocation.
    pub fn has_room(&self) -> bool {
        self.start() + (self.rows() + 1) * self.row_bits() <= self.0.len() * 8
    }
}

#[cfg(test)]
mod tests;
