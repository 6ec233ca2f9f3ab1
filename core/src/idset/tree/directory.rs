//! The directory of a tree: finding, adding and removing entries.

use super::{Entry, Group, Node, Place, Tree};
use crate::idset::limits::GROUP;
use crate::idset::tagged_pointer::Ref;
use crate::search::last_from;

/// Reserves room for one more item, growing by a quarter instead of doubling.
fn reserve_some<T>(entries: &mut Vec<T>) {
    if entries.len() == entries.capacity() {
        entries.reserve_exact((entries.len() / 4).max(2));
    }
}

impl Group {
    fn of(entries: Vec<Entry>) -> Option<Group> {
        Some(Group {
            start: entries.first()?.start,
            members: entries.iter().map(Entry::len).sum(),
            entries,
        })
    }

    /// Shrinks the capacity to a quarter more than the length.
    fn shrink(&mut self) {
        if self.entries.len() * 2 < self.entries.capacity() {
            self.entries.shrink_to(self.entries.len() * 5 / 4);
        }
    }
}

impl Tree {
    /// The only entry that can contain `m`: the last that starts at or before `m`, else the first. `None` without
    /// entries.
    #[inline]
    pub(in super::super) fn locate(&self, m: u64) -> Option<Place> {
        let group = last_from(&self.groups, |group| group.start, m);
        let entries = &self.groups.get(group)?.entries;
        let entry = last_from(entries, |entry| entry.start, m);
        Some(Place { group, entry })
    }

    #[inline]
    pub(in super::super) fn at(&self, place: Place) -> &Entry {
        &self.groups[place.group].entries[place.entry]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, place: Place) -> &mut Entry {
        &mut self.groups[place.group].entries[place.entry]
    }

    /// The next place.
    pub(in super::super) fn next(&self, place: Place) -> Option<Place> {
        if place.entry + 1 < self.groups[place.group].entries.len() {
            let entry = place.entry + 1;
            return Some(Place { entry, ..place });
        }
        let group = place.group + 1;
        (group < self.groups.len()).then_some(Place { group, entry: 0 })
    }

    /// The previous place.
    pub(super) fn previous(&self, place: Place) -> Option<Place> {
        if let Some(entry) = place.entry.checked_sub(1) {
            return Some(Place { entry, ..place });
        }
        let group = place.group.checked_sub(1)?;
        let entry = self.groups[group].entries.len() - 1;
        Some(Place { group, entry })
    }

    /// The entries from [`Tree::locate`] of `from` on.
    pub(in super::super) fn entries_from(&self, from: u64) -> impl Iterator<Item = &Entry> {
        let place = self.locate(from).unwrap_or(Place { group: 0, entry: 0 });
        self.groups
            .iter()
            .enumerate()
            .skip(place.group)
            .flat_map(move |(i, group)| {
                let skipped = if i == place.group { place.entry } else { 0 };
                &group.entries[skipped..]
            })
    }

    /// The entries from [`Tree::locate`] of `upto` down to the first.
    pub(in super::super) fn entries_down(&self, upto: u64) -> impl Iterator<Item = &Entry> {
        let mut next = self.locate(upto);
        std::iter::from_fn(move || {
            let place = next?;
            next = self.previous(place);
            Some(self.at(place))
        })
    }

    /// Changes the start of an entry. `start` is after the previous entry and at most the first member of this one.
    pub(super) fn set_start(&mut self, place: Place, start: u64) {
        self.at_mut(place).start = start;
        if place.entry == 0 {
            self.groups[place.group].start = start;
        }
    }

    /// Adds an entry in order. The tree has none of its members.
    pub(in super::super) fn put(&mut self, entry: Entry) {
        let members = entry.len();
        self.len += members;
        self.nodes += 1;
        self.dense += usize::from(is_dense(&entry.node));
        let g = last_from(&self.groups, |group| group.start, entry.start);
        let Some(group) = self.groups.get_mut(g) else {
            self.groups.reserve_exact(1);
            self.groups.extend(Group::of(vec![entry]));
            return;
        };
        let e = group
            .entries
            .partition_point(|other| other.start < entry.start);
        if group.entries.len() == GROUP {
            return self.put_in_full(g, e, entry);
        }
        reserve_some(&mut group.entries);
        group.entries.insert(e, entry);
        group.members += members;
        group.start = group.entries[0].start;
    }

    /// Adds an entry to a full group by splitting the group. At either end of the tree the group stays full, so that ascending
    /// and descending ids fill groups completely.
    fn put_in_full(&mut self, g: usize, e: usize, entry: Entry) {
        let last = g + 1 == self.groups.len() && e == GROUP;
        let first = g == 0 && e == 0;
        let mut entries = Vec::new();
        if last || first {
            entries.reserve_exact(4);
            entries.push(entry);
        } else {
            let group = &mut self.groups[g];
            entries = group.entries.split_off(GROUP / 2);
            let half = if e < GROUP / 2 {
                &mut group.entries
            } else {
                &mut entries
            };
            half.insert(if e < GROUP / 2 { e } else { e - GROUP / 2 }, entry);
            group.start = group.entries[0].start;
            group.members = group.entries.iter().map(Entry::len).sum();
            group.shrink();
        }
        if let Some(group) = Group::of(entries) {
            reserve_some(&mut self.groups);
            self.groups.insert(g + usize::from(!first), group);
        }
    }

    /// Removes an entry with its members. Other places become invalid.
    pub(super) fn take(&mut self, place: Place) -> Entry {
        let group = &mut self.groups[place.group];
        let entry = group.entries.remove(place.entry);
        let members = entry.len();
        group.members -= members;
        self.len -= members;
        self.nodes -= 1;
        self.dense -= usize::from(is_dense(&entry.node));
        match group.entries.first() {
            Some(first) => {
                group.start = first.start;
                group.shrink();
                self.merge_groups(place.group);
            }
            None => {
                self.groups.remove(place.group);
            }
        }
        entry
    }

    /// Merges a group that has become small with the next or the previous one, if that leaves room.
    fn merge_groups(&mut self, g: usize) {
        if self.groups[g].entries.len() > GROUP / 4 {
            return;
        }
        let fits = |left: usize| {
            let pair = self.groups.get(left..left + 2);
            pair.is_some_and(|pair| pair[0].entries.len() + pair[1].entries.len() <= GROUP * 3 / 4)
        };
        let left = match g.checked_sub(1) {
            _ if fits(g) => g,
            Some(before) if fits(before) => before,
            _ => return,
        };
        let right = self.groups.remove(left + 1);
        let group = &mut self.groups[left];
        group.members += right.members;
        group.entries.reserve_exact(right.entries.len());
        group.entries.extend(right.entries);
        if self.groups.len() * 2 < self.groups.capacity() {
            self.groups.shrink_to(self.groups.len() * 5 / 4);
        }
    }
}

/// Whether a node is a dense chunk.
pub(super) fn is_dense(node: &Node) -> bool {
    matches!(node.get(), Ref::Boxed(_))
}
