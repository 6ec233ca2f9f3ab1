//! The order of members: first and last, rank and select, and counts of ranges.

use super::set::IdSet;
use super::tagged_pointer::Ref;

impl IdSet {
    /// The smallest member. O(1).
    pub fn min(&self) -> Option<u64> {
        match self.0.get() {
            Ref::Page(page) => page.min(),
            Ref::Boxed(tree) => tree.min(),
        }
    }

    /// The largest member. O(1).
    pub fn max(&self) -> Option<u64> {
        match self.0.get() {
            Ref::Page(page) => page.max(),
            Ref::Boxed(tree) => tree.max(),
        }
    }

    /// The number of members smaller than `m`, which need not be a member. O(groups of nodes before it), of which there is
    /// one for about ten thousand members.
    pub fn rank(&self, m: u64) -> u64 {
        match self.0.get() {
            Ref::Page(page) => page.rank(m) as u64,
            Ref::Boxed(tree) => tree.rank(m),
        }
    }

    /// The member with `rank` smaller ones; `None` past the end. O(groups of nodes before it).
    pub fn select(&self, rank: u64) -> Option<u64> {
        match self.0.get() {
            Ref::Page(page) => page.get(usize::try_from(rank).ok()?),
            Ref::Boxed(tree) => tree.select(rank),
        }
    }

    /// The number of members in `min ..= max`; 0 when `min > max`. O(groups of nodes before `max`).
    pub fn count(&self, min: u64, max: u64) -> u64 {
        if min > max {
            return 0;
        }
        let upto = match max.checked_add(1) {
            Some(end) => self.rank(end),
            None => self.len(),
        };
        upto - self.rank(min)
    }
}
