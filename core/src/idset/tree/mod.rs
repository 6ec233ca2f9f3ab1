//! The form of a larger set: an ordered directory of nodes, each a sparse page or a dense chunk.
//!
//! A *page* holds up to a few hundred members from its entry's start on and up to that of the next entry, however far
//! that is: what suits ids that lie far apart. A *dense chunk* holds the members of exactly one block of 65,536 ids,
//! as a bitmap or as runs. Where the pages of a chunk would take more than a bitmap it becomes dense, and when it has
//! lost a third of its members it becomes pages again. A chunk has members either in its dense node or in pages.
//!
//! The directory has two levels: a vector of groups, each a vector of up to 128 entries. So no change moves more than a
//! group of entries and, once in many thousand changes, the vector of groups; nothing is ever rebuilt. The groups know
//! how many members they have, which is what rank and select go by.

mod change;
mod directory;
mod tiers;
mod validate;

pub(super) use self::tiers::bounds;

use super::dense::Dense;
use super::thin::{Ref, Thin};

/// A page, or a dense chunk in a box.
pub(super) type Node = Thin<Dense>;

/// A node and from where on it may have members.
#[derive(Clone)]
pub(super) struct Entry {
    /// Not more than the node's smallest member; of a dense chunk, its first id.
    pub(super) start: u64,
    pub(super) node: Node,
}

/// Some consecutive entries, at least one.
#[derive(Clone)]
pub(super) struct Group {
    /// The start of the first entry.
    pub(super) start: u64,
    /// How many members all the nodes have.
    pub(super) members: u64,
    pub(super) entries: Vec<Entry>,
}

/// Where an entry is: the number of its group, and its own there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    pub(super) group: usize,
    pub(super) entry: usize,
}

/// Nodes in ascending order. No node is empty.
#[derive(Clone, Default)]
pub(super) struct Tree {
    /// The number of members of all nodes.
    pub(super) len: u64,
    /// The number of nodes ...
    pub(super) nodes: usize,
    /// ... and of dense ones among them.
    pub(super) dense: usize,
    /// Whatever the set's owner wants to remember: the module keeps the set's bytes here.
    pub(super) noted: usize,
    pub(super) groups: Vec<Group>,
}

/// The number of the chunk of `m`, and its place there.
#[inline]
pub(super) fn split(m: u64) -> (u64, u16) {
    (m >> 16, m as u16)
}

/// The inverse of [`split`].
#[inline]
pub(super) fn join(key: u64, low: u16) -> u64 {
    key << 16 | u64::from(low)
}

impl Entry {
    /// The number of members.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        match self.node.get() {
            Ref::Page(page) => page.len() as u64,
            Ref::Boxed(dense) => dense.len(),
        }
    }

    /// The number of the chunk that this entry, a dense one, holds.
    #[inline]
    pub(super) fn key(&self) -> u64 {
        self.start >> 16
    }

    pub(super) fn contains(&self, m: u64) -> bool {
        match self.node.get() {
            Ref::Page(page) => page.position(m).is_ok(),
            Ref::Boxed(dense) => self.key() == m >> 16 && dense.contains(m as u16),
        }
    }

    pub(super) fn min(&self) -> Option<u64> {
        match self.node.get() {
            Ref::Page(page) => page.min(),
            Ref::Boxed(dense) => dense.min().map(|low| join(self.key(), low)),
        }
    }

    pub(super) fn max(&self) -> Option<u64> {
        match self.node.get() {
            Ref::Page(page) => page.max(),
            Ref::Boxed(dense) => dense.max().map(|low| join(self.key(), low)),
        }
    }

    /// How many members are smaller than `m`.
    pub(super) fn rank(&self, m: u64) -> u64 {
        match self.node.get() {
            Ref::Page(page) => page.rank(m) as u64,
            Ref::Boxed(_) if m < self.start => 0,
            Ref::Boxed(dense) if m >> 16 > self.key() => dense.len(),
            Ref::Boxed(dense) => match (m as u16).checked_sub(1) {
                Some(last) => dense.count(0, last),
                None => 0,
            },
        }
    }

    /// The member with `rank` smaller ones in this node.
    pub(super) fn select(&self, rank: u64) -> Option<u64> {
        match self.node.get() {
            Ref::Page(page) => page.get(rank as usize),
            Ref::Boxed(dense) => dense.select(rank).map(|low| join(self.key(), low)),
        }
    }
}

impl Tree {
    #[inline]
    pub(super) fn contains(&self, m: u64) -> bool {
        self.locate(m)
            .is_some_and(|place| self.at(place).contains(m))
    }

    /// The entry that has `m` if any has, and the last id of which the same is true.
    pub(super) fn entry_of(&self, m: u64) -> (Option<&Entry>, u64) {
        let Some(place) = self.locate(m) else {
            return (None, u64::MAX);
        };
        let next = self.next(place).map(|next| self.at(next).start);
        let last = next.map_or(u64::MAX, |start| start.saturating_sub(1));
        (Some(self.at(place)), last.max(m))
    }

    /// The smallest member.
    pub(super) fn min(&self) -> Option<u64> {
        self.groups.first()?.entries.first()?.min()
    }

    /// The largest member.
    pub(super) fn max(&self) -> Option<u64> {
        self.groups.last()?.entries.last()?.max()
    }

    /// How many members are smaller than `m`: a pass over the groups before it and the nodes of its own.
    pub(super) fn rank(&self, m: u64) -> u64 {
        let Some(place) = self.locate(m) else {
            return 0;
        };
        let groups = self.groups[..place.group].iter();
        let before = &self.groups[place.group].entries[..place.entry];
        groups.map(|group| group.members).sum::<u64>()
            + before.iter().map(Entry::len).sum::<u64>()
            + self.at(place).rank(m)
    }

    /// The member with `rank` smaller ones, likewise.
    pub(super) fn select(&self, mut rank: u64) -> Option<u64> {
        let group = self.groups.iter().find(|group| {
            let here = rank < group.members;
            rank -= if here { 0 } else { group.members };
            here
        })?;
        for entry in &group.entries {
            let len = entry.len();
            if rank < len {
                return entry.select(rank);
            }
            rank -= len;
        }
        None
    }
}
