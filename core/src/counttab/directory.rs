//! Where the pages are: groups of up to [`GROUP`] pages in order, and the groups in order.
//!
//! First ids stand apart from the pages, close together, so that a search touches few cache lines. Adding a page
//! moves at most a group's entries, and now and then those of the list of groups.

use super::page::Page;
use crate::search::last_from;

/// The most pages of a group.
const GROUP: usize = 128;
/// A group with fewer pages joins a neighbour where both then have room to grow.
const FEW: usize = GROUP / 4;
const JOINED: usize = GROUP * 3 / 4;

/// Pages in the order of their first ids.
#[derive(Clone, Default)]
struct Group {
    firsts: Vec<u64>,
    pages: Vec<Page>,
}

/// All pages of a table.
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

/// Room for one more, doubling from 1: small tables stay small, and a full group has none to spare.
fn reserve_one<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(list.len().max(1));
    }
}

impl Directory {
    /// The page that has this id, if any has: the last one that does not begin after it, else the first one. None
    /// where there is no page.
    #[inline]
    pub fn locate(&self, id: u64) -> Option<Place> {
        let group = last_from(&self.firsts, |&first| first, id);
        let firsts = &self.groups.get(group)?.firsts;
        let page = last_from(firsts, |&first| first, id);
        Some(Place { group, page })
    }

    /// The first id of a page, and the page.
    #[inline]
    pub fn get(&self, at: Place) -> (u64, &Page) {
        let group = &self.groups[at.group];
        (group.firsts[at.page], &group.pages[at.page])
    }

    /// How far the next page's first id lies behind this one's; None for the last one of a group.
    #[inline]
    pub fn span(&self, at: Place) -> Option<u64> {
        match self.groups[at.group].firsts[at.page..] {
            [first, next, ..] => Some(next - first),
            _ => None,
        }
    }

    /// A page, to be changed.
    #[inline]
    pub fn get_mut(&mut self, at: Place) -> &mut Page {
        &mut self.groups[at.group].pages[at.page]
    }

    /// The page after this one.
    pub fn next(&self, at: Place) -> Option<Place> {
        if at.page + 1 < self.groups[at.group].pages.len() {
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

    /// The pages from a place on, in order.
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

    /// The number of pages. Looks at every group.
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| group.pages.len()).sum()
    }

    /// Puts another page in the place of one.
    pub fn replace(&mut self, at: Place, (first, page): (u64, Page)) {
        let group = &mut self.groups[at.group];
        group.firsts[at.page] = first;
        group.pages[at.page] = page;
        self.firsts[at.group] = group.firsts[0];
    }

    /// Adds a page right after the one at `at`; as the first one where there is none.
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
        if self.groups[group].pages.len() >= GROUP {
            // At the end of a group all of it stays, so that ascending ids leave full groups behind.
            let keep = if at == GROUP { GROUP } else { GROUP / 2 };
            let upper = self.groups[group].split_off(keep);
            self.add_group(group + 1, upper, first);
            if at >= keep {
                (group, at) = (group + 1, at - keep);
            }
        }
        let entry = &mut self.groups[group];
        reserve_one(&mut entry.firsts);
        reserve_one(&mut entry.pages);
        entry.firsts.insert(at, first);
        entry.pages.insert(at, page);
        self.firsts[group] = entry.firsts[0];
    }

    /// Adds a group; an empty one, which will get a page next, begins at `first`.
    fn add_group(&mut self, at: usize, group: Group, first: u64) {
        reserve_one(&mut self.firsts);
        reserve_one(&mut self.groups);
        self.firsts
            .insert(at, group.firsts.first().copied().unwrap_or(first));
        self.groups.insert(at, group);
    }

    /// Takes a page out.
    pub fn remove(&mut self, at: Place) -> Page {
        let group = &mut self.groups[at.group];
        group.firsts.remove(at.page);
        let page = group.pages.remove(at.page);
        let (pages, capacity) = (group.pages.len(), group.pages.capacity());
        if pages == 0 {
            self.remove_group(at.group);
            return page;
        }
        self.firsts[at.group] = group.firsts[0];
        if pages < FEW {
            self.join(at.group);
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

    /// Joins a group with a neighbour where that leaves room; else gives back the memory that it has to spare.
    fn join(&mut self, at: usize) {
        let fits = |a: usize, b: usize| {
            b < self.groups.len()
                && self.groups[a].pages.len() + self.groups[b].pages.len() <= JOINED
        };
        let left = match at.checked_sub(1) {
            _ if fits(at, at + 1) => at,
            Some(before) if fits(before, at) => before,
            _ => return self.groups[at].shrink(),
        };
        let mut right = self.remove_group(left + 1);
        let group = &mut self.groups[left];
        group.firsts.append(&mut right.firsts);
        group.pages.append(&mut right.pages);
    }

    /// Moves the list of groups, or one group and its pages, to fresh memory: the group that has `cursor`, or begins
    /// at or after it. The first id of the next group; None after the last.
    pub fn relocate(&mut self, cursor: u64) -> Option<u64> {
        if cursor == 0 {
            self.firsts = copied(self.firsts.iter().copied(), self.firsts.capacity());
            let groups = std::mem::take(&mut self.groups);
            let capacity = groups.capacity();
            self.groups = copied(groups.into_iter(), capacity);
        }
        let at = last_from(&self.firsts, |&first| first, cursor);
        let group = self.groups.get_mut(at)?;
        let (firsts, pages) = (&group.firsts, &group.pages);
        *group = Group {
            firsts: copied(firsts.iter().copied(), firsts.capacity()),
            pages: copied(pages.iter().cloned(), pages.capacity()),
        };
        self.firsts.get(at + 1).copied()
    }

    /// Checks the lists against each other.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), &'static str> {
        if self.firsts.len() != self.groups.len() {
            return Err("a list of groups is longer");
        }
        for (first, group) in self.firsts.iter().zip(&self.groups) {
            if group.pages.is_empty()
                || group.pages.len() > GROUP
                || group.pages.len() != group.firsts.len()
            {
                return Err("a group of a wrong size");
            }
            if group.firsts[0] != *first {
                return Err("a group begins elsewhere");
            }
        }
        Ok(())
    }
}

/// The items in a new list with the same room to grow.
fn copied<T>(items: impl Iterator<Item = T>, capacity: usize) -> Vec<T> {
    let mut list = Vec::with_capacity(capacity);
    list.extend(items);
    list
}

impl Group {
    fn split_off(&mut self, at: usize) -> Group {
        Group {
            firsts: self.firsts.split_off(at),
            pages: self.pages.split_off(at),
        }
    }

    /// Room for twice the pages that there are.
    fn shrink(&mut self) {
        self.firsts.shrink_to(self.firsts.len() * 2);
        self.pages.shrink_to(self.pages.len() * 2);
    }
}
