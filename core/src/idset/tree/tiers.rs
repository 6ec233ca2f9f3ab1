//! Converting a chunk between the two tiers, pages and dense chunks.

use super::{Entry, Node, Place, Tree};
use crate::idset::chunk::{bounds, join};
use crate::idset::dense::Dense;
use crate::idset::limits::{DENSE, DENSE_SPAN, PAGE};
use crate::idset::page::Page;
use crate::idset::tagged_pointer::{Owned, Ref};

impl Tree {
    /// Whether the chunk of `m`, which belongs into the full page at `place`, has enough members to become dense.
    pub(super) fn chunk_is_dense(&self, place: Place, m: u64) -> bool {
        let (Some(min), Some(max)) = (self.at(place).min(), self.at(place).max()) else {
            return false;
        };
        if max - min > DENSE_SPAN {
            return false;
        }
        let (first, last) = bounds(m >> 16);
        let mut count = 0;
        for entry in self.entries_from(first) {
            if entry.start > last || count > DENSE {
                break;
            }
            if let Ref::Page(page) = entry.node.get() {
                count += page.rank_after(last) - page.rank(first);
            }
        }
        count > DENSE
    }

    /// Converts the members of a chunk from pages to a dense chunk.
    pub(super) fn make_dense(&mut self, key: u64) {
        let lows = self.remove_chunk(key);
        if let Some(dense) = Dense::from_sorted(&lows) {
            self.put_dense(key, dense);
        }
    }

    /// Adds a dense chunk. The tree has no members of that chunk.
    pub(in super::super) fn put_dense(&mut self, key: u64, dense: Dense) {
        self.put(Entry {
            start: join(key, 0),
            node: Node::boxed(Box::new(dense)),
        });
    }

    /// Removes the dense chunk with this key, if there is one.
    pub(in super::super) fn take_dense(&mut self, key: u64) -> Option<Dense> {
        let place = self.locate(join(key, 0))?;
        let entry = self.at(place);
        if !matches!(entry.node.get(), Ref::Boxed(_)) || entry.key() != key {
            return None;
        }
        match self.take(place).node.into_owned() {
            Owned::Boxed(dense) => Some(*dense),
            Owned::Page(_) => None,
        }
    }

    /// Adds all members of a chunk.
    pub(in super::super) fn insert_chunk(&mut self, key: u64, dense: &Dense) {
        let mine = match self.take_dense(key) {
            Some(mine) => Some(mine),
            None => Dense::from_sorted(&self.remove_chunk(key)),
        };
        let mut all = dense.clone();
        if let Some(mine) = mine {
            all.union_with(mine);
        }
        self.put_dense(key, all);
        if let Some(place) = self.locate(join(key, 0)) {
            self.leave_dense(place);
        }
    }

    /// Removes the members of a chunk from the pages. Pages that reach beyond the chunk are split at its bounds.
    fn remove_chunk(&mut self, key: u64) -> Vec<u16> {
        let (first, last) = bounds(key);
        let touched: Vec<u64> = self
            .entries_from(first)
            .take_while(|entry| entry.start <= last)
            .filter(
                |entry| matches!(entry.node.get(), Ref::Page(page) if page.max() >= Some(first)),
            )
            .map(|entry| entry.start)
            .collect();
        let mut lows = Vec::new();
        for start in touched {
            let Some(place) = self.locate(start) else {
                break;
            };
            let entry = self.take(place);
            let Owned::Page(page) = entry.node.into_owned() else {
                continue;
            };
            let members: Vec<u64> = page.iter().collect();
            let (from, upto) = (page.rank(first), page.rank_after(last));
            lows.extend(members[from..upto].iter().map(|&m| m as u16));
            self.put_page(start, &members[..from]);
            self.put_page(last.saturating_add(1), &members[upto..]);
        }
        lows
    }

    /// Adds a page of these members, if there are any.
    fn put_page(&mut self, start: u64, members: &[u64]) {
        if !members.is_empty() {
            self.put(Entry {
                start,
                node: Node::page(Page::from_sorted(members)),
            });
        }
    }

    /// Converts the dense chunk at `place` to pages.
    pub(super) fn make_pages(&mut self, place: Place) {
        let entry = self.take(place);
        let key = entry.key();
        let Owned::Boxed(dense) = entry.node.into_owned() else {
            return;
        };
        let members: Vec<u64> = dense.iter().map(|low| join(key, low)).collect();
        // Pages are three quarters full, so that later members fit.
        for members in members.chunks(PAGE * 3 / 4) {
            self.put_page(members[0], members);
        }
    }
}
