//! Reading a set in portions. A scan starts anywhere in O(log n), however many blocks lie before.

use super::roaring::{join, split};
use super::{IdSet, Repr};

impl IdSet {
    /// Appends to `out` the first `limit` members that are at least `from`, ascending. O(log n + limit).
    pub fn scan(&self, from: u64, limit: usize, out: &mut Vec<u64>) {
        match &self.0 {
            Repr::Compact(c) => {
                let at = c.position(from).unwrap_or_else(|at| at);
                out.extend(c.slice(at..at.saturating_add(limit)));
            }
            Repr::Roaring(r) => {
                let end = out.len().saturating_add(limit);
                let (first, low) = split(from);
                let mut buffer = [0; 128];
                for (&key, block) in r.blocks.range(first..) {
                    if out.len() >= end {
                        return;
                    }
                    let from = if key == first { low } else { 0 };
                    block.copy_up(join(key, 0), from, end - out.len(), &mut buffer, out);
                }
            }
        }
    }

    /// Appends to `out` the last `limit` members that are at most `upto`, descending. O(log n + limit).
    pub fn scan_rev(&self, upto: u64, limit: usize, out: &mut Vec<u64>) {
        match &self.0 {
            Repr::Compact(c) => {
                let end = c.position(upto).map_or_else(|at| at, |at| at + 1);
                out.extend(c.slice(end.saturating_sub(limit)..end).rev());
            }
            Repr::Roaring(r) => {
                let end = out.len().saturating_add(limit);
                let (last, low) = split(upto);
                for (&key, block) in r.blocks.range(..=last).rev() {
                    if out.len() >= end {
                        return;
                    }
                    let upto = if key == last { low } else { u16::MAX };
                    block.copy_down(join(key, 0), upto, end - out.len(), out);
                }
            }
        }
    }
}
