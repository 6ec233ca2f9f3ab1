//! Changing counters and adding rows. What fits is done in place; else one page is made anew.

use super::CountTab;
use super::bits::{self, width_of};
use super::build::{Part, build, fitting, put};
use super::directory::Place;
use super::page::{Page, Shape, Slot, group_size, id_width};
use crate::countint::{CountError, FIELD_MAX, Overflow, Step};

/// A column is made narrower once its values would leave so many bits unused.
const SPARE_BITS: u32 = 4;

/// Whether a value may take the place of another as it is: it fits, and is not the last one for which a column is wide.
#[inline]
pub(super) fn keeps_width(slot: Slot, old: u64, new: u64) -> bool {
    let enough = slot.width.saturating_sub(SPARE_BITS);
    let (old, new) = (width_of(old), width_of(new));
    new <= slot.width && (old <= enough || new > enough)
}

/// What one increment did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Increment {
    /// The counter before and after.
    pub step: Step,
    /// Whether the row was not there before.
    pub created: bool,
}

impl CountTab {
    /// Adds `delta` to a counter; a missing row is created.
    ///
    /// # Errors
    /// [`CountError::IndexOutOfRange`], or [`CountError::Overflow`] under [`Overflow::Fail`]; nothing has changed then.
    #[inline]
    pub fn incr(
        &mut self,
        id: u64,
        idx: usize,
        delta: i64,
        o: Overflow,
    ) -> Result<Increment, CountError> {
        if idx >= self.len() {
            return Err(CountError::IndexOutOfRange);
        }
        let found = self.find(id);
        let slot = found.and_then(|(place, row)| self.pages.get(place).1.slot(row, idx));
        let old = found
            .zip(slot)
            .map_or(0, |((place, _), slot)| self.pages.get(place).1.load(slot));
        let step = Step::saturating(old, delta);
        if step.saturated && o == Overflow::Fail {
            return Err(CountError::Overflow);
        }
        match (found, slot) {
            (Some(_), _) if step.new == old => {}
            (Some((place, _)), Some(slot)) if keeps_width(slot, old, step.new) => {
                self.pages.get_mut(place).store(slot, step.new);
            }
            (Some((place, row)), _) => self.write(place, row, &[(idx, step.new)]),
            (None, _) => self.insert(id, &[(idx, step.new)]),
        }
        Ok(Increment {
            step,
            created: found.is_none(),
        })
    }

    /// Sets counters of a row, the last value of a repeated index; a missing row is created. Whether anything is
    /// another now.
    ///
    /// # Errors
    /// [`CountError::ValueOutOfRange`] for any pair, else [`CountError::IndexOutOfRange`]; nothing has changed then.
    pub fn set(&mut self, id: u64, fields: &[(usize, u64)]) -> Result<bool, CountError> {
        if fields.iter().any(|&(_, value)| value > FIELD_MAX) {
            return Err(CountError::ValueOutOfRange);
        }
        if fields.iter().any(|&(idx, _)| idx >= self.len()) {
            return Err(CountError::IndexOutOfRange);
        }
        if fields.len() == 1 {
            return Ok(self.put_row(id, fields));
        }
        let mut last = fields.to_vec();
        // Stable, and from the end: of a repeated index the last one comes first, and stays.
        last.reverse();
        last.sort_by_key(|&(idx, _)| idx);
        last.dedup_by_key(|&mut (idx, _)| idx);
        Ok(self.put_row(id, &last))
    }

    /// Gives counters of a row, each named once, these values. Whether anything is another now.
    pub(super) fn put_row(&mut self, id: u64, fields: &[(usize, u64)]) -> bool {
        let Some((place, row)) = self.find(id) else {
            self.insert(id, fields);
            return true;
        };
        let page = self.pages.get(place).1;
        let changed = fields
            .iter()
            .any(|&(idx, value)| page.get(row, idx) != value);
        if changed {
            self.write(place, row, fields);
        }
        changed
    }

    pub(super) fn write(&mut self, place: Place, row: usize, fields: &[(usize, u64)]) {
        let page = self.pages.get_mut(place);
        let fits = |&(idx, value): &(usize, u64)| {
            page.slot(row, idx)
                .map_or(value == 0, |slot| width_of(value) <= slot.width)
        };
        if !fields.iter().all(fits) {
            return self.widen(place, row, fields);
        }
        let mut narrower = false;
        for &(idx, value) in fields {
            let Some(slot) = page.slot(row, idx) else {
                continue;
            };
            let enough = slot.width.saturating_sub(SPARE_BITS);
            let was_wide = width_of(page.load(slot)) > enough;
            page.store(slot, value);
            // Only the last wide value of a column that leaves can make it narrower.
            narrower |=
                was_wide && width_of(value) <= enough && width_of(page.largest(idx)) <= enough;
        }
        if narrower {
            self.refit(place);
        }
    }

    /// Makes a page as narrow as it can be.
    fn refit(&mut self, place: Place) {
        let (first, page) = self.pages.get(place);
        let parts = [Part::Rows {
            first,
            page,
            from: 0,
            to: page.rows(),
        }];
        let fitted = build(&parts, fitting(&parts, self.len()));
        self.pages.replace(place, fitted);
    }

    /// Makes a page in which these values fit, and puts them there.
    fn widen(&mut self, place: Place, row: usize, fields: &[(usize, u64)]) {
        let (first, page) = self.pages.get(place);
        let shape = self.widened(page, fields);
        if page.rows() > self.full(shape.cols) * 3 / 2 {
            let id = first + page.offset(row);
            self.split_for(place, shape.cols);
            self.put_row(id, fields);
            return;
        }
        let parts = [Part::Rows {
            first,
            page,
            from: 0,
            to: page.rows(),
        }];
        let (first, mut page) = build(&parts, shape);
        put(&mut page, row, fields);
        self.pages.replace(place, (first, page));
    }

    /// The shape of a page with room for these values, and for as many columns as it then needs.
    fn widened(&self, page: &Page, fields: &[(usize, u64)]) -> Shape {
        let mut shape = page.shape();
        if fields
            .iter()
            .any(|&(idx, value)| idx >= shape.cols && value > 0)
        {
            shape = reshaped(&shape, self.len());
        }
        for &(idx, value) in fields {
            if idx < shape.cols {
                shape.widen(idx, value);
            }
        }
        shape
    }

    /// Cuts a page into pages that a shape of so many columns lets be full.
    fn split_for(&mut self, place: Place, cols: usize) {
        let (first, page) = self.pages.get(place);
        let (rows, size) = (page.rows(), self.full(cols));
        let pieces = (0..rows).step_by(size).map(|from| {
            let parts = [Part::Rows {
                first,
                page,
                from,
                to: (from + size).min(rows),
            }];
            build(&parts, fitting(&parts, self.len()))
        });
        let pieces: Vec<_> = pieces.collect();
        let mut pieces = pieces.into_iter();
        let Some(head) = pieces.next() else { return };
        self.pages.replace(place, head);
        for piece in pieces {
            // Its place is behind the one before it, wherever that is now.
            self.pages.insert_after(self.pages.locate(piece.0), piece);
        }
    }

    /// Adds a row that is not there.
    pub(super) fn insert(&mut self, id: u64, fields: &[(usize, u64)]) {
        self.rows += 1;
        let Some(place) = self.pages.locate(id) else {
            let page = self.lone(id, fields);
            return self.pages.insert_first(page);
        };
        let (first, page) = self.pages.get(place);
        let row = id
            .checked_sub(first)
            .map_or(0, |offset| page.find(offset).unwrap_or_else(|row| row));
        let end = row == page.rows();
        if end && self.append(place, id, fields) {
            return;
        }
        let (first, page) = self.pages.get(place);
        let shape = self.widened(page, fields);
        if self.takes(page, &shape) {
            let parts = [
                Part::Rows {
                    first,
                    page,
                    from: 0,
                    to: row,
                },
                Part::Row { id, fields },
                Part::Rows {
                    first,
                    page,
                    from: row,
                    to: page.rows(),
                },
            ];
            let page = build(&parts, shape);
            return self.pages.replace(place, page);
        }
        if end || id < first {
            // At an end a page of its own, so that ids in sequence, either way, leave full pages behind.
            let page = self.lone(id, fields);
            return if end {
                self.pages.insert_after(Some(place), page)
            } else {
                self.pages.insert_first(page)
            };
        }
        // In between there are two rows at least.
        let half = page.rows().div_ceil(2);
        self.cut(place, half);
        self.rows -= 1;
        self.insert(id, fields);
    }

    /// Whether a page may get one more row and this shape. One that is full only does so where that costs no memory.
    fn takes(&self, page: &Page, shape: &Shape) -> bool {
        let (rows, full) = (page.rows(), self.full(shape.cols));
        rows < full || rows < full * 3 / 2 && page.has_room() && shape.widths == page.widths()
    }

    /// Cuts a page in two before `row`, which is not the first one.
    pub(super) fn cut(&mut self, place: Place, row: usize) {
        let (first, page) = self.pages.get(place);
        let [lower, upper] = [(0, row), (row, page.rows())].map(|(from, to)| {
            let parts = [Part::Rows {
                first,
                page,
                from,
                to,
            }];
            build(&parts, fitting(&parts, self.len()))
        });
        self.pages.replace(place, lower);
        self.pages.insert_after(Some(place), upper);
    }

    fn lone(&self, id: u64, fields: &[(usize, u64)]) -> (u64, Page) {
        let mut shape = Shape::flat(self.len());
        fields
            .iter()
            .for_each(|&(idx, value)| shape.widen(idx, value));
        build(&[Part::Row { id, fields }], shape)
    }

    /// Adds a row at the end of a page, in place, if all of it fits there.
    fn append(&mut self, place: Place, id: u64, fields: &[(usize, u64)]) -> bool {
        let (first, page) = self.pages.get(place);
        let (rows, cols) = (page.rows(), page.cols());
        let offset = id - first;
        let mut fit = fields.iter().all(|&(idx, value)| {
            page.slot(rows, idx)
                .map_or(value == 0, |slot| width_of(value) <= slot.width)
        });
        fit &= id_width(first, id, rows + 1) == page.id_width();
        if !fit || !page.has_room() || rows >= self.full(cols) * 3 / 2 {
            return false;
        }
        let page = self.pages.get_mut(place);
        let (bit, width) = (page.start() + rows * page.row_bits(), page.id_width());
        bits::store(page.raw_mut(), bit, width, offset & bits::ones(width));
        put(page, rows, fields);
        page.set_rows(rows + 1);
        true
    }
}

/// The same widths for more columns. Where columns then share widths otherwise, each gets that of the widest.
fn reshaped(old: &Shape, cols: usize) -> Shape {
    let mut shape = Shape {
        id_width: old.id_width,
        ..Shape::flat(cols)
    };
    let (old_size, size) = (group_size(old.cols), group_size(cols));
    for idx in 0..old.cols {
        let width = &mut shape.widths[idx / size];
        *width = (*width).max(old.widths[idx / old_size]);
    }
    shape
}
