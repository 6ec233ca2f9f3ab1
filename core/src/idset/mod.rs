//! Exact ordered sets of unsigned 64-bit ids.
//!
//! [`IdSet`] is the only type that a user of this module deals with. Its form adapts to its members and is nobody else's
//! business: a sorted array for up to 128 of them, compressed blocks of 65,536 ids above that. A set that shrinks to less
//! than half of the limit becomes an array again, and the gap between the two limits keeps a set at the border from
//! changing its form with every call.
//!
//! Two serializations: the portable 64-bit Roaring format, which other implementations read and write
//! ([`IdSet::export`], [`IdSet::from_portable`]), and the blobs of an RDB file ([`IdSet::save_blobs`], [`BlobLoader`]).
//! Both decoders take hostile bytes: what they allocate is bounded by a constant times the bytes that are really there.
//! Where a payload decides how many entries a table gets, a refused allocation is [`SetError::OutOfMemory`]; inside of
//! the `roaring` crate and of a tree's nodes (at most 8 KB each) it aborts, as everywhere in Rust.

mod algebra;
mod blobs;
mod block;
mod builder;
mod compact;
mod defrag;
mod order;
mod portable;
mod portable_read;
mod roaring;
mod scan;

use self::compact::{Compact, Inserted};
use self::roaring::Roaring;

pub use self::algebra::SetOp;
pub use self::blobs::BlobLoader;

/// A set of blocks with fewer members than this becomes an array.
const SHRINK_BELOW: u64 = compact::LIMIT as u64 / 2;

/// Why bytes did not become a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The bytes are not what a set is saved or exported as.
    #[error("invalid payload")]
    Payload,
    /// The allocator refused.
    #[error("out of memory")]
    OutOfMemory,
}

/// An exact set of `u64`, all 2^64 of them, in order.
///
/// A single-member operation costs O(log n). 16 bytes, and what the members need.
#[derive(Clone, Default)]
pub struct IdSet(Repr);

#[derive(Clone)]
enum Repr {
    Compact(Compact),
    Roaring(Box<Roaring>),
}

impl Default for Repr {
    fn default() -> Repr {
        Repr::Compact(Compact::default())
    }
}

impl IdSet {
    /// The empty set. Allocates nothing.
    pub fn new() -> IdSet {
        IdSet::default()
    }

    /// The number of members. O(1).
    pub fn len(&self) -> u64 {
        match &self.0 {
            Repr::Compact(c) => c.len() as u64,
            Repr::Roaring(r) => r.len,
        }
    }

    /// Whether there is no member. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds `m`; true when it was new.
    pub fn insert(&mut self, m: u64) -> bool {
        match &mut self.0 {
            Repr::Compact(c) => match c.insert(m) {
                Inserted::Added => true,
                Inserted::Present => false,
                Inserted::Full => {
                    let mut r = Roaring::from_sorted(c.iter());
                    let added = r.insert(m);
                    self.0 = Repr::Roaring(Box::new(r));
                    added
                }
            },
            Repr::Roaring(r) => r.insert(m),
        }
    }

    /// Removes `m`; true when it was there. Gives memory back as the set shrinks.
    pub fn remove(&mut self, m: u64) -> bool {
        match &mut self.0 {
            Repr::Compact(c) => c.remove(m),
            Repr::Roaring(r) => {
                let removed = r.remove(m);
                if r.len < SHRINK_BELOW {
                    let members: Vec<u64> = r.iter().collect();
                    self.0 = Repr::Compact(Compact::from_sorted(&members));
                }
                removed
            }
        }
    }

    /// Whether `m` is a member.
    pub fn contains(&self, m: u64) -> bool {
        match &self.0 {
            Repr::Compact(c) => c.position(m).is_ok(),
            Repr::Roaring(r) => r.contains(m),
        }
    }

    /// The name of the current form: `compact` or `roaring`. For people to look at.
    pub fn encoding(&self) -> &'static str {
        match &self.0 {
            Repr::Compact(_) => "compact",
            Repr::Roaring(_) => "roaring",
        }
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let (few, many) = match &self.0 {
            Repr::Compact(c) => (Some(c.iter()), None),
            Repr::Roaring(r) => (None, Some(r.iter())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }

    /// Adds all members of `other`; how many of them were new.
    pub fn union_with(&mut self, mut other: IdSet) -> u64 {
        let before = self.len();
        if matches!((&self.0, &other.0), (Repr::Compact(_), Repr::Roaring(_))) {
            std::mem::swap(self, &mut other);
        }
        let both = self.len() + other.len();
        match (&mut self.0, other.0) {
            (Repr::Roaring(mine), Repr::Roaring(theirs)) => mine.union_with(*theirs),
            (_, Repr::Compact(few)) => few.iter().for_each(|m| {
                self.insert(m);
            }),
            // Swapped away above.
            (Repr::Compact(_), theirs @ Repr::Roaring(_)) => self.0 = theirs,
        }
        debug_assert!(self.len() <= both);
        self.len() - before
    }

    /// About how many allocations the set holds, that is, how much work it is to free it. O(1).
    pub fn free_effort(&self) -> usize {
        match &self.0 {
            Repr::Compact(_) => 1,
            // Each block is two allocations; a tree node holds about eight of them.
            Repr::Roaring(r) => 1 + r.blocks.len() * 2 + r.blocks.len() / 8,
        }
    }

    /// Checks every internal invariant, in O(n). For tests and fuzzing.
    #[doc(hidden)]
    pub fn validate(&self) -> Result<(), &'static str> {
        match &self.0 {
            Repr::Compact(c) => c.validate(),
            Repr::Roaring(r) if r.len < SHRINK_BELOW => Err("a small set of blocks"),
            Repr::Roaring(r) => r.validate(),
        }
    }
}

/// The same members, whatever their form.
impl PartialEq for IdSet {
    fn eq(&self, other: &IdSet) -> bool {
        match (&self.0, &other.0) {
            (Repr::Compact(a), Repr::Compact(b)) => a == b,
            (Repr::Roaring(a), Repr::Roaring(b)) => a.len == b.len && a.blocks == b.blocks,
            _ => self.len() == other.len() && self.iter().eq(other.iter()),
        }
    }
}

impl Eq for IdSet {}

/// The form, the cardinality and the first few members.
impl std::fmt::Debug for IdSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut first = Vec::new();
        self.scan(0, 20, &mut first);
        write!(
            f,
            "IdSet({}, {} members: {first:?})",
            self.encoding(),
            self.len()
        )
    }
}

impl FromIterator<u64> for IdSet {
    fn from_iter<I: IntoIterator<Item = u64>>(members: I) -> IdSet {
        let mut set = IdSet::new();
        for m in members {
            set.insert(m);
        }
        set
    }
}
