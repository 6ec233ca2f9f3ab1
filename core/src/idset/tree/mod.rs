//! The encoding of a larger set: an ordered directory of nodes, each a sparse page or a dense chunk.
//!
//! A *page* contains up to a few hundred members from its entry's start up to the start of the next entry, at any distance,
//! which suits ids that are far apart. A *dense chunk* contains the members of exactly one block of 65,536 ids, as a bitmap
//! or as runs. A chunk becomes dense when its pages would take more memory than a bitmap, and becomes pages again when it
//! has lost a third of its members. The members of a chunk are either in its dense node or in pages.
//!
//! The directory is a B-tree of two levels: a vector of groups, each a vector of up to 128 entries. A change moves at most
//! the entries of a group and, once in many thousand changes, the vector of groups. Groups store their numbers of members,
//! which rank and select add up.

mod change;
mod directory;
mod tiers;
mod validate;

use super::chunk::join;
use super::dense::Dense;
use super::tagged_pointer::{Ref, TaggedPointer};

/// A page, or a dense chunk in a box.
pub(super) type Node = TaggedPointer<Dense>;

/// A node, and the smallest id that it can contain.
#[derive(Clone)]
pub(super) struct Entry {
    /// A lower bound of the node's smallest member; for a dense chunk, its first id.
    pub(super) start: u64,
    pub(super) node: Node,
}

/// Consecutive entries, at least one.
#[derive(Clone)]
pub(super) struct Group {
    /// The start of the first entry.
    pub(super) start: u64,
    /// The number of members of its nodes.
    pub(super) members: u64,
    pub(super) entries: Vec<Entry>,
}

/// The position of an entry: the index of its group, and its index there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    pub(super) group: usize,
    pub(super) entry: usize,
}

/// Nodes in ascending order. No node is empty.
#[derive(Clone, Default)]
pub(super) struct Tree {
    /// The number of members.
    pub(super) len: u64,
    /// The number of nodes.
    pub(super) nodes: usize,
    /// The number of dense nodes.
    pub(super) dense: usize,
    /// The bytes that the set's owner accounts for it.
    pub(super) accounted_bytes: usize,
    pub(super) groups: Vec<Group>,
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

    /// The key of the chunk of a dense entry.
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

    /// The number of members smaller than `m`.
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

    /// The only entry that can contain `m`, and the last id for which this holds.
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

    /// The number of members smaller than `m`. O(groups before it + nodes of its group).
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

    /// The member with `rank` smaller ones. O(groups before it + nodes of its group).
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
