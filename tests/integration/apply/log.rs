//! A partition's log of events, in the test's memory.

use crate::traffic::Random;
use std::ops::Range;

/// The number of keys.
pub const KEYS: usize = 12;

/// The fields of each key: first a fence for each partition, then counters.
pub const FIELDS: usize = 8;

/// The number of partitions.
pub const PARTITIONS: usize = 2;

/// The largest offset.
pub const LAST: u64 = (1 << 40) - 2;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its offset in the log.
    pub offset: u64,
    /// Its key.
    pub key: usize,
    /// The field that it increments.
    pub idx: usize,
    /// The increment.
    pub delta: i64,
}

/// A source of events.
pub trait Source {
    /// Up to `count` events from this offset on; none at the end.
    fn read(&mut self, from: u64, count: usize) -> Vec<Event>;
}

/// A complete log.
pub struct Log {
    /// The partition, which is also the idx of its fence.
    pub fence: usize,
    events: Vec<Event>,
    first: u64,
}

impl Log {
    /// Random events, no prefix of which leaves a counter's range.
    pub fn random(random: &mut Random, fence: usize, first: u64, count: u64) -> Log {
        let mut sums = vec![[0_i64; FIELDS]; KEYS];
        let mut event = |offset| {
            // Skewed: some keys get many events, some few.
            let key = random.below(KEYS as u64).min(random.below(KEYS as u64)) as usize;
            let idx = PARTITIONS + random.below((FIELDS - PARTITIONS) as u64) as usize;
            let sum = &mut sums[key][idx];
            let delta = match random.below(50) {
                0 => random.below(1 << 20) as i64,
                _ => random.below(60) as i64 - 28,
            };
            let delta = delta.max(-*sum);
            *sum += delta;
            Event {
                offset,
                key,
                idx,
                delta,
            }
        };
        Log {
            fence,
            events: (first..first + count).map(&mut event).collect(),
            first,
        }
    }

    /// Its offsets.
    pub fn offsets(&self) -> Range<u64> {
        self.first..self.first + self.events.len() as u64
    }

    /// The sum of a key's events below an offset.
    pub fn sum(&self, key: usize, below: u64) -> [i64; FIELDS] {
        let mut sum = [0; FIELDS];
        let below = self.events.partition_point(|event| event.offset < below);
        for event in self.events[..below].iter().filter(|event| event.key == key) {
            sum[event.idx] += event.delta;
        }
        sum
    }
}

impl Source for &Log {
    fn read(&mut self, from: u64, count: usize) -> Vec<Event> {
        let start = (from.saturating_sub(self.first) as usize).min(self.events.len());
        let end = (start + count).min(self.events.len());
        self.events[start..end].to_vec()
    }
}
