//! Building a page of rows from other pages: the common step of inserting, removing, widening, splitting and merging.

use std::ops::Range;

use super::bits;
use super::page::{COLUMN_STEP, MAX_GROUPS, Page, Shape, common_columns, id_width};

/// A source of rows for a new page, in ascending order of their ids.
#[derive(Clone, Copy)]
pub enum RowSource<'a> {
    /// Rows `from..to` of a page whose first id is `first`.
    Rows {
        first: u64,
        page: &'a Page,
        from: usize,
        to: usize,
    },
    /// A new row and its counters; all others are 0.
    Row { id: u64, fields: &'a [(usize, u64)] },
}

impl<'a> RowSource<'a> {
    /// All rows of a page.
    pub fn all(first: u64, page: &'a Page) -> RowSource<'a> {
        RowSource::of(first, page, 0..page.rows())
    }

    /// Some rows of a page.
    pub fn of(first: u64, page: &'a Page, rows: Range<usize>) -> RowSource<'a> {
        RowSource::Rows {
            first,
            page,
            from: rows.start,
            to: rows.end,
        }
    }

    fn rows(&self) -> usize {
        match *self {
            RowSource::Rows { from, to, .. } => to - from,
            RowSource::Row { .. } => 1,
        }
    }

    /// The first and the last id. None without rows.
    fn ends(&self) -> Option<(u64, u64)> {
        match *self {
            RowSource::Rows { from, to, .. } if from >= to => None,
            RowSource::Rows {
                first,
                page,
                from,
                to,
            } => Some((first + page.offset(from), first + page.offset(to - 1))),
            RowSource::Row { id, .. } => Some((id, id)),
        }
    }
}

/// The first id, the last id and the number of rows of these parts, at least one.
fn ends(parts: &[RowSource]) -> (u64, u64, usize) {
    let mut ends = parts.iter().filter_map(RowSource::ends);
    let (first, mut last) = ends.next().unwrap_or_default();
    if let Some((_, end)) = ends.next_back() {
        last = end;
    }
    (first, last, parts.iter().map(RowSource::rows).sum())
}

/// The number of columns of a page whose rows use `used` of them, in a table of `len` columns.
pub fn columns(used: usize, len: usize) -> usize {
    used.max(1).next_multiple_of(COLUMN_STEP).min(len)
}

/// The number of columns up to the last one that is not 0.
pub fn used(fields: &[(usize, u64)]) -> usize {
    let used = fields.iter().filter(|&&(_, value)| value > 0);
    used.map(|&(idx, _)| idx + 1).max().unwrap_or(0)
}

/// The narrowest shape for these rows, without the counters from `len` on. Reads every value that is not 0.
pub fn fitting(parts: &[RowSource], len: usize) -> Shape {
    let max_used = parts.iter().map(|part| match part {
        RowSource::Rows { page, .. } => page.used(),
        RowSource::Row { fields, .. } => used(fields),
    });
    let max_used = max_used.max().unwrap_or(0).min(len);
    if max_used > MAX_GROUPS {
        fitting_many(parts, len)
    } else {
        fitting_few(parts, max_used, len)
    }
}

/// [`fitting`] for at most `max_used` used columns, so that each column has its own width.
fn fitting_few(parts: &[RowSource], max_used: usize, len: usize) -> Shape {
    // The bits that are set in any value of each column. They have the width of the largest value.
    let mut bits = [0; MAX_GROUPS];
    let bits = &mut bits[..max_used];
    for part in parts {
        match *part {
            RowSource::Rows { page, from, to, .. } => {
                let columns = bits.len().min(page.used());
                for row in from..to {
                    let mut places = bits.iter_mut();
                    page.for_each(row, columns, |value| {
                        if let Some(bits) = places.next() {
                            *bits |= value;
                        }
                    });
                }
            }
            RowSource::Row { fields, .. } => {
                for &(idx, value) in fields {
                    if let Some(bits) = bits.get_mut(idx) {
                        *bits |= value;
                    }
                }
            }
        }
    }
    let used = bits.iter().rposition(|&bits| bits > 0);
    let used = used.map_or(0, |last| last + 1);
    let mut shape = Shape::flat(columns(used, len));
    for (idx, &bits) in bits[..used].iter().enumerate() {
        shape.widen(idx, bits);
    }
    shape
}

/// [`fitting`] of any number of columns. It finds the last used column first, which determines the groups of columns.
fn fitting_many(parts: &[RowSource], len: usize) -> Shape {
    let mut used = 0;
    for_each_value(parts, len, |idx, _| used = used.max(idx + 1));
    let mut shape = Shape::flat(columns(used, len));
    for_each_value(parts, len, |idx, value| shape.widen(idx, value));
    shape
}

/// Calls `visit` with the column and the value of each counter that is not 0, in columns below `len`.
fn for_each_value(parts: &[RowSource], len: usize, mut visit: impl FnMut(usize, u64)) {
    let mut visit = |(idx, value)| {
        if idx < len && value > 0 {
            visit(idx, value);
        }
    };
    for part in parts {
        match *part {
            RowSource::Rows { page, from, to, .. } => {
                (from..to).for_each(|row| page.nonzero(row).for_each(&mut visit));
            }
            RowSource::Row { fields, .. } => fields.iter().copied().for_each(&mut visit),
        }
    }
}

/// Builds a page of these rows; returns it with its first id. Every counter must fit the shape, whose `id_width` is set here.
pub fn build(parts: &[RowSource], mut shape: Shape) -> (u64, Page) {
    let (first, last, rows) = ends(parts);
    shape.id_width = id_width(first, last, rows);
    let mut page = Page::with_capacity(&shape, rows);
    page.set_rows(rows);
    let stride = shape.row_bits();
    let mut bit = page.start();
    for part in parts {
        match *part {
            RowSource::Rows {
                first: old_first,
                page: old,
                from,
                to,
            } => {
                let plan = Plan::new(old, &shape, first == old_first);
                plan.copy(
                    old,
                    from..to,
                    old_first.wrapping_sub(first),
                    page.raw_mut(),
                    bit,
                );
            }
            RowSource::Row { id, fields } => {
                bits::store(
                    page.raw_mut(),
                    bit,
                    shape.id_width,
                    (id - first) & bits::ones(shape.id_width),
                );
                let row = (bit - page.start()).checked_div(stride).unwrap_or(0);
                put(&mut page, row, fields);
            }
        }
        bit += part.rows() * stride;
    }
    (first, page)
}

/// Sets counters of a row. The page must have bits for each value.
pub fn put(page: &mut Page, row: usize, fields: &[(usize, u64)]) {
    for &(idx, value) in fields {
        if let Some(field) = page.field(row, idx) {
            page.store(field, value);
        }
    }
}

/// A run of numbers to copy from an old row to a new one.
struct Run {
    from: usize,
    to: usize,
    /// The widths of a number in the old and the new row.
    widths: (u32, u32),
    /// The number of numbers. Unused if the widths are equal: then `len` bits are copied.
    count: usize,
    /// The number of bits in the old row.
    len: usize,
}

/// How to copy the rows of a page into a page of another shape.
struct Plan {
    runs: Vec<Run>,
    id_widths: (u32, u32),
    same_first: bool,
    strides: (usize, usize),
}

impl Plan {
    fn new(old: &Page, shape: &Shape, same_first: bool) -> Plan {
        let mut plan = Plan {
            runs: Vec::with_capacity(shape.widths.len().min(8)),
            id_widths: (old.id_width(), shape.id_width),
            same_first,
            strides: (old.row_bits(), shape.row_bits()),
        };
        let (mut from, mut to) = (old.id_width() as usize, shape.id_width as usize);
        let old_widths = old.widths();
        for common in common_columns(old.cols(), shape.cols) {
            let count = common.columns.len();
            let widths = (
                u32::from(old_widths[common.groups.0]),
                u32::from(shape.widths[common.groups.1]),
            );
            plan.push(from, to, widths, count);
            from += widths.0 as usize * count;
            to += widths.1 as usize * count;
        }
        plan
    }

    /// Adds a run. Adjacent runs that keep their widths are joined.
    fn push(&mut self, from: usize, to: usize, widths: (u32, u32), count: usize) {
        let len = widths.0 as usize * count;
        if len == 0 {
            return;
        }
        let same = widths.0 == widths.1;
        let adjoins = |run: &Run| run.from + run.len == from && run.to + run.len == to;
        match self.runs.last_mut() {
            Some(run) if same && run.widths.0 == run.widths.1 && adjoins(run) => run.len += len,
            _ => self.runs.push(Run {
                from,
                to,
                widths,
                count,
                len,
            }),
        }
    }

    /// Copies rows to `bit`, and adds `shift` to the offsets of their ids.
    fn copy(&self, old: &Page, rows: Range<usize>, shift: u64, to: &mut [u8], bit: usize) {
        let (old_stride, stride) = self.strides;
        let from = old.start() + rows.start * old_stride;
        let whole = self.runs.len() == 1 && self.runs[0].widths.0 == self.runs[0].widths.1;
        let same_ids =
            self.same_first && self.id_widths.0 == self.id_widths.1 || self.id_widths == (0, 0);
        if whole && same_ids && old_stride == stride {
            return bits::copy(old.raw(), from, to, bit, rows.len() * stride);
        }
        for (i, row) in rows.enumerate() {
            let (from, bit) = (from + i * old_stride, bit + i * stride);
            if self.id_widths.1 > 0 {
                let offset = old.offset(row).wrapping_add(shift);
                bits::store(to, bit, self.id_widths.1, offset);
            }
            self.runs
                .iter()
                .for_each(|run| run.copy(old.raw(), from, to, bit));
        }
    }
}

impl Run {
    #[inline]
    fn copy(&self, old: &[u8], from: usize, to: &mut [u8], bit: usize) {
        let (from, bit) = (from + self.from, bit + self.to);
        let (width, new_width) = self.widths;
        if width == new_width {
            return bits::copy(old, from, to, bit, self.len);
        }
        // The new page is all zeros, so only other values are stored.
        for (i, value) in bits::nonzero(old, from, width, self.count) {
            bits::store(to, bit + i * new_width as usize, new_width, value);
        }
    }
}
