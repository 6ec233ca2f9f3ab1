//! Where the counters of a row are.

use super::{GROUPS, Page};

/// Where one counter of a row is.
#[derive(Clone, Copy)]
pub struct Slot {
    pub(super) bit: usize,
    /// The bits that it has.
    pub width: u32,
}

impl Page {
    /// The places of several counters of a row, which are asked for in ascending order.
    #[inline]
    pub fn slots(&self, row: usize) -> Slots<'_> {
        Slots {
            page: self,
            row,
            bit: self.start() + row * self.row_bits() + self.id_width() as usize,
            next: 0,
        }
    }
}

/// Looks for counters from the left to the right, so that what lies before them is added up once.
pub struct Slots<'p> {
    page: &'p Page,
    row: usize,
    /// Where column `next` begins.
    bit: usize,
    next: usize,
}

impl Slots<'_> {
    /// Where a counter is that lies behind those asked for before; None where the page has no such column.
    #[inline]
    pub fn slot(&mut self, idx: usize) -> Option<Slot> {
        if self.page.cols() > GROUPS {
            return self.page.slot(self.row, idx);
        }
        let widths = self.page.widths();
        let width = *widths.get(idx)?;
        let skipped = widths.get(self.next..idx)?;
        self.bit += skipped
            .iter()
            .map(|&width| usize::from(width))
            .sum::<usize>();
        self.next = idx;
        Some(Slot {
            bit: self.bit,
            width: u32::from(width),
        })
    }
}
