//! Ordered iteration over the nodes of a set: its pages and dense chunks.

use super::chunk::join;
use super::dense::Dense;
use super::page::Page;
use super::set::IdSet;
use super::tagged_pointer::Ref;
use super::tree::Entry;

/// A borrowed node of a set.
pub(super) enum NodeRef<'a> {
    /// The members of a page.
    Page(&'a Page),
    /// All members of the chunk with this key.
    Dense(u64, &'a Dense),
}

impl NodeRef<'_> {
    fn of(entry: &Entry) -> NodeRef<'_> {
        match entry.node.get() {
            Ref::Page(page) => NodeRef::Page(page),
            Ref::Boxed(dense) => NodeRef::Dense(entry.key(), dense),
        }
    }
}

impl<'a> NodeRef<'a> {
    /// The members, ascending.
    pub(super) fn members(self) -> impl Iterator<Item = u64> + 'a {
        let (page, dense) = match self {
            NodeRef::Page(page) => (Some(page), None),
            NodeRef::Dense(key, dense) => (None, Some((key, dense))),
        };
        let dense = dense.map(|(key, dense)| dense.iter().map(move |low| join(key, low)));
        page.map(Page::iter)
            .into_iter()
            .flatten()
            .chain(dense.into_iter().flatten())
    }
}

impl IdSet {
    /// The nodes in ascending order, beginning with the only one that can contain `from`. All members of that node may
    /// be smaller than `from`.
    pub(super) fn nodes_from(&self, from: u64) -> impl Iterator<Item = NodeRef<'_>> {
        let (page, tree) = match self.0.get() {
            Ref::Page(page) => (Some(page).filter(|page| !page.is_empty()), None),
            Ref::Boxed(tree) => (None, Some(tree)),
        };
        let entries = tree.map(|tree| tree.entries_from(from).map(NodeRef::of));
        page.map(NodeRef::Page)
            .into_iter()
            .chain(entries.into_iter().flatten())
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.nodes_from(0).flat_map(NodeRef::members)
    }
}
