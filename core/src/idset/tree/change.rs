//! Adding and removing members: splitting full pages, merging small ones, and changing tiers.

use super::directory::is_dense;
use super::{Entry, Node, Place, Tree};
use crate::idset::limits::{MERGED, PAGE, SPARSE, checks_merge};
use crate::idset::page::{Inserted, Page};
use crate::idset::tagged_pointer::{Ref, RefMut};

fn single(m: u64) -> Entry {
    Entry {
        start: m,
        node: Node::page(Page::from_sorted(&[m])),
    }
}

impl Tree {
    /// Adds `m`. Returns whether it was new.
    pub(in super::super) fn insert(&mut self, m: u64) -> bool {
        let Some(place) = self.locate(m) else {
            self.put(single(m));
            return true;
        };
        let entry = self.at_mut(place);
        let (start, key) = (entry.start, entry.key());
        match entry.node.get_mut() {
            RefMut::Page(page) => match page.insert(m) {
                Inserted::Present => return false,
                Inserted::Full => return self.insert_in_full(place, m),
                Inserted::Added if m < start => self.set_start(place, m),
                Inserted::Added => {}
            },
            RefMut::Boxed(dense) if key == m >> 16 => {
                if !dense.insert(m as u16) {
                    return false;
                }
                self.count_dense_insert(place);
                return true;
            }
            RefMut::Boxed(_) => return self.insert_beside(place, m),
        }
        self.groups[place.group].members += 1;
        self.len += 1;
        true
    }

    /// Counts a new member of a dense chunk. A change expands runs, so the chunk may now be too small to stay dense.
    fn count_dense_insert(&mut self, place: Place) {
        self.groups[place.group].members += 1;
        self.len += 1;
        self.leave_dense(place);
    }

    /// Adds a member before or after the dense chunk at `place`, which the lookup found.
    fn insert_beside(&mut self, place: Place, m: u64) -> bool {
        let next = if m < self.at(place).start {
            None
        } else {
            self.next(place)
        };
        match next {
            Some(next) if !is_dense(&self.at(next).node) => {
                // Lookups of `m` now find that page.
                self.set_start(next, m);
                self.insert(m)
            }
            _ => {
                self.put(single(m));
                true
            }
        }
    }

    /// Adds a new member to a full page.
    fn insert_in_full(&mut self, place: Place, m: u64) -> bool {
        if self.chunk_is_dense(place, m) {
            self.make_dense(m >> 16);
            return self.insert(m);
        }
        let entry = self.at(place);
        let (Some(min), Some(max)) = (entry.min(), entry.max()) else {
            return false;
        };
        if m > max && self.next(place).is_none() {
            self.put(single(m));
            return true;
        }
        if m < min && self.previous(place).is_none() {
            self.set_start(place, min);
            self.put(single(m));
            return true;
        }
        self.split_page(place);
        self.insert(m)
    }

    fn split_page(&mut self, place: Place) {
        let RefMut::Page(page) = self.at_mut(place).node.get_mut() else {
            return;
        };
        let right = page.split_off(PAGE / 2);
        let Some(start) = right.min() else { return };
        let moved = right.len() as u64;
        self.groups[place.group].members -= moved;
        self.len -= moved;
        self.put(Entry {
            start,
            node: Node::page(right),
        });
    }

    /// Removes `m`. Returns whether it was a member.
    pub(in super::super) fn remove(&mut self, m: u64) -> bool {
        let Some(place) = self.locate(m) else {
            return false;
        };
        let entry = self.at_mut(place);
        let key = entry.key();
        let (removed, left, dense) = match entry.node.get_mut() {
            RefMut::Page(page) => (page.remove(m), page.len(), false),
            RefMut::Boxed(dense) => (
                key == m >> 16 && dense.remove(m as u16),
                dense.len() as usize,
                true,
            ),
        };
        if !removed {
            return false;
        }
        self.groups[place.group].members -= 1;
        self.len -= 1;
        if left == 0 {
            self.take(place);
        } else if dense {
            self.leave_dense(place);
        } else if checks_merge(left) {
            self.merge_page(place, left);
        }
        true
    }

    /// Converts a dense chunk with too few members to pages.
    pub(super) fn leave_dense(&mut self, place: Place) {
        if let Ref::Boxed(dense) = self.at(place).node.get()
            && dense.len() < SPARSE
            && !dense.is_run()
        {
            self.make_pages(place);
        }
    }

    /// Merges a page with the next or the previous one, if that leaves room.
    fn merge_page(&mut self, place: Place, len: usize) {
        let fits = |other: &Place| match self.at(*other).node.get() {
            Ref::Page(page) => page.len() + len <= MERGED,
            Ref::Boxed(_) => false,
        };
        let after = self.next(place).filter(fits);
        let (left, right) = match (after, self.previous(place).filter(fits)) {
            (Some(after), _) => (place, after),
            (None, Some(before)) => (before, place),
            (None, None) => return,
        };
        let start = self.at(left).start;
        let (right, left) = (self.take(right), self.at_start(start));
        let (members, RefMut::Page(page)) = (right.len(), self.at_mut(left).node.get_mut()) else {
            return;
        };
        if let Ref::Page(right) = right.node.get() {
            *page = page.joined(right);
        }
        self.groups[left.group].members += members;
        self.len += members;
    }

    /// The place of the entry that starts at `start`.
    fn at_start(&self, start: u64) -> Place {
        self.locate(start).unwrap_or(Place { group: 0, entry: 0 })
    }
}
