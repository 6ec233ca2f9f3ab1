//! Moving a set to fresh memory, one bounded piece at a time.

use super::roaring::{join, split};
use super::{IdSet, Repr};

impl IdSet {
    /// Copies the piece at or after `cursor` to new allocations and frees the old: the array, or one block (at most 8
    /// KB). Returns the cursor of the next piece, `None` after the last. The first cursor is 0.
    ///
    /// The nodes of the tree stay where they are.
    pub fn defrag_step(&mut self, cursor: u64) -> Option<u64> {
        match &mut self.0 {
            Repr::Compact(c) => {
                *c = c.clone();
                None
            }
            Repr::Roaring(r) => {
                let mut blocks = r.blocks.range_mut(split(cursor).0..);
                let (_, block) = blocks.next()?;
                *block = block.reallocated();
                blocks.next().map(|(&key, _)| join(key, 0))
            }
        }
    }
}
