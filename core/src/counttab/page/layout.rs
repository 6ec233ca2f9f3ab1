//! How the rows of a page are laid out: the number of columns, their groups and the width of each group.

use std::ops::Range;

use crate::counttab::bits::width_of;
use crate::counttab::cost;

/// The maximum number of widths in a page.
pub const MAX_GROUPS: usize = 64;

/// The size of the header before the widths, in bytes.
pub const HEAD: usize = 4;

/// Adding a row never makes a page larger than this, assuming the widest values.
const MAX_BYTES: usize = 8192;

/// The number of rows of a full page with short rows.
const MAX_ROWS: usize = 64;

/// The number of columns of a page is a multiple of this, up to the number of columns of the table. The spare columns
/// keep most new columns from rebuilding the page.
pub const COLUMN_STEP: usize = 8;

/// The number of columns that share a width.
#[inline]
pub fn group_size(cols: usize) -> usize {
    if cols <= MAX_GROUPS {
        1
    } else {
        cols.div_ceil(MAX_GROUPS)
    }
}

/// The number of rows of a full page with `cols` columns.
pub fn full_rows(cols: usize) -> usize {
    (MAX_BYTES / (5 * cols.max(1))).clamp(1, MAX_ROWS)
}

/// The maximum number of rows of a page with `cols` columns. A full page takes half as many rows again if its
/// allocation has room for them, and its columns may be rounded up later, when the table has more of them.
pub fn max_rows(cols: usize) -> usize {
    full_rows(cols.saturating_sub(COLUMN_STEP - 1)) * 3 / 2
}

/// Columns that are in one group of each of two pages.
pub struct CommonColumns {
    pub columns: Range<usize>,
    /// Their group in the first and in the second page.
    pub groups: (usize, usize),
}

/// The columns that pages of `from` and `to` columns have in common, split where either page begins a group: at most
/// twice as many ranges as a page has groups.
pub fn common_columns(from: usize, to: usize) -> impl Iterator<Item = CommonColumns> {
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
        let common = CommonColumns {
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
        Some(common)
    })
}

/// The layout of a page's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The width of an id's offset; 0 for consecutive ids.
    pub id_width: u32,
    /// The number of columns.
    pub cols: usize,
    /// The width of a value, for each group of columns.
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

    /// Makes column `idx` wide enough for `value`.
    pub fn widen(&mut self, idx: usize, value: u64) {
        let width = &mut self.widths[idx / group_size(self.cols)];
        *width = (*width).max(width_of(value) as u8);
    }

    /// The size of a row in bits.
    pub fn row_bits(&self) -> usize {
        row_bits(self.id_width, self.cols, &self.widths)
    }

    /// The size in bytes of a page of `rows` rows.
    pub fn bytes(&self, rows: usize) -> usize {
        HEAD + self.widths.len() + (rows * self.row_bits()).div_ceil(8)
    }
}

/// The size of a row in bits.
#[inline]
pub fn row_bits(id_width: u32, cols: usize, widths: &[u8]) -> usize {
    let sum: usize = widths.iter().map(|&width| usize::from(width)).sum();
    if cols <= MAX_GROUPS {
        return id_width as usize + sum;
    }
    let per_group = group_size(cols);
    let missing = per_group * widths.len() - cols; // in the last group
    let last = widths.last().map_or(0, |&width| usize::from(width));
    id_width as usize + sum * per_group - last * missing
}

/// The width of the ids of `rows` rows, from `first` to `last`.
pub fn id_width(first: u64, last: u64, rows: usize) -> u32 {
    let span = last - first;
    if span == rows as u64 - 1 {
        0
    } else {
        width_of(span)
    }
}
