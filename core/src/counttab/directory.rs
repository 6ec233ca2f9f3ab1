//! The directory of pages, a tree of two levels: groups of up to [`GROUP`] pages, in order.
//!
//! The first ids of the groups are in a separate array, so that a search touches few cache lines. The first id of a
//! page is stored beside the page, in the same cache line. Adding a page moves the entries of one group and, rarely, the
//! list of groups.

use super::page::Page;
use crate::search::{last_between, last_from};

/// The maximum number of pages of a group.
const GROUP: usize = 128;
/// A group with fewer pages is merged with a neighbour,
const MERGE_BELOW: usize = GROUP / 4;
/// if the merged group has at most this number of pages, which leaves room to grow.
const MAX_MERGED: usize = GROUP * 3 / 4;

/// A page and its first id.
#[derive(Clone)]
struct Entry {
    first: u64,
    page: Page,
}

/// Pages in the order of their first ids.
#[derive(Clone, Default)]
struct Group {
    entries: Vec<Entry>,
}

/// The pages of a table.
#[derive(Clone, Default)]
pub struct Directory {
    firsts: Vec<u64>,
    groups: Vec<Group>,
}

/// The position of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    group: usize,
    page: usize,
}

/// Reserves room for one more item, doubling from 1, so that small tables stay small and full groups have no spare room.
fn reserve_one<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(list.len().max(1));
    }
}

impl Directory {
    /// The only page that can contain this id: the last page whose first id is not greater, else the first page. None
    /// if there are no pages.
    #[inline]
    pub fn locate(&self, id: u64) -> Option<Place> {
        self.locate_in(self.group_of(id), id)
    }

    /// The first step of [`Directory::locate`]: the group of the page.
    #[inline]
    pub fn group_of(&self, id: u64) -> usize {
        last_from(&self.firsts, |&first| first, id)
    }

    /// The second step of [`Directory::locate`]. `group` is that of the first step.
    #[inline]
    pub fn locate_in(&self, group: usize, id: u64) -> Option<Place> {
        let entries = &self.groups.get(group)?.entries;
        let first = |entry: &Entry| entry.first;
        let page = match self.firsts.get(group..group + 2) {
            Some(&[begin, end]) => last_between(begin..end, entries, first, id),
            _ => last_from(entries, first, id),
        };
        Some(Place { group, page })
    }

    /// The first id of a page, and the page.
    #[inline]
    pub fn get(&self, at: Place) -> (u64, &Page) {
        let entry = &self.groups[at.group].entries[at.page];
        (entry.first, &entry.page)
    }

    /// The distance from this page's first id to the next page's. None for the last page of a group.
    #[inline]
    pub fn span(&self, at: Place) -> Option<u64> {
        match &self.groups[at.group].entries[at.page..] {
            [entry, next, ..] => Some(next.first - entry.first),
            _ => None,
        }
    }

    /// A page, mutable.
    #[inline]
    pub fn get_mut(&mut self, at: Place) -> &mut Page {
        &mut self.groups[at.group].entries[at.page].page
    }

    /// The page after this one.
    pub fn next(&self, at: Place) -> Option<Place> {
        if at.page + 1 < self.groups[at.group].entries.len() {
            return Some(Place {
                page: at.page + 1,
                ..at
            });
        }
        (at.group + 1 < self.groups.len()).then_some(Place {
            group: at.group + 1,
            page: 0,
        })
    }

    /// The next page of the same group.
    pub fn sibling(&self, at: Place) -> Option<Place> {
        self.next(at).filter(|next| next.group == at.group)
    }

    /// The page before this one, of the same group.
    pub fn sibling_before(&self, at: Place) -> Option<Place> {
        at.page.checked_sub(1).map(|page| Place { page, ..at })
    }

    /// The pages from `at` on, in order.
    pub fn iter_from(&self, at: Option<Place>) -> impl Iterator<Item = (u64, &Page)> {
        let mut next = at;
        std::iter::from_fn(move || {
            let at = next?;
            next = self.next(at);
            Some(self.get(at))
        })
    }

    /// All pages, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Page)> {
        self.iter_from((!self.groups.is_empty()).then_some(Place { group: 0, page: 0 }))
    }

    /// The number of pages. O(groups).
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| group.entries.len()).sum()
    }

    /// Replaces a page.
    pub fn replace(&mut self, at: Place, (first, page): (u64, Page)) {
        let entries = &mut self.groups[at.group].entries;
        entries[at.page] = Entry { first, page };
        self.firsts[at.group] = entries[0].first;
    }

    /// Inserts a page after `at`, or before all others if `at` is None.
    pub fn insert_after(&mut self, at: Option<Place>, page: (u64, Page)) {
        match at {
            Some(at) => self.insert(at.group, at.page + 1, page),
            None => self.insert_first(page),
        }
    }

    /// Adds a page before all others.
    pub fn insert_first(&mut self, page: (u64, Page)) {
        if self.groups.is_empty() {
            self.add_group(0, Group::default(), page.0);
        }
        self.insert(0, 0, page);
    }

    fn insert(&mut self, mut group: usize, mut at: usize, (first, page): (u64, Page)) {
        if self.groups[group].entries.len() >= GROUP {
            // A page at the end of a group starts a new group, so that ascending ids fill groups completely.
            let keep = if at == GROUP { GROUP } else { GROUP / 2 };
            let upper = self.groups[group].split_off(keep);
            self.add_group(group + 1, upper, first);
            if at >= keep {
                (group, at) = (group + 1, at - keep);
            }
        }
        let entries = &mut self.groups[group].entries;
        reserve_one(entries);
        entries.insert(at, Entry { first, page });
        self.firsts[group] = entries[0].first;
    }

    /// Adds a group. `first` is the first id of an empty group, to which a page is added next.
    fn add_group(&mut self, at: usize, group: Group, first: u64) {
        reserve_one(&mut self.firsts);
        reserve_one(&mut self.groups);
        let first = group.entries.first().map_or(first, |entry| entry.first);
        self.firsts.insert(at, first);
        self.groups.insert(at, group);
    }

    /// Removes a page.
    pub fn remove(&mut self, at: Place) -> Page {
        let group = &mut self.groups[at.group];
        let page = group.entries.remove(at.page).page;
        let (pages, capacity) = (group.entries.len(), group.entries.capacity());
        let Some(entry) = group.entries.first() else {
            self.remove_group(at.group);
            return page;
        };
        self.firsts[at.group] = entry.first;
        if pages < MERGE_BELOW {
            self.merge(at.group);
        } else if pages * 4 <= capacity {
            group.shrink();
        }
        page
    }

    fn remove_group(&mut self, at: usize) -> Group {
        self.firsts.remove(at);
        let group = self.groups.remove(at);
        if self.groups.len() * 4 <= self.groups.capacity() {
            self.groups.shrink_to(self.groups.len() * 2);
            self.firsts.shrink_to(self.firsts.len() * 2);
        }
        group
    }

    /// Merges a group with a neighbour if that leaves room to grow; else frees its spare capacity.
    fn merge(&mut self, at: usize) {
        let fits = |a: usize, b: usize| {
            b < self.groups.len()
                && self.groups[a].entries.len() + self.groups[b].entries.len() <= MAX_MERGED
        };
        let left = match at.checked_sub(1) {
            _ if fits(at, at + 1) => at,
            Some(before) if fits(before, at) => before,
            _ => return self.groups[at].shrink(),
        };
        let mut right = self.remove_group(left + 1);
        self.groups[left].entries.append(&mut right.entries);
    }

    /// Moves the group that has the id `cursor` and its pages to new allocations; with cursor 0, the list of groups too.
    /// Returns the first id of the next group, None after the last.
    pub fn relocate(&mut self, cursor: u64) -> Option<u64> {
        if cursor == 0 {
            self.firsts = copied(self.firsts.iter().copied(), self.firsts.capacity());
            let groups = std::mem::take(&mut self.groups);
            let capacity = groups.capacity();
            self.groups = copied(groups.into_iter(), capacity);
        }
        let at = last_from(&self.firsts, |&first| first, cursor);
        let group = self.groups.get_mut(at)?;
        let entries = &group.entries;
        *group = Group {
            entries: copied(entries.iter().cloned(), entries.capacity()),
        };
        self.firsts.get(at + 1).copied()
    }

    /// Checks the invariants of groups.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), &'static str> {
        if self.firsts.len() != self.groups.len() {
            return Err("a list of groups is longer");
        }
        for (first, group) in self.firsts.iter().zip(&self.groups) {
            if group.entries.is_empty() || group.entries.len() > GROUP {
                return Err("a group of a wrong size");
            }
            if group.entries[0].first != *first {
                return Err("a group begins elsewhere");
            }
        }
        Ok(())
    }
}

/// A new list of these items, with this capacity.
fn copied<T>(items: impl Iterator<Item = T>, capacity: usize) -> Vec<T> {
    let mut list = Vec::with_capacity(capacity);
    list.extend(items);
    list
}

impl Group {
    fn split_off(&mut self, at: usize) -> Group {
        Group {
            entries: self.entries.split_off(at),
        }
    }

    /// Shrinks the capacity to twice the number of pages.
    fn shrink(&mut self) {
        self.entries.shrink_to(self.entries.len() * 2);
    }
}
