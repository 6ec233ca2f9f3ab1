//! Exact ordered sets of unsigned 64-bit ids.
//!
//! [`IdSet`] is the only type that a user of this module deals with. Its form adapts to its members and is nobody else's
//! business: up to 256 of them are one *page*, a single allocation of a base and packed offsets; more are a *tree* of
//! pages and of *dense chunks*, bitmaps or runs of 65,536 ids each. A set, a page and a chunk that shrink change back,
//! and a gap between the two limits keeps one at the border from changing with every call. No call takes time in
//! proportion to all members but those that return or combine all of them.
//!
//! Two serializations: the portable 64-bit Roaring format, which other implementations read and write
//! ([`IdSet::export`], [`IdSet::from_portable`]), and the blobs of an RDB file ([`IdSet::save_blobs`], [`BlobLoader`]).
//! Both decoders take hostile bytes: what they allocate is bounded by a constant times the bytes that are really there.
//! Where a payload decides how many members or pages there are, a refused allocation is [`SetError::OutOfMemory`];
//! inside of the `roaring` crate and of the directory (a few KB at a time) it aborts, as everywhere in Rust.

mod algebra;
mod bits;
mod blobs;
mod builder;
mod defrag;
mod dense;
mod limits;
mod order;
#[allow(unsafe_code)]
mod page;
mod portable;
mod portable_read;
mod raw;
mod scan;
mod series;
#[cfg(test)]
mod small;
#[allow(unsafe_code)]
mod thin;
mod tree;

use self::page::{Inserted, Page};
use self::thin::{Ref, RefMut, Thin};
use self::tree::{Entry, Node, Tree};

pub use self::algebra::SetOp;
pub use self::blobs::BlobLoader;

/// The most members of a set in its smallest form. For tests.
#[doc(hidden)]
pub const SMALL: usize = limits::PAGE;

/// A larger set takes its smallest form when it has fewer members than this. For tests.
#[doc(hidden)]
pub const SMALL_AGAIN: usize = limits::SHRINK as usize;

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
/// A single-member operation costs O(log n). One pointer, and what the members need.
#[derive(Clone)]
#[repr(transparent)]
pub struct IdSet(Thin<Tree>);

impl Default for IdSet {
    fn default() -> IdSet {
        IdSet::from_page(Page::empty())
    }
}

impl IdSet {
    /// The empty set. Allocates nothing.
    pub fn new() -> IdSet {
        IdSet::default()
    }

    fn from_page(page: Page) -> IdSet {
        IdSet(Thin::page(page))
    }

    fn from_tree(tree: Box<Tree>) -> IdSet {
        IdSet(Thin::boxed(tree))
    }

    /// The number of members. O(1).
    #[inline]
    pub fn len(&self) -> u64 {
        match self.0.get() {
            Ref::Page(page) => page.len() as u64,
            Ref::Boxed(tree) => tree.len,
        }
    }

    /// Whether there is no member. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds `m`; true when it was new.
    #[inline]
    pub fn insert(&mut self, m: u64) -> bool {
        match self.0.get_mut() {
            RefMut::Page(page) => match page.insert(m) {
                Inserted::Added => true,
                Inserted::Present => false,
                Inserted::Full => {
                    let start = page.min().unwrap_or(0).min(m);
                    let node = Node::page(std::mem::replace(page, Page::empty()));
                    let mut tree = Box::new(Tree::default());
                    tree.put(Entry { start, node });
                    let added = tree.insert(m);
                    *self = IdSet::from_tree(tree);
                    added
                }
            },
            RefMut::Boxed(tree) => tree.insert(m),
        }
    }

    /// Removes `m`; true when it was there. Gives memory back as the set shrinks.
    pub fn remove(&mut self, m: u64) -> bool {
        match self.0.get_mut() {
            RefMut::Page(page) => page.remove(m),
            RefMut::Boxed(tree) => {
                let removed = tree.remove(m);
                if tree.len < limits::SHRINK {
                    let members: Vec<u64> = self.iter().collect();
                    *self = IdSet::from_page(Page::from_sorted(&members));
                }
                removed
            }
        }
    }

    /// Whether `m` is a member.
    #[inline]
    pub fn contains(&self, m: u64) -> bool {
        match self.0.get() {
            Ref::Page(page) => page.position(m).is_ok(),
            Ref::Boxed(tree) => tree.contains(m),
        }
    }

    /// The name of the current form, for people to look at: `compact` (one page), `sparse` (a tree of pages), `dense` (of
    /// dense chunks) or `mixed` (of both).
    pub fn encoding(&self) -> &'static str {
        match self.0.get() {
            Ref::Page(_) => "compact",
            Ref::Boxed(tree) if tree.dense == 0 => "sparse",
            Ref::Boxed(tree) if tree.dense == tree.nodes => "dense",
            Ref::Boxed(_) => "mixed",
        }
    }

    /// About how many allocations the set holds, that is, how much work it is to free it. O(1).
    pub fn free_effort(&self) -> usize {
        match self.0.get() {
            Ref::Page(_) => 1,
            // A page is one, a dense chunk three.
            Ref::Boxed(tree) => 2 + tree.groups.len() + tree.nodes + 2 * tree.dense,
        }
    }

    /// Checks every internal invariant, in O(n). For tests and fuzzing.
    #[doc(hidden)]
    pub fn validate(&self) -> Result<(), &'static str> {
        match self.0.get() {
            Ref::Page(page) => page.validate(),
            Ref::Boxed(tree) if tree.len < limits::SHRINK => Err("a small tree"),
            Ref::Boxed(tree) => tree.validate(),
        }
    }
}

/// The same members, whatever their form.
impl PartialEq for IdSet {
    fn eq(&self, other: &IdSet) -> bool {
        self.len() == other.len() && IdSet::combine_len(SetOp::Xor, &[self, other]) == 0
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
