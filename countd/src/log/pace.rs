//! How much a read asks for.
//!
//! Entries may be of any length: others may append to a log. Nobody knows how long they are before they have been read, and the
//! server makes the whole reply at once. So a connection begins with a few entries and asks for more as long as what came was short;
//! after a reply that was too long it asks fewer partitions for less, in turn.

/// With so many entries it begins.
pub(crate) const FIRST: usize = 64;
/// It never asks for more.
const MOST: usize = 1 << 16;

/// What is known of the length of entries.
pub(super) struct Pace {
    /// The most bytes of a read.
    bytes: usize,
    /// How many entries the next read may have.
    entries: usize,
    /// The partition with which it begins.
    turn: usize,
}

/// What a read asks for: `count` entries of each of `width` partitions, from the `first` on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadPlan {
    pub first: usize,
    pub width: usize,
    pub count: usize,
}

impl Pace {
    pub fn new(bytes: usize) -> Pace {
        Pace {
            bytes,
            entries: FIRST,
            turn: 0,
        }
    }

    /// For so many partitions, and entries of each at most.
    pub fn plan(&mut self, partitions: usize, limit: usize) -> ReadPlan {
        let width = self.entries.clamp(1, partitions.max(1));
        let first = self.turn % partitions.max(1);
        if width < partitions {
            self.turn = first + width;
        }
        ReadPlan {
            first,
            width,
            count: limit.min((self.entries / width).max(1)),
        }
    }

    /// A read had so many entries, of so many bytes together.
    pub fn learn(&mut self, entries: usize, bytes: usize, is_too_long: bool) {
        self.entries = match is_too_long {
            true => entries / 2,
            false => {
                let each = bytes.checked_div(entries).unwrap_or(0).max(1);
                (self.entries * 2).min(self.bytes / each).min(MOST)
            }
        };
        self.entries = self.entries.max(1);
    }

    /// Begins again: what has come into the logs meanwhile is not known.
    pub fn forget(&mut self) {
        self.entries = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_grow_while_entries_are_short() {
        let mut pace = Pace::new(1_000_000);
        let plan = pace.plan(100, 50);
        assert_eq!((plan.width, plan.count), (64, 1));
        for _ in 0..10 {
            pace.learn(64, 64 * 10, false);
        }
        let plan = pace.plan(100, 50);
        assert_eq!((plan.first % 100, plan.width, plan.count), (64, 100, 50));
        pace.learn(1_000, 1_000 * 20_000, false);
        let plan = pace.plan(100, 50);
        assert_eq!((plan.width, plan.count), (50, 1));
    }

    #[test]
    fn after_a_long_reply_partitions_are_asked_in_turn() {
        let mut pace = Pace::new(1_000);
        pace.learn(7, 1_100, true);
        let firsts: Vec<usize> = (0..4).map(|_| pace.plan(8, 10).first).collect();
        assert_eq!(firsts, [0, 3, 6, 1]);
        pace.learn(1, 1_100, true);
        let plan = pace.plan(8, 10);
        assert_eq!((plan.width, plan.count), (1, 1));
        pace.learn(0, 0, false);
        assert_eq!(pace.plan(8, 10).width, 2);
        pace.forget();
        assert_eq!(pace.plan(8, 10).width, 8);
    }
}
