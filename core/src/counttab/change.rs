//! Changing counters and adding rows. What fits is done in place; else one page is made anew.

use super::CountTab;
use super::bits::{self, width_of};
use super::build::{Part, build, columns, fitting, put, used};
use super::directory::Place;
use super::page::{Page, Shape, Slot, id_width, shared};
use super::remove::few;
use crate::countint::{CountError, FIELD_MAX, Overflow, Step};

/// Columns whose values are looked at one column after the other.
const FEW_COLUMNS: usize = 8;

/// A column is made narrower once its values would leave so many bits unused.
const SPARE_BITS: u32 = 4;

/// Whether a value may take the place of another as it is: it fits, and is not the last one for which a column is wide.
#[inline]
pub(super) fn keeps_width(slot: Slot, old: u64, new: u64) -> bool {
    let enough = slot.width.saturating_sub(SPARE_BITS);
    let (old, new) = (width_of(old), width_of(new));
    new <= slot.width && (old <= enough || new > enough)
}

/// What a page of one row takes, and its place in the directory, without the row.
const ALONE_BYTES: usize = 48;

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
        // Only the last wide value of a column that leaves can make it narrower.
        let mut left = Vec::new();
        for &(idx, value) in fields {
            let Some(slot) = page.slot(row, idx) else {
                continue;
            };
            if !keeps_width(slot, page.load(slot), value) {
                left.push(idx);
            }
            page.store(slot, value);
        }
        let narrower = |&idx: &usize| {
            let width = page.slot(row, idx).map_or(0, |slot| slot.width);
            width_of(page.largest(idx)) <= width.saturating_sub(SPARE_BITS)
        };
        // Of many it is quicker to look at all of the page once.
        if left.len() > FEW_COLUMNS || left.iter().any(narrower) {
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
        let shape = fitting(&parts, self.len());
        let narrower = (shape.widths.iter().zip(page.widths()))
            .any(|(&new, &old)| u32::from(new) + SPARE_BITS <= u32::from(old));
        if narrower || shape.cols < page.cols() {
            // With fewer columns there is room for more rows.
            let joins = page.rows() < few(self.full(shape.cols));
            let fitted = build(&parts, shape);
            self.pages.replace(place, fitted);
            if joins {
                self.merge(place);
            }
        }
    }

    /// Makes a page in which these values fit, and puts them there.
    fn widen(&mut self, place: Place, row: usize, fields: &[(usize, u64)]) {
        let (first, page) = self.pages.get(place);
        let shape = self.widened(page, fields);
        if page.rows() > self.full(shape.cols) * 3 / 2 {
            let id = first + page.offset(row);
            self.split_for(place, row, shape.cols);
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
            shape = reshaped(&shape, columns(used(fields), self.len()));
        }
        for &(idx, value) in fields {
            if idx < shape.cols {
                shape.widen(idx, value);
            }
        }
        shape
    }

    /// Cuts a row out of its page, with as many rows beside it as fill a page of so many columns. The rows before and
    /// after them stay as narrow as they are.
    fn split_for(&mut self, place: Place, row: usize, cols: usize) {
        let (first, page) = self.pages.get(place);
        let (rows, size) = (page.rows(), self.full(cols));
        let from = row / size * size;
        let to = (from + size).min(rows);
        let pieces = [(0, from), (from, to), (to, rows)];
        let pieces = pieces.iter().filter(|(from, to)| from < to);
        let pieces = pieces.map(|&(from, to)| {
            let parts = [Part::Rows {
                first,
                page,
                from,
                to,
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
        if end && self.prepend(place, id, fields) {
            return;
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
        // In between there are two rows at least. A row that shares a page with no other goes between two pages.
        let cut = match self.full(shape.cols) {
            1 => row,
            _ => self.pages.get(place).1.rows().div_ceil(2),
        };
        self.cut(place, cut);
        self.rows -= 1;
        self.insert(id, fields);
    }

    /// Adds a row before the rows of the page behind this one, if it takes fewer bytes there than in a page of its own.
    fn prepend(&mut self, place: Place, id: u64, fields: &[(usize, u64)]) -> bool {
        let Some(next) = self.pages.next(place) else {
            return false;
        };
        let (first, page) = self.pages.get(next);
        let mut shape = self.widened(page, fields);
        if !self.takes(page, &shape) {
            return false;
        }
        let rows = page.rows() + 1;
        shape.id_width = id_width(id, first + page.last_offset(), rows);
        let more = shape.bytes(rows).saturating_sub(page.bytes().len());
        if more > ALONE_BYTES {
            return false;
        }
        let parts = [
            Part::Row { id, fields },
            Part::Rows {
                first,
                page,
                from: 0,
                to: page.rows(),
            },
        ];
        let joined = build(&parts, shape);
        self.pages.replace(next, joined);
        true
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
        let mut shape = Shape::flat(columns(used(fields), self.len()));
        fields
            .iter()
            .filter(|&&(_, value)| value > 0)
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
    for piece in shared(old.cols, cols) {
        let width = &mut shape.widths[piece.groups.1];
        *width = (*width).max(old.widths[piece.groups.0]);
    }
    shape
}
