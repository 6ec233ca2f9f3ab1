//! Changing counters and adding rows. A change that fits is made in place; any other rebuilds one page.

use super::bits::{self, width_of};
use super::build::{RowSource, build, columns, fitting, put, used};
use super::directory::Place;
use super::page::{BitField, Page, Shape, common_columns, id_width};
use super::remove::merge_below;
use super::table::CountTab;
use crate::countint::{CountError, FIELD_MAX, IncrResult, Overflow};

/// Up to this number of columns are checked for unused bits one by one.
const FEW_COLUMNS: usize = 8;

/// A column is narrowed when all of its values leave at least this number of bits unused.
const SPARE_BITS: u32 = 4;

/// Whether replacing `old` with `new` keeps the width of the column: `new` fits, and `old` is not what requires the
/// width.
#[inline]
pub(super) fn keeps_width(field: BitField, old: u64, new: u64) -> bool {
    let enough = field.width.saturating_sub(SPARE_BITS);
    let (old, new) = (width_of(old), width_of(new));
    new <= field.width && (old <= enough || new > enough)
}

/// The overhead of a page of one row: its allocation and its entry in the directory.
const PAGE_OVERHEAD: usize = 48;

/// The result of [`CountTab::incr`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowIncrResult {
    /// The counter before and after.
    pub counter: IncrResult,
    /// Whether the row is new.
    pub created: bool,
}

impl CountTab {
    /// Adds `delta` to a counter. Creates the row if it is missing.
    ///
    /// # Errors
    /// [`CountError::IndexOutOfRange`], or [`CountError::Overflow`] under [`Overflow::Fail`].
    #[inline]
    pub fn incr(
        &mut self,
        id: u64,
        idx: usize,
        delta: i64,
        o: Overflow,
    ) -> Result<RowIncrResult, CountError> {
        if idx >= self.len() {
            return Err(CountError::IndexOutOfRange);
        }
        let found = self.find(id);
        let field = found.and_then(|(place, row)| self.pages.get(place).1.field(row, idx));
        let old = found
            .zip(field)
            .map_or(0, |((place, _), field)| self.pages.get(place).1.load(field));
        let counter = IncrResult::saturating(old, delta);
        if counter.saturated && o == Overflow::Fail {
            return Err(CountError::Overflow);
        }
        match (found, field) {
            (Some(_), _) if counter.new == old => {}
            (Some((place, _)), Some(field)) if keeps_width(field, old, counter.new) => {
                self.pages.get_mut(place).store(field, counter.new);
            }
            (Some((place, row)), _) => self.write(place, row, &[(idx, counter.new)]),
            (None, _) => self.insert(id, &[(idx, counter.new)]),
        }
        Ok(RowIncrResult {
            counter,
            created: found.is_none(),
        })
    }

    /// Sets counters of a row; of a repeated index, the last value counts. Creates the row if it is missing. Returns whether
    /// anything changed.
    ///
    /// # Errors
    /// [`CountError::ValueOutOfRange`] for any pair, else [`CountError::IndexOutOfRange`].
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
        // The sort is stable: of a repeated index, the last pair comes first, and `dedup` keeps it.
        last.reverse();
        last.sort_by_key(|&(idx, _)| idx);
        last.dedup_by_key(|&mut (idx, _)| idx);
        Ok(self.put_row(id, &last))
    }

    /// Sets counters of a row, without repeated indexes. Creates the row if it is missing. Returns whether anything changed.
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

    /// Sets counters of the row at `place`, without repeated indexes.
    pub(super) fn write(&mut self, place: Place, row: usize, fields: &[(usize, u64)]) {
        let page = self.pages.get_mut(place);
        let fits = |&(idx, value): &(usize, u64)| {
            page.field(row, idx)
                .map_or(value == 0, |field| width_of(value) <= field.width)
        };
        if !fields.iter().all(fits) {
            return self.widen(place, row, fields);
        }
        // Columns that lost a wide value and can now be narrower.
        let mut candidates = Vec::new();
        for &(idx, value) in fields {
            let Some(field) = page.field(row, idx) else {
                continue;
            };
            if !keeps_width(field, page.load(field), value) {
                candidates.push(idx);
            }
            page.store(field, value);
        }
        let narrower = |&idx: &usize| {
            let width = page.field(row, idx).map_or(0, |field| field.width);
            width_of(page.group_max(idx)) <= width.saturating_sub(SPARE_BITS)
        };
        // With many candidates, one pass over the page is faster.
        if candidates.len() > FEW_COLUMNS || candidates.iter().any(narrower) {
            self.refit(place);
        }
    }

    /// Rebuilds a page in its narrowest shape, if that saves enough bits.
    fn refit(&mut self, place: Place) {
        let (first, page) = self.pages.get(place);
        let parts = [RowSource::all(first, page)];
        let shape = fitting(&parts, self.len());
        let narrower = (shape.widths.iter().zip(page.widths()))
            .any(|(&new, &old)| u32::from(new) + SPARE_BITS <= u32::from(old));
        if narrower || shape.cols < page.cols() {
            // A page of fewer columns is full at more rows.
            let small = page.rows() < merge_below(self.full_rows(shape.cols));
            let fitted = build(&parts, shape);
            self.pages.replace(place, fitted);
            if small {
                self.merge(place);
            }
        }
    }

    /// Rebuilds a page so that these values fit, and sets them.
    fn widen(&mut self, place: Place, row: usize, fields: &[(usize, u64)]) {
        let (first, page) = self.pages.get(place);
        let shape = self.widened(page, fields);
        if page.rows() > self.full_rows(shape.cols) * 3 / 2 {
            let id = first + page.offset(row);
            self.split_around(place, row, shape.cols);
            self.put_row(id, fields);
            return;
        }
        let parts = [RowSource::all(first, page)];
        let (first, mut page) = build(&parts, shape);
        put(&mut page, row, fields);
        self.pages.replace(place, (first, page));
    }

    /// The shape of a page after adding these values.
    fn widened(&self, page: &Page, fields: &[(usize, u64)]) -> Shape {
        let mut shape = page.shape();
        if fields
            .iter()
            .any(|&(idx, value)| idx >= shape.cols && value > 0)
        {
            shape = with_columns(&shape, columns(used(fields), self.len()));
        }
        for &(idx, value) in fields {
            if idx < shape.cols {
                shape.widen(idx, value);
            }
        }
        shape
    }

    /// Splits a page so that the part with `row` is at most a full page of `cols` columns. The parts before and after it keep
    /// their narrow shapes.
    fn split_around(&mut self, place: Place, row: usize, cols: usize) {
        let (first, page) = self.pages.get(place);
        let (rows, size) = (page.rows(), self.full_rows(cols));
        let from = row / size * size;
        let to = (from + size).min(rows);
        let pieces = [(0, from), (from, to), (to, rows)];
        let pieces = pieces.iter().filter(|(from, to)| from < to);
        let pieces = pieces.map(|&(from, to)| {
            let parts = [RowSource::of(first, page, from..to)];
            build(&parts, fitting(&parts, self.len()))
        });
        let pieces: Vec<_> = pieces.collect();
        let mut pieces = pieces.into_iter();
        let Some(head) = pieces.next() else { return };
        self.pages.replace(place, head);
        for piece in pieces {
            // Inserting may have moved the previous part.
            self.pages.insert_after(self.pages.locate(piece.0), piece);
        }
    }

    /// Adds a row that the table does not have.
    pub(super) fn insert(&mut self, id: u64, fields: &[(usize, u64)]) {
        self.rows += 1;
        let Some(place) = self.pages.locate(id) else {
            let page = self.single_row_page(id, fields);
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
        if self.accepts_row(page, &shape) {
            let parts = [
                RowSource::of(first, page, 0..row),
                RowSource::Row { id, fields },
                RowSource::of(first, page, row..page.rows()),
            ];
            let page = build(&parts, shape);
            return self.pages.replace(place, page);
        }
        if end && self.prepend(place, id, fields) {
            return;
        }
        if end || id < first {
            // A new page at either end of a page, so that ascending and descending ids fill pages completely.
            let page = self.single_row_page(id, fields);
            return if end {
                self.pages.insert_after(Some(place), page)
            } else {
                self.pages.insert_first(page)
            };
        }
        // The id lies between two rows of the page. When full pages have one row, the page is split there.
        let middle = match self.full_rows(shape.cols) {
            1 => row,
            _ => self.pages.get(place).1.rows().div_ceil(2),
        };
        self.split(place, middle);
        self.rows -= 1;
        self.insert(id, fields);
    }

    /// Adds a row at the beginning of the next page, if that takes less memory than a new page.
    fn prepend(&mut self, place: Place, id: u64, fields: &[(usize, u64)]) -> bool {
        let Some(next) = self.pages.next(place) else {
            return false;
        };
        let (first, page) = self.pages.get(next);
        let mut shape = self.widened(page, fields);
        if !self.accepts_row(page, &shape) {
            return false;
        }
        let rows = page.rows() + 1;
        shape.id_width = id_width(id, first + page.last_offset(), rows);
        let more = shape.bytes(rows).saturating_sub(page.bytes().len());
        if more > PAGE_OVERHEAD {
            return false;
        }
        let parts = [RowSource::Row { id, fields }, RowSource::all(first, page)];
        let joined = build(&parts, shape);
        self.pages.replace(next, joined);
        true
    }

    /// Whether a page of this shape can have one more row. A full page can when that costs no memory.
    fn accepts_row(&self, page: &Page, shape: &Shape) -> bool {
        let (rows, full) = (page.rows(), self.full_rows(shape.cols));
        rows < full || rows < full * 3 / 2 && page.has_room() && shape.widths == page.widths()
    }

    /// Splits a page before `row`, which is not the first one.
    fn split(&mut self, place: Place, row: usize) {
        let (first, page) = self.pages.get(place);
        let [lower, upper] = [(0, row), (row, page.rows())].map(|(from, to)| {
            let parts = [RowSource::of(first, page, from..to)];
            build(&parts, fitting(&parts, self.len()))
        });
        self.pages.replace(place, lower);
        self.pages.insert_after(Some(place), upper);
    }

    fn single_row_page(&self, id: u64, fields: &[(usize, u64)]) -> (u64, Page) {
        let mut shape = Shape::flat(columns(used(fields), self.len()));
        fields
            .iter()
            .filter(|&&(_, value)| value > 0)
            .for_each(|&(idx, value)| shape.widen(idx, value));
        build(&[RowSource::Row { id, fields }], shape)
    }

    /// Adds a row at the end of a page in place, if it fits.
    fn append(&mut self, place: Place, id: u64, fields: &[(usize, u64)]) -> bool {
        let (first, page) = self.pages.get(place);
        let (rows, cols) = (page.rows(), page.cols());
        let offset = id - first;
        let mut fit = fields.iter().all(|&(idx, value)| {
            page.field(rows, idx)
                .map_or(value == 0, |field| width_of(value) <= field.width)
        });
        fit &= id_width(first, id, rows + 1) == page.id_width();
        if !fit || !page.has_room() || rows >= self.full_rows(cols) * 3 / 2 {
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

/// The same widths for more columns. A group gets the width of its widest column.
fn with_columns(old: &Shape, cols: usize) -> Shape {
    let mut shape = Shape {
        id_width: old.id_width,
        ..Shape::flat(cols)
    };
    for common in common_columns(old.cols, cols) {
        let width = &mut shape.widths[common.groups.1];
        *width = (*width).max(old.widths[common.groups.0]);
    }
    shape
}
