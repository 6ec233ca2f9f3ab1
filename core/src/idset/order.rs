//! Where members stand in the order: first and last, rank and select, how many in a range.

use super::roaring::{Roaring, join, split};
use super::{IdSet, Repr};

impl IdSet {
    /// The smallest member.
    pub fn min(&self) -> Option<u64> {
        match &self.0 {
            Repr::Compact(c) => c.get(0),
            Repr::Roaring(r) => {
                let (&key, block) = r.blocks.first_key_value()?;
                Some(join(key, block.min()?))
            }
        }
    }

    /// The largest member.
    pub fn max(&self) -> Option<u64> {
        match &self.0 {
            Repr::Compact(c) => c.get(c.len().checked_sub(1)?),
            Repr::Roaring(r) => {
                let (&key, block) = r.blocks.last_key_value()?;
                Some(join(key, block.max()?))
            }
        }
    }

    /// How many members are smaller than `m`, itself a member or not. O(number of blocks before it).
    pub fn rank(&self, m: u64) -> u64 {
        match &self.0 {
            Repr::Compact(c) => c.position(m).unwrap_or_else(|at| at) as u64,
            Repr::Roaring(r) => m.checked_sub(1).map_or(0, |last| count(r, 0, last)),
        }
    }

    /// The member with `rank` smaller ones; `None` past the end. O(number of blocks before it).
    pub fn select(&self, rank: u64) -> Option<u64> {
        match &self.0 {
            Repr::Compact(c) => c.get(usize::try_from(rank).ok()?),
            Repr::Roaring(r) => select(r, rank),
        }
    }

    /// How many members lie in `min ..= max`; 0 when `min > max`. O(number of blocks in the range).
    pub fn count(&self, min: u64, max: u64) -> u64 {
        if min > max {
            return 0;
        }
        match &self.0 {
            Repr::Compact(c) => {
                let end = c.position(max).map_or_else(|at| at, |at| at + 1);
                (end - c.position(min).unwrap_or_else(|at| at)) as u64
            }
            Repr::Roaring(r) => count(r, min, max),
        }
    }
}

fn count(set: &Roaring, min: u64, max: u64) -> u64 {
    let ((first, low), (last, high)) = (split(min), split(max));
    if min == 0
        && set
            .blocks
            .last_key_value()
            .is_none_or(|(&key, _)| key < last)
    {
        return set.len;
    }
    let blocks = set.blocks.range(first..=last);
    blocks
        .map(|(&key, block)| {
            let from = if key == first { low } else { 0 };
            let upto = if key == last { high } else { u16::MAX };
            if from == 0 && upto == u16::MAX {
                block.len()
            } else {
                block.count(from, upto)
            }
        })
        .sum()
}

fn select(set: &Roaring, rank: u64) -> Option<u64> {
    if rank >= set.len {
        return None;
    }
    let mut left = rank;
    for (&key, block) in &set.blocks {
        let len = block.len();
        if left < len {
            return Some(join(key, block.select(left)?));
        }
        left -= len;
    }
    None
}
