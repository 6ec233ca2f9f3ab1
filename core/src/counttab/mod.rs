//! Tables of counters: an ordered map from 64-bit ids to rows of unsigned 40-bit counters, in less memory than the
//! counters would take by themselves.
//!
//! [`CountTab`] is what a user of this module deals with. Rows live in pages of up to some 64 rows, sorted by id (see
//! `page`); each column of a page has the width that its largest value there needs. A long tail of small counts so
//! costs a few bits each, and one large value widens one column of one page. Pages are found through a directory of
//! two levels. A change that fits is a few instructions in place; one that does not makes one page anew, which takes
//! a microsecond or so, whatever the size of the table.
//!
//! What a table exports, and the blobs of an RDB file, are those pages as they are, checked from end to end when they
//! come back.

mod batch;
mod bits;
mod blobs;
mod build;
mod change;
mod cost;
mod directory;
mod fences;
mod page;
mod read;
mod remove;
mod transfer;
mod wire;

use self::directory::{Directory, Place};
use self::fences::Fences;
use self::page::Page;
use crate::countint::{CountError, MAX_LEN};

pub use self::batch::{Changes, Op};
pub use self::blobs::BlobLoader;
pub use self::change::Increment;
pub use self::fences::MAX_SLOT;
pub use self::transfer::ImportError;

/// An ordered map from `u64` to rows of `len` counters, each 0 ..= 2^40-1.
///
/// Finding a row costs O(log n).
#[derive(Clone)]
pub struct CountTab {
    pages: Directory,
    rows: u64,
    fences: Fences,
    len: u16,
    /// Where tests want smaller pages: the rows that fill one. 0 for what suits the columns.
    page_rows: u8,
}

impl CountTab {
    /// A table without rows. `len`: counters of a row, 1 ..= 65535.
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

    /// The same with smaller pages, for tests: `rows` of them fill one.
    #[doc(hidden)]
    pub fn with_page_rows(len: usize, rows: u8) -> Result<CountTab, CountError> {
        Ok(CountTab {
            page_rows: rows,
            ..CountTab::new(len)?
        })
    }

    /// Counters of a row.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there is no row.
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

    /// About how many allocations there are, that is, how much work it is to free the table. O(n / 8192).
    pub fn free_effort(&self) -> usize {
        self.pages.len() + 1
    }

    /// The page and the row of an id.
    #[inline]
    fn find(&self, id: u64) -> Option<(Place, usize)> {
        let place = self.pages.locate(id)?;
        let (first, page) = self.pages.get(place);
        let offset = id.checked_sub(first)?;
        if let Some(span) = self.pages.span(place) {
            page.expect(offset, span);
        }
        let row = page.find(offset).ok()?;
        Some((place, row))
    }

    #[inline]
    fn row(&self, id: u64) -> Option<(&Page, usize)> {
        let (place, row) = self.find(id)?;
        Some((self.pages.get(place).1, row))
    }

    /// Whether there is such a row.
    pub fn contains(&self, id: u64) -> bool {
        self.find(id).is_some()
    }

    /// A counter; None where there is no such row.
    ///
    /// # Errors
    /// [`CountError::IndexOutOfRange`] from [`len`](Self::len) on.
    #[inline]
    pub fn get(&self, id: u64, idx: usize) -> Result<Option<u64>, CountError> {
        if idx >= self.len() {
            return Err(CountError::IndexOutOfRange);
        }
        Ok(self.row(id).map(|(page, row)| page.get(row, idx)))
    }

    /// Hands the counters of a row to `visit`, in order; false where there is no such row.
    pub fn read(&self, id: u64, visit: impl FnMut(u64)) -> bool {
        let row = self.row(id);
        if let Some((page, row)) = row {
            page.for_each(row, self.len(), visit);
        }
        row.is_some()
    }

    /// Appends the ids from `from` on, in ascending order, at most `limit`. O(log n + limit).
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

    /// Hands each row to `visit`, in ascending order of the ids, with the columns and values of its counters that are
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

    /// Another number of counters in every row; whether it was another. New ones are 0. More take O(1), since pages
    /// gain columns only when they need them; fewer take O(n), since each row is looked at.
    ///
    /// # Errors
    /// [`CountError::Length`]; [`CountError::FieldNotZero`] where a counter would be lost.
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

    /// Runs `change` on the table with at least `len` counters in every row, O(1) by itself. Where that fails, which
    /// must leave all rows as they are, the length is what it was.
    ///
    /// # Errors
    /// Those of `change`.
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

    /// The fence of a slot, 0 where none was set.
    pub fn fence(&self, slot: u16) -> u64 {
        self.fences.get(slot)
    }

    /// Sets the fence of a slot.
    pub fn set_fence(&mut self, slot: u16, next: u64) {
        self.fences.set(slot, next);
    }

    /// The fences that are not 0: slot and value, by slot.
    pub fn fences(&self) -> impl ExactSizeIterator<Item = (u16, u64)> {
        self.fences.iter()
    }

    /// Moves one bounded piece (a group of pages, some 100 KB) to fresh memory and frees the old. Returns the cursor
    /// of the next piece, None after the last. The first cursor is 0.
    pub fn defrag_step(&mut self, cursor: u64) -> Option<u64> {
        if cursor == 0 {
            self.fences = self.fences.clone();
        }
        self.pages.relocate(cursor)
    }

    /// How many rows fill a page of so many columns.
    fn full(&self, cols: usize) -> usize {
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

/// The same rows and fences, whatever the pages are.
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

/// The sizes and the first few ids.
impl std::fmt::Debug for CountTab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut first = Vec::new();
        self.scan(0, 20, &mut first);
        write!(f, "CountTab({} rows of {}: {first:?})", self.rows, self.len)
    }
}
