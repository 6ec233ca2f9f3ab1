//! Iteration over the nodes of a set, in order.

use super::chunk::join;
use super::dense::Dense;
use super::page::Page;
use super::set::IdSet;
use super::tagged_pointer::Ref;
use super::tree::Entry;

/// One node of a set.
pub(super) enum Piece<'a> {
    /// The members of a page.
    Sparse(&'a Page),
    /// All members of the chunk with this key.
    Dense(u64, &'a Dense),
}

impl Piece<'_> {
    fn of(entry: &Entry) -> Piece<'_> {
        match entry.node.get() {
            Ref::Page(page) => Piece::Sparse(page),
            Ref::Boxed(dense) => Piece::Dense(entry.key(), dense),
        }
    }
}

impl<'a> Piece<'a> {
    /// The members, ascending.
    pub(super) fn members(self) -> impl Iterator<Item = u64> + 'a {
        let (page, dense) = match self {
            Piece::Sparse(page) => (Some(page), None),
            Piece::Dense(key, dense) => (None, Some((key, dense))),
        };
        let dense = dense.map(|(key, dense)| dense.iter().map(move |low| join(key, low)));
        page.map(Page::iter)
            .into_iter()
            .flatten()
            .chain(dense.into_iter().flatten())
    }
}

impl IdSet {
    /// The nodes in ascending order, beginning with the only one that can have `from`. All members of that node may be
    /// smaller than `from`.
    pub(super) fn pieces(&self, from: u64) -> impl Iterator<Item = Piece<'_>> {
        let (page, tree) = match self.0.get() {
            Ref::Page(page) => (Some(page).filter(|page| !page.is_empty()), None),
            Ref::Boxed(tree) => (None, Some(tree)),
        };
        let entries = tree.map(|tree| tree.entries_from(from).map(Piece::of));
        page.map(Piece::Sparse)
            .into_iter()
            .chain(entries.into_iter().flatten())
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.pieces(0).flat_map(Piece::members)
    }
}
