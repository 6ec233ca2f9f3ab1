//! A partition's log of events in memory: it survives everything.

use crate::traffic::Random;
use std::ops::Range;

/// How many keys the events are about.
pub const KEYS: usize = 12;

/// The fields of each key: the first are fences, one for each partition; the others count.
pub const FIELDS: usize = 8;

/// How many partitions feed the keys.
pub const PARTITIONS: usize = 2;

/// The largest offset.
pub const LAST: u64 = (1 << 40) - 2;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where it stands in its log.
    pub offset: u64,
    /// What it is about.
    pub key: usize,
    /// What it counts.
    pub idx: usize,
    /// By how much.
    pub delta: i64,
}

/// Where a reader reads.
pub trait Source {
    /// At most so many events from this offset on; none at the end.
    fn read(&mut self, from: u64, count: usize) -> Vec<Event>;
}

/// A log that is complete.
pub struct Log {
    /// The partition, which is also the idx of its fence.
    pub fence: usize,
    events: Vec<Event>,
    first: u64,
}

impl Log {
    /// Random events that count no prefix out of range.
    pub fn random(random: &mut Random, fence: usize, first: u64, count: u64) -> Log {
        let mut sums = vec![[0_i64; FIELDS]; KEYS];
        let mut event = |offset| {
            // Some keys get much, some hardly anything.
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

    /// The plain sum of a key's events below an offset.
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
