//! The adaptive limit of a read.

use crate::log::PartitionEntries;

/// The number of entries that a read should return at most. It bounds memory, and the time for which the server is busy.
const MAX_READ_ENTRIES: usize = 16_384;

/// The maximum number of entries that are read from each partition at once. It adapts to the distribution of the entries.
pub struct ReadLimit {
    limit: usize,
    max: usize,
}

impl ReadLimit {
    /// A limit of at most `max` entries.
    pub fn new(max: usize) -> ReadLimit {
        ReadLimit { limit: 1, max }
    }

    /// The limit for the next read.
    pub fn get(&self) -> usize {
        self.limit
    }

    /// Divides a read evenly between partitions.
    pub fn divide(&mut self, partitions: usize) {
        self.set(MAX_READ_ENTRIES / partitions.max(1));
    }

    /// Adapts the limit to the last read of `partitions` partitions. Returns whether that read returned all entries.
    pub fn adapt(&mut self, reads: &[PartitionEntries], partitions: usize) -> bool {
        let total: usize = reads.iter().map(|read| read.entries.len()).sum();
        let is_caught_up = reads.iter().all(|read| read.entries.len() < self.limit);
        match (total > MAX_READ_ENTRIES, is_caught_up) {
            (true, _) => self.set(self.limit * MAX_READ_ENTRIES / total),
            (false, false) => self.set(self.limit * 2),
            (false, true) => self.divide(partitions),
        }
        is_caught_up
    }

    fn set(&mut self, limit: usize) {
        self.limit = limit.clamp(1, self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{EntryKind, LogEntry};

    fn read(entries: usize) -> PartitionEntries {
        let entry = LogEntry {
            offset: 1,
            kind: EntryKind::Event,
            payload: Vec::new(),
            size: 0,
            is_whole: true,
        };
        PartitionEntries {
            partition: 0,
            entries: vec![entry; entries],
            ends_at_foreign_id: false,
        }
    }

    #[test]
    fn the_limit_doubles_while_the_worker_lags_and_shrinks_after_a_large_read() {
        let mut limit = ReadLimit::new(10_000);
        limit.divide(64);
        assert_eq!(limit.get(), MAX_READ_ENTRIES / 64);
        assert!(!limit.adapt(&[read(limit.get())], 64));
        assert_eq!(limit.get(), MAX_READ_ENTRIES / 32);
        let full = limit.get();
        assert!(!limit.adapt(&vec![read(full); 64], 64));
        assert_eq!(limit.get(), MAX_READ_ENTRIES / 64);
        assert!(limit.adapt(&[read(1)], 1));
        assert_eq!(limit.get(), 10_000);
    }
}
