//! The table: its pages and fences, and operations that read single rows.

use super::directory::{Directory, Place};
use super::fences::Fences;
use super::page::{self, Page};
use super::wire;
use crate::countint::{CountError, MAX_LEN};

/// An ordered map from `u64` to rows of `len` counters, each 0 ..= 2^40-1.
///
/// Finding a row costs O(log n).
#[derive(Clone)]
pub struct CountTab {
    pub(super) pages: Directory,
    pub(super) rows: u64,
    pub(super) fences: Fences,
    pub(super) len: u16,
    /// The number of rows of a full page, set by tests that need small pages. 0: derived from the number of columns.
    page_rows: u8,
}

impl CountTab {
    /// A table without rows. `len` is the number of counters of a row, 1 ..= 65535.
    ///
    /// # Errors
    /// [`CountError::Length`].
    pub fn new(len: usize) -> Result<CountTab, CountError> {
        if !(1..=MAX_LEN).contains(&len) {
            return Err(CountError::Length);
        }
        Ok(CountTab {
            pages: Directory::default(),
            rows: 0,
            fences: Fences::default(),
            len: len as u16,
            page_rows: 0,
        })
    }

    /// A table with pages of at most `rows` rows, for tests.
    #[doc(hidden)]
    pub fn with_page_rows(len: usize, rows: u8) -> Result<CountTab, CountError> {
        Ok(CountTab {
            page_rows: rows,
            ..CountTab::new(len)?
        })
    }

    /// The number of counters of a row.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The number of rows. O(1).
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of pages. O(n / 8192).
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The approximate number of allocations, which is the effort of freeing the table. O(n / 8192).
    pub fn free_effort(&self) -> usize {
        self.pages.len() + 1
    }

    /// The page and the row of an id.
    #[inline]
    pub(super) fn find(&self, id: u64) -> Option<(Place, usize)> {
        let place = self.pages.locate(id)?;
        let (first, page) = self.pages.get(place);
        let offset = id.checked_sub(first)?;
        if let Some(span) = self.pages.span(place) {
            page.prefetch(offset, span);
        }
        let row = page.find(offset).ok()?;
        Some((place, row))
    }

    #[inline]
    pub(super) fn row(&self, id: u64) -> Option<(&Page, usize)> {
        let (place, row) = self.find(id)?;
        Some((self.pages.get(place).1, row))
    }

    /// Whether the table has this row.
    pub fn contains(&self, id: u64) -> bool {
        self.find(id).is_some()
    }

    /// The value of a counter. None when the table does not have the row.
    ///
    /// # Errors
    /// [`CountError::IndexOutOfRange`] when `idx` is not below [`len`](Self::len).
    #[inline]
    pub fn get(&self, id: u64, idx: usize) -> Result<Option<u64>, CountError> {
        if idx >= self.len() {
            return Err(CountError::IndexOutOfRange);
        }
        Ok(self.row(id).map(|(page, row)| page.get(row, idx)))
    }

    /// Calls `visit` with each counter of a row, in order. False when the table does not have the row.
    pub fn read(&self, id: u64, visit: impl FnMut(u64)) -> bool {
        let row = self.row(id);
        if let Some((page, row)) = row {
            page.for_each(row, self.len(), visit);
        }
        row.is_some()
    }

    /// Appends up to `limit` ids that are at least `from`, in ascending order. O(log n + limit).
    pub fn scan(&self, from: u64, limit: usize, out: &mut Vec<u64>) {
        let end = out.len() + limit;
        for (first, page) in self.pages.iter_from(self.pages.locate(from)) {
            let row = match from.checked_sub(first) {
                None => 0,
                Some(offset) => page.find(offset).unwrap_or_else(|row| row),
            };
            for row in row..page.rows() {
                if out.len() >= end {
                    return;
                }
                out.push(first + page.offset(row));
            }
        }
    }

    /// Calls `visit` with each row, in ascending order of the ids, and with the columns and values of its counters that are
    /// not 0.
    pub fn for_each_row(&self, mut visit: impl FnMut(u64, &[(usize, u64)])) {
        let mut fields = Vec::new();
        for (first, page) in self.pages.iter() {
            for row in 0..page.rows() {
                fields.clear();
                fields.extend(page.nonzero(row));
                visit(first + page.offset(row), &fields);
            }
        }
    }

    /// Changes the number of counters of every row; returns whether it changed. New counters are 0. Growing takes O(1),
    /// since pages gain columns only when they need them. Shrinking takes O(n), since every row is checked.
    ///
    /// # Errors
    /// [`CountError::Length`], or [`CountError::FieldNotZero`] when a counter that is not 0 would be lost.
    pub fn resize(&mut self, len: usize) -> Result<bool, CountError> {
        if !(1..=MAX_LEN).contains(&len) {
            return Err(CountError::Length);
        }
        if len < self.len() && self.pages.iter().any(|(_, page)| page.exceeds(len)) {
            return Err(CountError::FieldNotZero);
        }
        let changed = len != self.len();
        self.len = len as u16;
        Ok(changed)
    }

    /// Grows the rows to at least `len` counters, then runs `change`. When `change` fails, the length is restored; `change`
    /// must not have modified any row. O(1) without `change`.
    ///
    /// # Errors
    /// The errors of `change`.
    pub fn at_least<R, E>(
        &mut self,
        len: usize,
        change: impl FnOnce(&mut CountTab) -> Result<R, E>,
    ) -> Result<R, E> {
        let before = self.len;
        self.len = before.max(len.min(MAX_LEN) as u16);
        let result = change(self);
        if result.is_err() {
            self.len = before;
        }
        result
    }

    /// The fence of a source; 0 when it was not set.
    pub fn fence(&self, source: u16) -> u64 {
        self.fences.get(source)
    }

    /// Sets the fence of a source.
    pub fn set_fence(&mut self, source: u16, next: u64) {
        self.fences.set(source, next);
    }

    /// The fences that are not 0, as pairs of source and value, in the order of the sources.
    pub fn fences(&self) -> impl ExactSizeIterator<Item = (u16, u64)> {
        self.fences.iter()
    }

    /// Moves one group of pages (about 100 KB) to new allocations and frees the old ones. The first cursor is 0. Returns
    /// the cursor of the next step, None after the last.
    pub fn defrag_step(&mut self, cursor: u64) -> Option<u64> {
        if cursor == 0 {
            self.fences = self.fences.clone();
        }
        self.pages.relocate(cursor)
    }

    /// The number of rows of a full page with `cols` columns.
    pub(super) fn full_rows(&self, cols: usize) -> usize {
        match self.page_rows {
            0 => page::full_rows(cols),
            rows => usize::from(rows),
        }
    }

    /// Checks every internal invariant, in O(n). For tests and fuzzing.
    #[doc(hidden)]
    pub fn validate(&self) -> Result<(), &'static str> {
        self.pages.check()?;
        let (mut next, mut rows) = (Some(0), 0);
        for (first, page) in self.pages.iter() {
            if next.is_none_or(|next| first < next) {
                return Err("pages out of order");
            }
            wire::check(first, page)?;
            if page.exceeds(self.len()) {
                return Err("a value beyond the columns of the table");
            }
            rows += page.rows() as u64;
            next = (first + page.last_offset()).checked_add(1);
        }
        if rows == self.rows {
            Ok(())
        } else {
            Err("a wrong number of rows")
        }
    }
}

/// Compares rows and fences, not how pages are split.
impl PartialEq for CountTab {
    fn eq(&self, other: &CountTab) -> bool {
        let all = |table: &CountTab| {
            let mut rows = Vec::new();
            table.for_each_row(|id, fields| rows.push((id, fields.to_vec())));
            rows
        };
        self.len == other.len
            && self.fences == other.fences
            && self.rows == other.rows
            && all(self) == all(other)
    }
}

/// Prints the sizes and the first few ids.
impl std::fmt::Debug for CountTab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut first = Vec::new();
        self.scan(0, 20, &mut first);
        write!(f, "CountTab({} rows of {}: {first:?})", self.rows, self.len)
    }
}
