//! Which copies of entries were read: each event counts once, however often it was copied.

use super::state::Cut;
use crate::domain::keys::Partition;
use crate::log::kafka::Copied;
use std::collections::{BTreeMap, HashMap};

/// The number of entries of a stream that are remembered. If copies fail and are repeated, later ones can precede them, but only those that
/// were sent together: a publisher sends up to 1,000 entries of a stream, and continues after the first one that failed.
const WINDOW: usize = 1_100;

/// The copies of a stream that were read.
#[derive(Default)]
struct Seen {
    /// By offset: the events of the entry, a bit for each.
    entries: BTreeMap<u64, u64>,
    /// All entries up to here are repetitions.
    forgotten: Option<u64>,
}

impl Seen {
    /// Remembers a copy. Returns whether it is the first one of its event.
    fn insert(&mut self, sequence: u64, index: u64) -> bool {
        if self
            .forgotten
            .is_some_and(|forgotten| sequence <= forgotten)
        {
            return false;
        }
        let bit = 1_u64.checked_shl(u32::try_from(index).unwrap_or(u32::MAX));
        let events = self.entries.entry(sequence).or_default();
        let is_new = bit.is_some_and(|bit| *events & bit == 0);
        *events |= bit.unwrap_or(0);
        if self.entries.len() > WINDOW {
            let first = self.entries.pop_first();
            self.forgotten = first.map(|(sequence, _)| sequence).or(self.forgotten);
        }
        is_new
    }
}

/// The copies of all streams that were read.
#[derive(Default)]
pub(super) struct SeenCopies(HashMap<Partition, Seen>);

impl SeenCopies {
    /// Remembers a copy. Returns whether it is the first one of its event.
    pub fn insert(&mut self, copied: &Copied) -> bool {
        let seen = self.0.entry(copied.source).or_default();
        seen.insert(copied.sequence, copied.index)
    }
}

/// Whether a copy is one of an entry of this data that the shadows do not have, which begin at `from`.
pub(super) fn is_of_data(
    cuts: &BTreeMap<Partition, Cut>,
    from: &BTreeMap<Partition, (u64, u64)>,
    copied: &Copied,
) -> bool {
    let (Some(cut), Some((from, _))) = (cuts.get(&copied.source), from.get(&copied.source)) else {
        return false;
    };
    let is_in_range = (*from..cut.published).contains(&copied.sequence);
    is_in_range && cut.histories.of(copied.sequence) == Some(&copied.history)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_counts_once_in_whatever_order_repetitions_are() {
        let mut seen = Seen::default();
        for (sequence, index, is_new) in [
            (1, 0, true),
            (3, 0, true),
            (3, 1, true),
            (3, 1, false),
            // It failed, and was sent again.
            (2, 0, true),
            (3, 0, false),
            (2, 0, false),
            (3, 63, true),
            (3, 64, false),
        ] {
            assert_eq!(seen.insert(sequence, index), is_new, "{sequence} {index}");
        }
        for sequence in 4..10_000 {
            assert!(seen.insert(sequence, 0));
        }
        assert!(seen.entries.len() <= WINDOW);
        for sequence in [1, 5_000, 9_000, 9_999] {
            assert!(!seen.insert(sequence, 0), "{sequence}");
        }
    }
}
