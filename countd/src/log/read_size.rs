//! Adapts the size of reads to the size of entries.
//!
//! Other clients may append entries of any size, which is unknown before they are read, and the server builds a whole reply at once.
//! A connection therefore starts with a few entries and doubles their number while replies are small. After a reply that was too
//! large it reads fewer entries, of fewer partitions, in turn.

/// The number of entries of the first read.
pub(crate) const INITIAL: usize = 64;
/// The maximum number of entries of a read.
const MAX: usize = 1 << 16;

/// The size of the next read.
pub(super) struct ReadSize {
    /// The maximum number of bytes of a read.
    bytes: usize,
    /// The maximum number of entries of the next read.
    entries: usize,
    /// The partition from which the next read starts.
    first: usize,
}

/// A read: `count` entries of each of `width` partitions, from the partition `first` on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadPlan {
    pub first: usize,
    pub width: usize,
    pub count: usize,
}

impl ReadSize {
    pub fn new(bytes: usize) -> ReadSize {
        ReadSize {
            bytes,
            entries: INITIAL,
            first: 0,
        }
    }

    /// Plans a read of some of the partitions, of up to `limit` entries of each.
    pub fn plan(&mut self, partitions: usize, limit: usize) -> ReadPlan {
        let width = self.entries.clamp(1, partitions.max(1));
        let first = self.first % partitions.max(1);
        if width < partitions {
            self.first = first + width;
        }
        ReadPlan {
            first,
            width,
            count: limit.min((self.entries / width).max(1)),
        }
    }

    /// Adapts to a reply of this many entries and bytes.
    pub fn observe(&mut self, entries: usize, bytes: usize, is_too_large: bool) {
        self.entries = match is_too_large {
            true => entries / 2,
            false => {
                let average = bytes.checked_div(entries).unwrap_or(0).max(1);
                (self.entries * 2).min(self.bytes / average).min(MAX)
            }
        };
        self.entries = self.entries.max(1);
    }

    /// Starts again with the initial size.
    pub fn reset(&mut self) {
        self.entries = INITIAL;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_grow_while_replies_are_small() {
        let mut size = ReadSize::new(1_000_000);
        let plan = size.plan(100, 50);
        assert_eq!((plan.width, plan.count), (64, 1));
        for _ in 0..10 {
            size.observe(64, 64 * 10, false);
        }
        let plan = size.plan(100, 50);
        assert_eq!((plan.first % 100, plan.width, plan.count), (64, 100, 50));
        size.observe(1_000, 1_000 * 20_000, false);
        let plan = size.plan(100, 50);
        assert_eq!((plan.width, plan.count), (50, 1));
    }

    #[test]
    fn partitions_are_read_in_turn_after_a_large_reply() {
        let mut size = ReadSize::new(1_000);
        size.observe(7, 1_100, true);
        let firsts: Vec<usize> = (0..4).map(|_| size.plan(8, 10).first).collect();
        assert_eq!(firsts, [0, 3, 6, 1]);
        size.observe(1, 1_100, true);
        let plan = size.plan(8, 10);
        assert_eq!((plan.width, plan.count), (1, 1));
        size.observe(0, 0, false);
        assert_eq!(size.plan(8, 10).width, 2);
        size.reset();
        assert_eq!(size.plan(8, 10).width, 8);
    }
}
