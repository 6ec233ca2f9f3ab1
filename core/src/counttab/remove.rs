//! Removing rows. A page that becomes small is merged with a neighbour; an empty page is freed.

use super::build::{RowSource, build, fitting};
use super::directory::Place;
use super::table::CountTab;

/// A page with fewer rows than this is merged with a neighbour. `full` is the number of rows of a full page.
pub(super) fn merge_below(full: usize) -> usize {
    full.div_ceil(4)
}

impl CountTab {
    /// Removes a row. Returns whether the table had it.
    pub fn remove(&mut self, id: u64) -> bool {
        let Some((place, row)) = self.find(id) else {
            return false;
        };
        self.rows -= 1;
        let (first, page) = self.pages.get(place);
        let rows = page.rows();
        if rows == 1 {
            self.pages.remove(place);
            return true;
        }
        let parts = [
            RowSource::of(first, page, 0..row),
            RowSource::of(first, page, row + 1..rows),
        ];
        let shape = fitting(&parts, self.len());
        let full = self.full_rows(shape.cols);
        let page = build(&parts, shape);
        self.pages.replace(place, page);
        if rows - 1 < merge_below(full) {
            self.merge(place);
        }
        true
    }

    /// Merges a page with a neighbour, if both together stay below a full page.
    pub(super) fn merge(&mut self, place: Place) {
        let before = self.pages.sibling_before(place);
        let pairs = [
            Some(place).zip(self.pages.sibling(place)),
            before.zip(Some(place)),
        ];
        for (left, right) in pairs.into_iter().flatten() {
            let ((first, lower), (next, upper)) = (self.pages.get(left), self.pages.get(right));
            let parts = [RowSource::all(first, lower), RowSource::all(next, upper)];
            let shape = fitting(&parts, self.len());
            if (lower.rows() + upper.rows()) * 4 > self.full_rows(shape.cols) * 3 {
                continue;
            }
            let page = build(&parts, shape);
            self.pages.remove(right);
            // Removing a page may have merged its group with another, which moves the left page.
            if let Some(left) = self.pages.locate(page.0) {
                self.pages.replace(left, page);
            }
            return;
        }
    }
}
