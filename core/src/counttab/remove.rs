//! Removing rows. A page that has become small joins a neighbour; an empty one is given back.

use super::CountTab;
use super::build::{Part, build, fitting};
use super::directory::Place;

/// A page with fewer rows joins a neighbour, where `full` of them fill one.
pub(super) fn few(full: usize) -> usize {
    full.div_ceil(4)
}

impl CountTab {
    /// Removes a row; whether it was there.
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
            Part::Rows {
                first,
                page,
                from: 0,
                to: row,
            },
            Part::Rows {
                first,
                page,
                from: row + 1,
                to: rows,
            },
        ];
        let shape = fitting(&parts, self.len());
        let full = self.full(shape.cols);
        let page = build(&parts, shape);
        self.pages.replace(place, page);
        if rows - 1 < few(full) {
            self.merge(place);
        }
        true
    }

    /// Joins a page with one beside it, where they are not full together.
    pub(super) fn merge(&mut self, place: Place) {
        let before = self.pages.sibling_before(place);
        let pairs = [
            Some(place).zip(self.pages.sibling(place)),
            before.zip(Some(place)),
        ];
        for (left, right) in pairs.into_iter().flatten() {
            let ((first, lower), (next, upper)) = (self.pages.get(left), self.pages.get(right));
            let parts = [
                Part::Rows {
                    first,
                    page: lower,
                    from: 0,
                    to: lower.rows(),
                },
                Part::Rows {
                    first: next,
                    page: upper,
                    from: 0,
                    to: upper.rows(),
                },
            ];
            let shape = fitting(&parts, self.len());
            if (lower.rows() + upper.rows()) * 4 > self.full(shape.cols) * 3 {
                continue;
            }
            let page = build(&parts, shape);
            self.pages.remove(right);
            // The group may have joined another: the left one is found anew.
            if let Some(left) = self.pages.locate(page.0) {
                self.pages.replace(left, page);
            }
            return;
        }
    }
}
