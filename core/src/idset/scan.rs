//! Scans: reading a set in pages. A scan starts at any id in O(log n).

use super::chunk::{join, split};
use super::page::Page;
use super::set::IdSet;
use super::tagged_pointer::Ref;
use super::tree::Tree;

impl IdSet {
    /// Appends to `out` the first `limit` members that are at least `from`, ascending. O(log n + limit).
    pub fn scan(&self, from: u64, limit: usize, out: &mut Vec<u64>) {
        match self.0.get() {
            Ref::Page(page) => copy_up(page, from, limit, out),
            Ref::Boxed(tree) => tree.copy_up(from, limit, out),
        }
    }

    /// Appends to `out` the last `limit` members that are at most `upto`, descending. O(log n + limit).
    pub fn scan_rev(&self, upto: u64, limit: usize, out: &mut Vec<u64>) {
        match self.0.get() {
            Ref::Page(page) => copy_down(page, upto, limit, out),
            Ref::Boxed(tree) => tree.copy_down(upto, limit, out),
        }
    }
}

fn copy_up(page: &Page, from: u64, limit: usize, out: &mut Vec<u64>) {
    let at = page.rank(from);
    out.extend(page.slice(at..at.saturating_add(limit)));
}

fn copy_down(page: &Page, upto: u64, limit: usize, out: &mut Vec<u64>) {
    let end = page.rank_after(upto);
    out.extend(page.slice(end.saturating_sub(limit)..end).rev());
}

impl Tree {
    pub(super) fn copy_up(&self, from: u64, limit: usize, out: &mut Vec<u64>) {
        let end = out.len().saturating_add(limit);
        let (first, low) = split(from);
        let mut buffer = [0; 128];
        for entry in self.entries_from(from) {
            let left = end - out.len();
            if left == 0 {
                return;
            }
            match entry.node.get() {
                Ref::Page(page) => copy_up(page, from, left, out),
                // The first entry may be a chunk before that of `from`.
                Ref::Boxed(_) if entry.key() < first => {}
                Ref::Boxed(dense) => {
                    let low = if entry.key() == first { low } else { 0 };
                    dense.copy_up(join(entry.key(), 0), low, left, &mut buffer, out);
                }
            }
        }
    }

    fn copy_down(&self, upto: u64, limit: usize, out: &mut Vec<u64>) {
        let end = out.len().saturating_add(limit);
        let (last, low) = split(upto);
        for entry in self.entries_down(upto) {
            let left = end - out.len();
            if left == 0 {
                return;
            }
            match entry.node.get() {
                Ref::Page(page) => copy_down(page, upto, left, out),
                Ref::Boxed(_) if entry.key() > last => {}
                Ref::Boxed(dense) => {
                    let low = if entry.key() == last { low } else { u16::MAX };
                    dense.copy_down(join(entry.key(), 0), low, left, out);
                }
            }
        }
    }
}
