//! The invariants of a tree, for tests and fuzzing.

use super::{Entry, Tree};
use crate::idset::chunk::{join, split};
use crate::idset::limits::GROUP;
use crate::idset::tagged_pointer::Ref;

impl Entry {
    fn validate(&self) -> Result<(), &'static str> {
        match self.node.get() {
            Ref::Page(page) if page.is_empty() => Err("tree: an empty page"),
            Ref::Page(page) => page.validate(),
            Ref::Boxed(_) if self.start != join(self.key(), 0) => {
                Err("tree: a dense chunk does not start at its first id")
            }
            Ref::Boxed(dense) => dense.validate(),
        }
    }

    /// The smallest id that can come after this entry.
    fn end(&self) -> Option<u64> {
        match self.node.get() {
            Ref::Page(page) => page.max().and_then(|max| max.checked_add(1)),
            Ref::Boxed(_) => join(self.key(), u16::MAX).checked_add(1),
        }
    }
}

impl Tree {
    /// Checks every invariant.
    pub(in super::super) fn validate(&self) -> Result<(), &'static str> {
        let (mut len, mut nodes, mut dense) = (0, 0, 0);
        let mut end = Some(0);
        for group in &self.groups {
            if group.entries.is_empty() || group.entries.len() > GROUP {
                return Err("tree: a group of a wrong size");
            }
            if group.start != group.entries[0].start {
                return Err("tree: wrong start of a group");
            }
            if group.members != group.entries.iter().map(Entry::len).sum::<u64>() {
                return Err("tree: wrong number of members of a group");
            }
            for entry in &group.entries {
                entry.validate()?;
                if end.is_none_or(|end| entry.start < end)
                    || entry.min().is_none_or(|min| min < entry.start)
                {
                    return Err("tree: entries overlap");
                }
                end = entry.end();
                nodes += 1;
                dense += usize::from(matches!(entry.node.get(), Ref::Boxed(_)));
            }
            len += group.members;
        }
        if (len, nodes, dense) != (self.len, self.nodes, self.dense) {
            return Err("tree: wrong totals");
        }
        self.validate_chunks()
    }

    /// A chunk is dense or in pages, not both.
    fn validate_chunks(&self) -> Result<(), &'static str> {
        let mut last = None;
        for entry in self.entries_from(0) {
            let key = entry.min().map(|min| split(min).0);
            let dense = matches!(entry.node.get(), Ref::Boxed(_));
            if let Some((before, was_dense)) = last
                && (dense || was_dense)
                && Some(before) == key
            {
                return Err("tree: a chunk in both tiers");
            }
            last = entry.max().map(|max| (split(max).0, dense));
        }
        Ok(())
    }
}
