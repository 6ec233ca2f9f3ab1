//! The accumulator: entries that a worker has read and aggregated, and not yet committed.

use super::batch::Batch;
use super::counter_key::UnusableKey;
use crate::domain::config::ConsumerConfig;
use crate::domain::ids::Id;
use crate::domain::keys::{Keys, Partition};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

/// The number of events per write above which a batch is not delayed any further.
const EVENTS_PER_WRITE: u64 = 192;
/// The maximum cost of a commit, in quarters of a microsecond of the server's time: 5 ms. The server runs nothing else while the script
/// runs. The costs are measured, without other load on the server's core.
const MAX_COST: usize = 20_000;
/// The cost of an object.
const OBJECT_COST: usize = 10;
/// The cost of a counter of a row.
const ROW_COST: usize = 4;
/// The cost of an entity whose author is credited.
const CREDIT_COST: usize = 60;
/// The cost of a change of a timeline.
const TIMELINE_COST: usize = 12;
/// The cost of the count of an entity in a day.
const DAY_COST: usize = 8;
/// The cost of an event in the stream of a day.
const STREAM_COST: usize = 8;
/// The cost of counters that the commit may have to move.
const MOVE_COST: usize = 12;
/// The cost of a counter that is checked.
const CHECK_COST: usize = 40;
/// The cost of adding up the days of a counter that is checked: about 1,000 days.
const DAY_CHECK_COST: usize = 800;
/// How long what a rejected commit has found is carried to later commits, while its records are fetched again. The brokers may be away, and
/// keys may be repaired meanwhile.
const MAX_CARRIED: Duration = Duration::from_secs(5);
/// The maximum number of entities that a batch announces.
const MAX_CHANGES: usize = 10_000;
/// The maximum number of dead letters in a batch. Their payloads are kept in memory.
const MAX_DEAD_LETTERS: usize = 1_000;
/// The maximum size of the dead letters in a batch, in bytes.
const MAX_DEAD_LETTER_BYTES: usize = 4 * 1024 * 1024;

/// Partitions that are committed together.
#[derive(Default)]
pub struct CommitGroup {
    /// The aggregated entries of the partitions.
    pub batch: Batch,
    /// Keys that an earlier commit of the group found to be unusable.
    pub unusable_keys: HashMap<String, UnusableKey>,
    /// Envelopes that an earlier commit of the group found to be counted.
    pub duplicate_envelopes: HashSet<Id>,
    /// Keys of counters that were repaired because an earlier commit of the group was rejected, and how often.
    pub repaired_keys: HashMap<String, u32>,
    /// The offsets in the topic after the records of rejected commits that are not committed yet, by partition.
    rejected_records: BTreeMap<Partition, u64>,
    /// When the last one of these commits was rejected.
    rejected_at: Option<Instant>,
}

impl CommitGroup {
    /// Whether a commit of the group was rejected.
    fn is_retry(&self) -> bool {
        !(self.unusable_keys.is_empty()
            && self.duplicate_envelopes.is_empty()
            && self.repaired_keys.is_empty())
    }

    /// Remembers the records of the group, whose commit was rejected.
    fn reject_records(&mut self) {
        for (partition, update) in &self.batch.positions {
            if let Some(topic) = update.topic {
                let until = self.rejected_records.entry(*partition).or_default();
                *until = topic.next.max(*until);
            }
        }
        self.rejected_at = Some(Instant::now());
    }
}

/// The batches of a worker, by commit group: one group for all partitions, or in a cluster one for each partition.
pub struct Accumulator {
    keys: Keys,
    groups: BTreeMap<Partition, CommitGroup>,
    /// When the first entry was added.
    since: Instant,
}

impl Accumulator {
    /// An empty accumulator.
    pub fn new(keys: Keys) -> Accumulator {
        Accumulator {
            keys,
            groups: BTreeMap::new(),
            since: Instant::now(),
        }
    }

    /// The id of a partition's group.
    pub fn group_id(&self, partition: Partition) -> Partition {
        if self.keys.tagged() { partition } else { 0 }
    }

    /// The group of a partition.
    pub fn group_mut(&mut self, partition: Partition) -> &mut CommitGroup {
        if self.is_empty() {
            self.since = Instant::now();
        }
        self.groups.entry(self.group_id(partition)).or_default()
    }

    /// The offset after the last accumulated entry of a partition, if there is one.
    pub fn next_offset(&self, partition: Partition) -> Option<u64> {
        let group = self.groups.get(&self.group_id(partition))?;
        let update = group.batch.positions.get(&partition);
        update.map(|update| update.next)
    }

    /// The offset in the topic after the last accumulated record of a partition, if there is one.
    pub fn next_topic_offset(&self, partition: Partition) -> Option<u64> {
        let group = self.groups.get(&self.group_id(partition))?;
        let update = group.batch.positions.get(&partition)?;
        update.topic.map(|topic| topic.next)
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.groups.values().all(|group| group.batch.is_empty())
    }

    /// The flush policy: retried groups are flushed at once, others after `linger_ms`. A batch of at least `batch` events that has
    /// fewer than [`EVENTS_PER_WRITE`] events per write is flushed after `max_batch_age_ms` instead, so that more events share a
    /// write; after `hot_age_ms` if that is less and it has events of hot entities. These times double while the worker lags: no read
    /// since the last flush returned all entries (`has_caught_up` is false).
    /// While no events arrive (`is_idle`), waiting longer than `linger_ms` would not share a write.
    pub fn should_flush(
        &self,
        settings: &ConsumerConfig,
        hot_age_ms: u64,
        (has_caught_up, is_idle): (bool, bool),
    ) -> bool {
        let is_retried = |group: &CommitGroup| group.is_retry() && !group.batch.is_empty();
        if self.groups.values().any(is_retried) {
            return true;
        }
        let age = self.since.elapsed();
        let (mut events, mut writes) = (0, 0);
        for CommitGroup { batch, .. } in self.groups.values() {
            events += batch.entry_count();
            let written = batch.counters.len() + batch.tables.len() + batch.credits.group_count();
            writes += written as u64 + 1;
        }
        let counts_hot = self.groups.values().any(|group| group.batch.counts_hot);
        let max_age = match counts_hot {
            true => settings.max_batch_age_ms.min(hot_age_ms),
            false => settings.max_batch_age_ms,
        };
        let is_small = events < settings.batch as u64;
        let is_efficient = events >= writes * EVENTS_PER_WRITE;
        let linger = match is_small || is_efficient || is_idle {
            true => settings.linger_ms,
            false => max_age.max(settings.linger_ms),
        };
        let linger = match has_caught_up || is_idle {
            true => linger,
            false => linger.saturating_mul(2),
        };
        !self.is_empty() && age >= Duration::from_millis(linger)
    }

    /// Removes and returns the group of a partition if it has reached its maximum size.
    pub fn take_if_full(&mut self, partition: Partition) -> Option<CommitGroup> {
        let group_id = self.group_id(partition);
        let batch = &self.groups.get(&group_id)?.batch;
        let cost = batch.counters.len() * OBJECT_COST
            + batch.tables.increment_count() * ROW_COST
            + batch.credits.len() * CREDIT_COST
            + batch.timelines.len() * TIMELINE_COST
            + batch.moves.len() * MOVE_COST
            + batch.checks.len() * CHECK_COST
            + batch.checks.daily() * DAY_CHECK_COST
            + batch.days.len() * DAY_COST
            + batch.ranks.cost()
            + batch.days.streamed() * STREAM_COST;
        let is_full = cost >= MAX_COST
            || batch.changes.len() >= MAX_CHANGES
            || batch.dead_letters.len() >= MAX_DEAD_LETTERS
            || batch.dead_letter_bytes() >= MAX_DEAD_LETTER_BYTES;
        is_full.then(|| self.groups.remove(&group_id))?
    }

    /// Removes and returns all groups that wait for a commit. An empty group with exclusions is kept, because its entries will be
    /// read again: without the exclusions the next commit would be rejected again.
    pub fn take_all(&mut self) -> Vec<CommitGroup> {
        let mut taken = Vec::new();
        for (group_id, group) in std::mem::take(&mut self.groups) {
            if !group.batch.is_empty() {
                taken.push(group);
            } else if group.is_retry() {
                self.groups.insert(group_id, group);
            }
        }
        taken
    }

    /// Drops the groups of partitions that the worker no longer owns.
    pub fn retain(&mut self, is_owned: impl Fn(Partition) -> bool) {
        if self.keys.tagged() {
            self.groups.retain(|partition, _| is_owned(*partition));
        }
    }

    /// Drops everything. The entries will be read again.
    pub fn clear(&mut self) {
        self.groups.clear();
    }

    /// Carries what rejected commits of a group have found to its next commit.
    fn carry(&mut self, group: CommitGroup) -> Option<&mut CommitGroup> {
        let partition = group.batch.positions.keys().next()?;
        let retry = self.groups.entry(self.group_id(*partition)).or_default();
        retry.unusable_keys = group.unusable_keys;
        retry.duplicate_envelopes = group.duplicate_envelopes;
        retry.repaired_keys = group.repaired_keys;
        retry.rejected_records = group.rejected_records;
        retry.rejected_at = group.rejected_at;
        Some(retry)
    }

    /// Records that counters were repaired. The entries of the group will be read again. `repaired_keys` of the group has these keys already.
    pub fn retry(&mut self, mut group: CommitGroup) {
        group.reject_records();
        self.carry(group);
    }

    /// Takes a group that was committed. After a rejected commit, entries of streams are read again before records of the topic, which the
    /// reader has to fetch again. Unless this commit has all of these records, what was found is carried to the next commit: without it, the
    /// commit of the records would be rejected again, and while streams have entries, again and again. `position` is the position of a
    /// partition in the topic, if the worker owns it.
    pub fn complete(
        &mut self,
        mut group: CommitGroup,
        position: impl Fn(Partition) -> Option<u64>,
    ) {
        let is_left =
            |partition: Partition, until| position(partition).is_some_and(|next| next < until);
        group
            .rejected_records
            .retain(|partition, until| is_left(*partition, *until));
        let is_recent = |at: Instant| at.elapsed() < MAX_CARRIED;
        if !group.rejected_records.is_empty() && group.rejected_at.is_some_and(is_recent) {
            self.carry(group);
        }
    }

    /// Records why the commit of a group was rejected. Its entries will be read again, without these keys and envelopes.
    ///
    /// Returns false if all of them were already excluded.
    pub fn exclude(
        &mut self,
        mut group: CommitGroup,
        unusable_keys: Vec<(String, UnusableKey)>,
        duplicate_envelopes: Vec<Id>,
    ) -> bool {
        let excluded_before = group.unusable_keys.len() + group.duplicate_envelopes.len();
        group.reject_records();
        let Some(retry) = self.carry(group) else {
            return false;
        };
        retry.unusable_keys.extend(unusable_keys);
        retry.duplicate_envelopes.extend(duplicate_envelopes);
        retry.unusable_keys.len() + retry.duplicate_envelopes.len() > excluded_before
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::{PositionUpdate, TopicUpdate};
    use super::*;
    use crate::domain::config::Config;
    use crate::domain::keys::PartitionHash;

    fn add_entry(accumulator: &mut Accumulator, partition: Partition) {
        add(accumulator, partition, None);
    }

    fn add(accumulator: &mut Accumulator, partition: Partition, topic: Option<TopicUpdate>) {
        let update = PositionUpdate {
            from: 1,
            next: 2,
            topic,
            history: None,
            fences: BTreeMap::new(),
            bytes: 0,
        };
        let batch = &mut accumulator.group_mut(partition).batch;
        batch.positions.insert(partition, update);
    }

    #[test]
    fn a_batch_with_hot_entities_waits_less() {
        let keys = Keys::new(4, false, PartitionHash::Murmur2);
        let mut accumulator = Accumulator::new(keys);
        let text = "[consumer]\nbatch = 1\nlinger_ms = 0\nmax_batch_age_ms = 3600000";
        let consumer = &Config::parse(text).expect("valid").consumer;
        let under_load = (true, false);
        add_entry(&mut accumulator, 1);
        accumulator.group_mut(1).batch.applied = 1;
        assert!(!accumulator.should_flush(consumer, 0, under_load));
        accumulator.group_mut(1).batch.counts_hot = true;
        assert!(accumulator.should_flush(consumer, 0, under_load));
        assert!(!accumulator.should_flush(consumer, 3_600_000, under_load));
    }

    #[test]
    fn exclusions_stay_until_records_of_the_topic_are_committed() {
        let records = Some(TopicUpdate { from: 5, next: 8 });
        for tagged in [false, true] {
            let mut accumulator = Accumulator::new(Keys::new(4, tagged, PartitionHash::Murmur2));
            add(&mut accumulator, 1, records);
            let mut group = accumulator.take_all().pop().expect("a group");
            group.repaired_keys.insert("a key".to_owned(), 1);
            accumulator.retry(group);
            // The entries of the stream are committed first.
            add_entry(&mut accumulator, 1);
            let group = accumulator.take_all().pop().expect("its entries");
            accumulator.complete(group, |_| Some(5));
            assert!(accumulator.take_all().is_empty());
            add(&mut accumulator, 1, records);
            let group = accumulator.take_all().pop().expect("its records");
            assert!(group.repaired_keys.contains_key("a key"));
            accumulator.complete(group, |_| Some(8));
            assert!(accumulator.group_mut(1).repaired_keys.is_empty());
        }
    }

    #[test]
    fn exclusions_of_a_partition_of_another_worker_are_dropped() {
        let mut accumulator = Accumulator::new(Keys::new(4, false, PartitionHash::Murmur2));
        add(&mut accumulator, 1, Some(TopicUpdate { from: 5, next: 8 }));
        let mut group = accumulator.take_all().pop().expect("a group");
        group.repaired_keys.insert("a key".to_owned(), 1);
        accumulator.retry(group);
        add_entry(&mut accumulator, 2);
        let group = accumulator.take_all().pop().expect("a group");
        accumulator.complete(group, |_| None);
        assert!(accumulator.group_mut(2).repaired_keys.is_empty());
    }

    #[test]
    fn exclusions_stay_until_the_partition_is_read_again_or_reassigned() {
        let mut accumulator = Accumulator::new(Keys::new(4, true, PartitionHash::Murmur2));
        add_entry(&mut accumulator, 1);
        let group = accumulator.take_all().pop().expect("a group");
        let unusable = vec![("a key".to_owned(), UnusableKey::WrongType)];
        assert!(accumulator.exclude(group, unusable.clone(), Vec::new()));
        add_entry(&mut accumulator, 2);
        assert_eq!(accumulator.take_all().len(), 1, "only partition 2");
        add_entry(&mut accumulator, 1);
        let group = accumulator.take_all().pop().expect("partition 1 again");
        assert!(group.unusable_keys.contains_key("a key"));
        let is_new = accumulator.exclude(group, unusable, Vec::new());
        assert!(!is_new, "the key was excluded before");
        accumulator.retain(|partition| partition != 1);
        add_entry(&mut accumulator, 1);
        assert!(accumulator.group_mut(1).unusable_keys.is_empty());
    }
}
