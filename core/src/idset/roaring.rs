//! The form of a larger set: blocks of 65,536 ids in a tree.
//!
//! One tree over the high 48 bits, not `RoaringTreemap`'s tree of vectors: a scan then starts anywhere in O(log n), a new
//! block does not move the others, and one block can be replaced on its own (defragmentation).

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::btree_map::Entry;

use super::block::Block;

/// The number of the block of `m`, and its place there.
pub(super) fn split(m: u64) -> (u64, u16) {
    (m >> 16, m as u16)
}

/// The inverse of [`split`].
pub(super) fn join(key: u64, low: u16) -> u64 {
    key << 16 | u64::from(low)
}

/// Blocks by the high 48 bits of their members. No block is empty.
#[derive(Clone, Default)]
pub(super) struct Roaring {
    /// The number of members of all blocks.
    pub(super) len: u64,
    pub(super) blocks: BTreeMap<u64, Block>,
    /// Which blocks are made of runs; usually none. Those are made anew before they change.
    pub(super) runs: BTreeSet<u64>,
}

impl Roaring {
    /// The set of these, which ascend strictly.
    pub(super) fn from_sorted(members: impl Iterator<Item = u64>) -> Roaring {
        let mut set = Roaring::default();
        let mut lows = Vec::new();
        let mut members = members.peekable();
        while let Some(m) = members.next() {
            let (key, low) = split(m);
            lows.push(low);
            if members.peek().is_none_or(|&next| next >> 16 != key) {
                set.push(key, Block::from_sorted(&lows), false);
                lows.clear();
            }
        }
        set
    }

    /// Adds a block with a key greater than all others.
    pub(super) fn push(&mut self, key: u64, block: Block, run: bool) {
        self.len += block.len();
        if run {
            self.runs.insert(key);
        }
        self.blocks.insert(key, block);
    }

    pub(super) fn contains(&self, m: u64) -> bool {
        let (key, low) = split(m);
        self.blocks
            .get(&key)
            .is_some_and(|block| block.contains(low))
    }

    pub(super) fn insert(&mut self, m: u64) -> bool {
        let (key, low) = split(m);
        match self.blocks.entry(key) {
            Entry::Vacant(place) => {
                place.insert(Block::single(low));
            }
            Entry::Occupied(mut place) => {
                let block = place.get_mut();
                if !self.runs.is_empty() && self.runs.contains(&key) {
                    if block.contains(low) {
                        return false;
                    }
                    block.expand_runs();
                    self.runs.remove(&key);
                }
                if !block.insert(low) {
                    return false;
                }
            }
        }
        self.len += 1;
        true
    }

    pub(super) fn remove(&mut self, m: u64) -> bool {
        let (key, low) = split(m);
        let Entry::Occupied(mut place) = self.blocks.entry(key) else {
            return false;
        };
        let block = place.get_mut();
        if !self.runs.is_empty() && self.runs.contains(&key) {
            if !block.contains(low) {
                return false;
            }
            block.expand_runs();
            self.runs.remove(&key);
        }
        if !block.remove(low) {
            return false;
        }
        if block.is_empty() {
            place.remove();
        }
        self.len -= 1;
        true
    }

    /// Adds all of `other`.
    pub(super) fn union_with(&mut self, other: Roaring) {
        let Roaring { blocks, runs, .. } = other;
        for (key, block) in blocks {
            self.union_block(key, block, runs.contains(&key));
        }
    }

    /// Adds the members of a block; `run` says whether it is made of runs.
    pub(super) fn union_block(&mut self, key: u64, block: Block, run: bool) {
        match self.blocks.entry(key) {
            Entry::Vacant(place) => {
                self.len += block.len();
                if run {
                    self.runs.insert(key);
                }
                place.insert(block);
            }
            Entry::Occupied(mut place) => {
                let mine = place.get_mut();
                self.len -= mine.len();
                mine.union_with(block);
                self.len += mine.len();
                // Without runs on either side none come of it.
                let had_runs = self.runs.remove(&key);
                if (run || had_runs) && mine.optimize() {
                    self.runs.insert(key);
                }
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks
            .iter()
            .flat_map(|(&key, block)| block.iter().map(move |low| join(key, low)))
    }

    pub(super) fn is_run(&self, key: u64) -> bool {
        self.runs.contains(&key)
    }

    /// Checks every invariant of this form.
    pub(super) fn validate(&self) -> Result<(), &'static str> {
        let (mut len, mut runs) = (0, 0);
        for (&key, block) in &self.blocks {
            block.validate()?;
            len += block.len();
            if block.is_run() != self.is_run(key) {
                return Err("roaring: the list of runs is wrong");
            }
            runs += usize::from(block.is_run());
            if key >= 1 << 48 {
                return Err("roaring: key out of range");
            }
        }
        if runs != self.runs.len() {
            return Err("roaring: runs of no block");
        }
        if len != self.len {
            Err("roaring: wrong cardinality")
        } else {
            Ok(())
        }
    }
}
