//! Makes a set of members and blocks that arrive in ascending order: what loaders and set operations share.

use std::collections::BTreeSet;

use super::block::Block;
use super::compact::{self, Compact};
use super::roaring::{Roaring, join, split};
use super::{Repr, SetError};

/// Collects, and at the end chooses the form.
///
/// Blocks wait in a vector, because a tree that is made of a sorted vector has full nodes.
#[derive(Default)]
pub(super) struct Builder {
    /// The members as long as they are few.
    few: Vec<u64>,
    /// Whether they are not: then all is in `blocks` and `lows`.
    many: bool,
    blocks: Vec<(u64, Block)>,
    runs: BTreeSet<u64>,
    /// Members of the block `key`, which is not in `blocks` yet.
    lows: Vec<u16>,
    key: u64,
    last: Option<u64>,
    len: u64,
}

impl Builder {
    /// The number of members so far.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Adds a member. An error when it is not greater than all before, or when there is no memory.
    pub(super) fn push(&mut self, m: u64) -> Result<(), SetError> {
        if self.last.is_some_and(|last| m <= last) {
            return Err(SetError::Payload);
        }
        self.last = Some(m);
        self.len += 1;
        if !self.many {
            if self.few.len() < compact::LIMIT {
                self.few.push(m);
                return Ok(());
            }
            self.spill();
        }
        self.blocks
            .try_reserve(1)
            .map_err(|_| SetError::OutOfMemory)?;
        self.push_low(m);
        Ok(())
    }

    /// Adds a block, whose members must be greater than all before.
    pub(super) fn push_block(&mut self, key: u64, block: Block, run: bool) -> Result<(), SetError> {
        let (Some(min), Some(max)) = (block.min(), block.max()) else {
            return Err(SetError::Payload);
        };
        if self.last.is_some_and(|last| join(key, min) <= last) {
            return Err(SetError::Payload);
        }
        self.last = Some(join(key, max));
        self.blocks
            .try_reserve(2)
            .map_err(|_| SetError::OutOfMemory)?;
        self.append_block(key, block, run);
        Ok(())
    }

    /// The same where the caller vouches for the order, and where no memory means an abort.
    pub(super) fn append_block(&mut self, key: u64, block: Block, run: bool) {
        let len = block.len();
        self.len += len;
        if !self.many {
            if self.few.len() as u64 + len <= compact::LIMIT as u64 {
                self.few.extend(block.iter().map(|low| join(key, low)));
                return;
            }
            self.spill();
        }
        self.complete();
        self.add(key, block, run);
    }

    /// Turns what was few into blocks.
    fn spill(&mut self) {
        self.many = true;
        for m in std::mem::take(&mut self.few) {
            self.push_low(m);
        }
    }

    fn push_low(&mut self, m: u64) {
        let (key, low) = split(m);
        if key != self.key {
            self.complete();
            self.key = key;
        }
        self.lows.push(low);
    }

    /// Makes a block of the members that wait for one.
    fn complete(&mut self) {
        if !self.lows.is_empty() {
            let block = Block::from_sorted(&self.lows);
            self.lows.clear();
            self.add(self.key, block, false);
        }
    }

    /// A block may come in two parts: the end of one blob and the beginning of the next.
    fn add(&mut self, key: u64, block: Block, run: bool) {
        let is_run = match self.blocks.last_mut() {
            Some((last, mine)) if *last == key => {
                mine.union_with(block);
                (self.runs.remove(&key) || run) && mine.optimize()
            }
            _ => {
                self.blocks.push((key, block));
                run
            }
        };
        if is_run {
            self.runs.insert(key);
        }
    }

    /// The set, in the smaller form.
    pub(super) fn finish(mut self) -> Repr {
        if !self.many {
            return Repr::Compact(Compact::from_sorted(&self.few));
        }
        self.complete();
        let blocks = self.blocks.into_iter().collect();
        Repr::Roaring(Box::new(Roaring {
            len: self.len,
            blocks,
            runs: self.runs,
        }))
    }
}
