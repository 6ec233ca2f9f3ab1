//! The set: one pointer to a page or a tree, and the operations on single members.

use super::limits;
use super::op::SetOp;
use super::page::{Inserted, Page};
use super::tagged_pointer::{Ref, RefMut, TaggedPointer};
use super::tree::{Entry, Node, Tree};

/// The maximum number of members of a set in the encoding `compact`. For tests.
#[doc(hidden)]
pub const COMPACT_MAX: usize = limits::PAGE;

/// A set in another encoding becomes `compact` below this number of members. For tests.
#[doc(hidden)]
pub const COMPACT_SHRINK: usize = limits::SHRINK as usize;

/// An exact ordered set of `u64`.
///
/// Operations on a single member cost O(log n). The set itself is one pointer.
#[derive(Clone)]
#[repr(transparent)]
pub struct IdSet(pub(super) TaggedPointer<Tree>);

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

    pub(super) fn from_page(page: Page) -> IdSet {
        IdSet(TaggedPointer::page(page))
    }

    pub(super) fn from_tree(tree: Box<Tree>) -> IdSet {
        IdSet(TaggedPointer::boxed(tree))
    }

    /// The number of members. O(1).
    #[inline]
    pub fn len(&self) -> u64 {
        match self.0.get() {
            Ref::Page(page) => page.len() as u64,
            Ref::Boxed(tree) => tree.len,
        }
    }

    /// Whether the set is empty. O(1).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds `m`. Returns whether it was new.
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

    /// Removes `m`. Returns whether it was a member. Frees memory as the set shrinks.
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

    /// The name of the current encoding, for information only: `compact` (one page), `sparse` (a tree of pages),
    /// `dense` (a tree of dense chunks) or `mixed` (a tree of both).
    pub fn encoding(&self) -> &'static str {
        match self.0.get() {
            Ref::Page(_) => "compact",
            Ref::Boxed(tree) if tree.dense == 0 => "sparse",
            Ref::Boxed(tree) if tree.dense == tree.nodes => "dense",
            Ref::Boxed(_) => "mixed",
        }
    }

    /// The approximate number of allocations, which is the effort of freeing the set. O(1).
    pub fn free_effort(&self) -> usize {
        match self.0.get() {
            Ref::Page(_) => 1,
            // A page is one allocation, a dense chunk is three.
            Ref::Boxed(tree) => 2 + tree.groups.len() + tree.nodes + 2 * tree.dense,
        }
    }

    /// Checks every internal invariant, in O(n). For tests and fuzzing.
    #[doc(hidden)]
    pub fn validate(&self) -> Result<(), &'static str> {
        match self.0.get() {
            Ref::Page(page) => page.validate(),
            Ref::Boxed(tree) if tree.len < limits::SHRINK => Err("a tree with too few members"),
            Ref::Boxed(tree) => tree.validate(),
        }
    }
}

/// Compares members, not encodings.
impl PartialEq for IdSet {
    fn eq(&self, other: &IdSet) -> bool {
        self.len() == other.len() && IdSet::combine_len(SetOp::Xor, &[self, other]) == 0
    }
}

impl Eq for IdSet {}

/// Prints the encoding, the cardinality and the first few members.
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
