//! Finding several counters of one row.

use super::{BitField, MAX_GROUPS, Page};

impl Page {
    /// A cursor over the counters of a row.
    #[inline]
    pub fn cursor(&self, row: usize) -> RowCursor<'_> {
        RowCursor {
            page: self,
            row,
            bit: self.start() + row * self.row_bits() + self.id_width() as usize,
            next: 0,
        }
    }
}

/// Finds counters in ascending order of their columns, so that each width is added up only once.
pub struct RowCursor<'p> {
    page: &'p Page,
    row: usize,
    /// The bit at which column `next` begins.
    bit: usize,
    next: usize,
}

impl RowCursor<'_> {
    /// The position and width of a counter. Columns must be ascending from call to call. None if the page has no such
    /// column.
    #[inline]
    pub fn field(&mut self, idx: usize) -> Option<BitField> {
        if self.page.cols() > MAX_GROUPS {
            return self.page.field(self.row, idx);
        }
        let widths = self.page.widths();
        let width = *widths.get(idx)?;
        let skipped = widths.get(self.next..idx)?;
        self.bit += skipped
            .iter()
            .map(|&width| usize::from(width))
            .sum::<usize>();
        self.next = idx;
        Some(BitField {
            bit: self.bit,
            width: u32::from(width),
        })
    }
}
