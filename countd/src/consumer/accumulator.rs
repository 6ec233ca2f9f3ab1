//! What a worker has read and added up, and has not counted yet.

use super::batch::Batch;
use super::batch::UnusableKey;
use crate::domain::config::ConsumerConfig;
use crate::domain::ids::Id;
use crate::domain::keys::{Keys, Partition};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

/// A batch with so many events for each write is worth counting.
const EVENTS_A_WRITE: u64 = 192;
/// A batch changes so many objects at most: its script holds up everybody else while it runs.
const MAX_COUNTERS: usize = 5_000;
/// A batch has so many dead letters at most: they are held in memory as they are.
const MAX_DEAD: usize = 1_000;
/// And so many bytes of them.
const MAX_DEAD_BYTES: usize = 4 * 1024 * 1024;

/// Partitions that are counted in one step.
#[derive(Default)]
pub struct CommitGroup {
    /// What was read of them.
    pub batch: Batch,
    /// Keys that turned out to hold something that cannot be counted in.
    pub refused: HashMap<String, UnusableKey>,
    /// Envelopes that turned out to have been counted before.
    pub seen: HashSet<Id>,
}

impl CommitGroup {
    /// Whether it has been tried before.
    fn is_retry(&self) -> bool {
        !(self.refused.is_empty() && self.seen.is_empty())
    }
}

/// All that has been read, in as many groups as it takes: one, or in a cluster one for each partition.
pub struct Accumulator {
    keys: Keys,
    groups: BTreeMap<Partition, CommitGroup>,
    since: Instant,
}

impl Accumulator {
    /// Nothing.
    pub fn new(keys: Keys) -> Accumulator {
        Accumulator {
            keys,
            groups: BTreeMap::new(),
            since: Instant::now(),
        }
    }

    /// The group of a partition, by one of its partitions.
    pub fn group_of(&self, partition: Partition) -> Partition {
        if self.keys.tagged() { partition } else { 0 }
    }

    /// The group of a partition.
    pub fn group(&mut self, partition: Partition) -> &mut CommitGroup {
        if self.is_empty() {
            self.since = Instant::now();
        }
        self.groups.entry(self.group_of(partition)).or_default()
    }

    /// Where reading a partition goes on, if something of it has been read.
    pub fn next(&self, partition: Partition) -> Option<u64> {
        let group = self.groups.get(&self.group_of(partition))?;
        group.batch.moves.get(&partition).map(|step| step.next)
    }

    /// Whether nothing waits to be counted.
    pub fn is_empty(&self) -> bool {
        self.groups.values().all(|group| group.batch.is_empty())
    }

    /// Whether it should be counted now: when it waited long enough, which is short if it is little, and long if by waiting
    /// a write can do for more events. At once if it has been tried before. Twice as long if more waits to be read: those events are late anyway.
    pub fn should_flush(&self, settings: &ConsumerConfig, is_all: bool) -> bool {
        let waits = |group: &CommitGroup| group.is_retry() && !group.batch.is_empty();
        if self.groups.values().any(waits) {
            return true;
        }
        let age = self.since.elapsed();
        let (mut events, mut writes) = (0, 0);
        for CommitGroup { batch, .. } in self.groups.values() {
            events += batch.entries();
            writes += batch.counters.len() as u64 + 1;
        }
        let is_little = events < settings.batch as u64;
        let is_good = events >= writes * EVENTS_A_WRITE;
        let enough = match is_little || is_good {
            true => settings.linger_ms,
            false => settings.gather_ms.max(settings.linger_ms),
        };
        let enough = if is_all {
            enough
        } else {
            enough.saturating_mul(2)
        };
        !self.is_empty() && age >= Duration::from_millis(enough)
    }

    /// Takes the group of a partition if it should not grow further.
    pub fn take_if_full(&mut self, partition: Partition) -> Option<CommitGroup> {
        let group = self.group_of(partition);
        let batch = &self.groups.get(&group)?.batch;
        let is_full = batch.counters.len() >= MAX_COUNTERS
            || batch.dead.len() >= MAX_DEAD
            || batch.dead_bytes() >= MAX_DEAD_BYTES;
        is_full.then(|| self.groups.remove(&group))?
    }

    /// Takes everything that waits to be counted. What is known of batches that are still to be read again stays: without it they
    /// would be refused again.
    pub fn take(&mut self) -> Vec<CommitGroup> {
        let mut taken = Vec::new();
        for (partition, group) in std::mem::take(&mut self.groups) {
            if !group.batch.is_empty() {
                taken.push(group);
            } else if group.is_retry() {
                self.groups.insert(partition, group);
            }
        }
        taken
    }

    /// Forgets what is known of partitions that are others' now.
    pub fn keep(&mut self, is_held: impl Fn(Partition) -> bool) {
        if self.keys.tagged() {
            self.groups.retain(|partition, _| is_held(*partition));
        }
    }

    /// Forgets everything: it will be read again.
    pub fn forget(&mut self) {
        self.groups.clear();
    }

    /// Some keys of a batch are no counters, or some envelopes of it were counted before. It was not counted; it is read again
    /// without them.
    ///
    /// False: nothing new was found.
    pub fn exclude(
        &mut self,
        group: CommitGroup,
        refused: Vec<(String, UnusableKey)>,
        seen: Vec<Id>,
    ) -> bool {
        let Some(partition) = group.batch.moves.keys().next() else {
            return false;
        };
        let known = group.refused.len() + group.seen.len();
        let next = self.groups.entry(self.group_of(*partition)).or_default();
        next.refused = group.refused;
        next.refused.extend(refused);
        next.seen = group.seen;
        next.seen.extend(seen);
        next.refused.len() + next.seen.len() > known
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::PositionUpdate;
    use super::*;

    fn read(accumulator: &mut Accumulator, partition: Partition) {
        let step = PositionUpdate {
            from: 1,
            next: 2,
            fences: BTreeMap::new(),
            bytes: 0,
        };
        accumulator
            .group(partition)
            .batch
            .moves
            .insert(partition, step);
    }

    #[test]
    fn what_was_refused_is_known_until_it_is_read_again() {
        let mut accumulator = Accumulator::new(Keys::new(4, true));
        read(&mut accumulator, 1);
        let group = accumulator.take().pop().expect("a group");
        let refused = vec![("a key".to_owned(), UnusableKey::Type)];
        assert!(accumulator.exclude(group, refused.clone(), Vec::new()));
        read(&mut accumulator, 2);
        assert_eq!(accumulator.take().len(), 1, "the other one");
        read(&mut accumulator, 1);
        let group = accumulator.take().pop().expect("the group again");
        assert!(group.refused.contains_key("a key"));
        let is_new = accumulator.exclude(group, refused, Vec::new());
        assert!(!is_new, "the same again");
        accumulator.keep(|partition| partition != 1);
        read(&mut accumulator, 1);
        assert!(accumulator.group(1).refused.is_empty());
    }
}
