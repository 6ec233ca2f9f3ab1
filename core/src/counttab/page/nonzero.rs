//! The counters of a row that are not 0. Columns without bits are skipped, so the cost of a wide row depends on what it
//! stores, not on its width.

use super::{MAX_GROUPS, Page, group_size};
use crate::counttab::{bits, cost};

/// Columns that share a width greater than 0.
struct Group {
    /// The first column.
    first: usize,
    count: usize,
    width: u32,
    /// The bit of a row at which they begin.
    bit: usize,
}

impl Page {
    /// The groups of columns that have bits.
    fn groups(&self) -> impl Iterator<Item = Group> {
        let (cols, per_group) = (self.cols(), group_size(self.cols()));
        let mut bit = self.id_width() as usize;
        let widths = self.widths().iter().enumerate();
        widths
            .filter(|&(_, &width)| width > 0)
            .map(move |(group, &width)| {
                cost::step();
                let first = group * per_group;
                let group = Group {
                    first,
                    count: per_group.min(cols - first),
                    width: u32::from(width),
                    bit,
                };
                bit += group.count * usize::from(width);
                group
            })
    }

    /// The columns and values of the counters of a row that are not 0, in order.
    pub fn nonzero(&self, row: usize) -> impl Iterator<Item = (usize, u64)> {
        let start = self.start() + row * self.row_bits();
        self.groups().flat_map(move |group| {
            let values = bits::nonzero(self.raw(), start + group.bit, group.width, group.count);
            values.map(move |(i, value)| (group.first + i, value))
        })
    }

    /// Writes the counters of a row that are not 0 into `fields`, 5 big-endian bytes each. Columns beyond `fields` are left
    /// out.
    #[inline]
    pub fn pack(&self, row: usize, fields: &mut [[u8; 5]]) {
        if self.cols() > MAX_GROUPS {
            return self.pack_wide(row, fields);
        }
        let mut bit = self.start() + row * self.row_bits() + self.id_width() as usize;
        for (field, &width) in fields.iter_mut().zip(self.widths()) {
            *field = packed(bits::load(self.raw(), bit, u32::from(width)));
            bit += usize::from(width);
        }
    }

    fn pack_wide(&self, row: usize, fields: &mut [[u8; 5]]) {
        for (idx, value) in self.nonzero(row) {
            match fields.get_mut(idx) {
                Some(field) => *field = packed(value),
                None => break,
            }
        }
    }

    /// The largest value in the group of column `idx`.
    pub fn group_max(&self, idx: usize) -> u64 {
        let per_group = group_size(self.cols());
        let first = idx / per_group * per_group;
        let (count, stride) = (per_group.min(self.cols() - first), self.row_bits());
        let Some(field) = self.field(0, first) else {
            return 0;
        };
        let rows = (0..self.rows()).flat_map(|row| {
            bits::nonzero(self.raw(), field.bit + row * stride, field.width, count)
        });
        rows.map(|(_, value)| value).max().unwrap_or(0)
    }

    /// Whether any counter of the columns from `len` on is not 0.
    pub fn exceeds(&self, len: usize) -> bool {
        self.used() > len
            && (0..self.rows()).any(|row| self.nonzero(row).any(|(idx, _)| idx >= len))
    }
}

#[inline]
fn packed(value: u64) -> [u8; 5] {
    let [_, _, _, field @ ..] = value.to_be_bytes();
    field
}
