//! Moving a set to new allocations, in bounded steps.

use super::page::Page;
use super::set::IdSet;
use super::tagged_pointer::{Owned, RefMut, TaggedPointer};
use super::tree::{Node, Tree};

impl IdSet {
    /// Moves one page or dense chunk (at most 8 KB), and the vectors of the directory that begin with it, to new allocations.
    /// The first cursor is 0. Returns the cursor of the next step, `None` after the last.
    pub fn defrag_step(&mut self, cursor: u64) -> Option<u64> {
        if let RefMut::Page(page) = self.0.get_mut() {
            *page = page.clone();
            return None;
        }
        if cursor == 0 {
            self.move_root();
        }
        match self.0.get_mut() {
            RefMut::Page(_) => None,
            RefMut::Boxed(tree) => tree.defrag_step(cursor),
        }
    }

    /// Moves the tree's box and its vector of groups.
    fn move_root(&mut self) {
        let set = std::mem::replace(&mut self.0, TaggedPointer::page(Page::empty()));
        self.0 = match set.into_owned() {
            Owned::Page(page) => TaggedPointer::page(page),
            Owned::Boxed(tree) => {
                let mut tree = Box::new(*tree);
                move_vec(&mut tree.groups);
                TaggedPointer::boxed(tree)
            }
        };
    }
}

impl Tree {
    fn defrag_step(&mut self, cursor: u64) -> Option<u64> {
        let place = self.locate(cursor)?;
        let entries = &mut self.groups[place.group].entries;
        if place.entry == 0 {
            move_vec(entries);
        }
        move_node(&mut entries[place.entry].node);
        self.next(place).map(|next| self.at(next).start)
    }
}

fn move_node(node: &mut Node) {
    match node.get_mut() {
        RefMut::Page(page) => *page = page.clone(),
        // The clone has no spare capacity.
        RefMut::Boxed(dense) => *node = Node::boxed(Box::new(dense.clone())),
    }
}

fn move_vec<T>(old: &mut Vec<T>) {
    let mut new = Vec::with_capacity(old.len());
    new.append(old);
    *old = new;
}
