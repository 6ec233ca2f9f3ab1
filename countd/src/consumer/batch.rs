//! A batch: aggregated log entries that are committed as a whole, or not at all.

use super::checks::Checks;
use super::counter_key::ObjectLength;
use super::credits::Credits;
use super::days::Days;
use super::dead_letter::DeadLetter;
use super::outcomes::Outcomes;
use super::position::Position;
use super::ranks::Ranks;
use super::section::CommitSection;
use super::sums::Sums;
use super::tables::TableUpdates;
use super::timelines::Timelines;
use super::user_checks::ForwardedCheck;
use crate::domain::changes::ChangedEntities;
use crate::domain::config::UserCounter;
use crate::domain::ids::{Entity, Id};
use crate::domain::keys::Partition;
use crate::storage::moves::Moves;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of the first events of a batch whose entities are all sampled.
const SAMPLED_FIRST: u64 = 64;
/// The interval between later sampled events.
const SAMPLE_INTERVAL: u64 = 64;

/// The increments of one object.
#[derive(Debug, PartialEq, Eq)]
pub struct ObjectUpdate {
    /// The length of the object.
    pub length: ObjectLength,
    /// The idx of each field, in ascending order, and its increment.
    pub deltas: Vec<(usize, i64)>,
}

impl ObjectUpdate {
    fn add(&mut self, idx: usize, delta: i64) {
        match self.deltas.binary_search_by_key(&idx, |(idx, _)| *idx) {
            Ok(at) => {
                let (_, sum) = &mut self.deltas[at];
                *sum = sum.saturating_add(delta);
            }
            Err(at) => self.deltas.insert(at, (idx, delta)),
        }
    }
}

/// How far a batch advances the position of a partition.
#[derive(Debug, PartialEq, Eq)]
pub struct PositionUpdate {
    /// The position from which the batch was read. The commit fails if the stored position differs.
    pub from: u64,
    /// The position after the commit: the offset after the last entry of the batch.
    pub next: u64,
    /// How far it advances the position in the topic, if it has records or knows that there are none.
    pub topic: Option<TopicUpdate>,
    /// The history of the server from which the batch was read; `None` if it was not read from a server.
    pub history: Option<Arc<str>>,
    /// The fences that advance.
    pub fences: BTreeMap<Partition, u64>,
    /// The size of the entries in bytes.
    pub bytes: u64,
}

/// How far a batch advances the position of a partition in the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicUpdate {
    /// The position from which the batch was read. The commit fails if the stored position differs.
    pub from: u64,
    /// The position after the commit.
    pub next: u64,
}

impl PositionUpdate {
    /// An update that begins at a position and does not advance it.
    pub fn at(position: &Position) -> PositionUpdate {
        PositionUpdate {
            from: position.next,
            next: position.next,
            topic: None,
            history: position.history.clone(),
            fences: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Whether a commit would not advance anything.
    pub fn is_empty(&self) -> bool {
        self.from == self.next && self.topic.is_none_or(|topic| topic.from == topic.next)
    }
}

/// Parts of a batch were read from different histories.
#[derive(Debug, PartialEq, Eq)]
pub struct OtherHistory;

/// The aggregated entries of partitions that can be committed in one script.
#[derive(Debug, Default)]
pub struct Batch {
    /// The partitions whose entries the batch holds.
    pub positions: BTreeMap<Partition, PositionUpdate>,
    /// The increments of objects, by key.
    pub counters: HashMap<String, ObjectUpdate>,
    /// The increments of rows of tables.
    pub tables: TableUpdates,
    /// The increments of users' counters that are forwarded to other partitions.
    pub outbox: BTreeMap<Partition, BTreeMap<(Id, UserCounter), i64>>,
    /// The checks of users' counters that are forwarded to other partitions.
    pub user_checks: BTreeMap<Partition, BTreeMap<(Id, UserCounter), ForwardedCheck>>,
    /// The entities whose authors are credited.
    pub credits: Credits,
    /// The sums of credits.
    pub sums: Sums,
    /// The changes of timelines.
    pub timelines: Timelines,
    /// The counters that the commit checks.
    pub checks: Checks,
    /// The counts by day.
    pub days: Days,
    /// The entities whose scores in rankings change.
    pub ranks: Ranks,
    /// The counters that migrations move.
    pub moves: Moves,
    /// The entries that cannot be counted.
    pub dead_letters: Vec<DeadLetter>,
    /// The ids of the envelopes in the batch, each with the partition of its log.
    pub envelope_ids: BTreeMap<Id, Partition>,
    /// The entities that the commit announces, if changes are announced. It adds the authors that it credits.
    pub changes: ChangedEntities,
    /// The entries that it does not count, if entries are archived.
    pub outcomes: Outcomes,
    /// The entities of a sample of the events.
    pub sampled: Vec<Entity>,
    /// Whether it has events of a hot entity.
    pub counts_hot: bool,
    /// The number of entries that the batch counts; each event of a group is one.
    pub applied: u64,
    /// The number of derived events and envelopes that were counted before.
    pub duplicates: u64,
    /// The oldest timestamp of its events, in milliseconds since 1970.
    pub oldest_ts: Option<u64>,
}

impl Batch {
    /// The history of the server from which all of it was read; empty if it was not read from a server.
    ///
    /// # Errors
    /// Parts of it were read from different histories.
    pub fn history(&self) -> Result<&str, OtherHistory> {
        let mut histories = self.positions.values().map(|update| &update.history);
        let first = histories.next();
        if histories.any(|history| Some(history) != first) {
            return Err(OtherHistory);
        }
        Ok(first.and_then(Option::as_deref).unwrap_or_default())
    }

    /// Whether it holds no entries.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Adds to a field of an object.
    pub fn add(&mut self, key: &str, length: ObjectLength, idx: usize, delta: i64) {
        match self.counters.get_mut(key) {
            Some(update) => {
                // The schema can be extended while the batch accumulates.
                update.length.len = update.length.len.max(length.len);
                update.add(idx, delta);
            }
            None => {
                let deltas = vec![(idx, delta)];
                self.counters
                    .insert(key.to_owned(), ObjectUpdate { length, deltas });
            }
        }
    }

    /// Adds to a user's counter in another partition, which cannot be part of the same commit.
    pub fn forward(&mut self, to: Partition, uid: &Id, counter: &UserCounter, delta: i64) {
        let users = self.outbox.entry(to).or_default();
        let sum = users.entry((uid.clone(), counter.clone())).or_default();
        *sum = sum.saturating_add(delta);
    }

    /// Adds the entity of an event to the sample: the first events of the batch, and later ones at an interval. So a busy consumer
    /// copies few entities.
    pub fn sample(&mut self, entity: &Entity) {
        if self.applied < SAMPLED_FIRST || self.applied.is_multiple_of(SAMPLE_INTERVAL) {
            self.sampled.push(entity.clone());
        }
    }

    /// Updates the oldest timestamp with that of an event; 0 is unknown.
    pub fn observe_timestamp(&mut self, ts: u64) {
        if ts > 0 {
            self.oldest_ts = Some(self.oldest_ts.map_or(ts, |oldest| oldest.min(ts)));
        }
    }

    /// The sections of its commit, in the order of [`COMMIT`](super::commit::COMMIT).
    pub(super) fn sections(&self) -> Vec<&dyn CommitSection> {
        vec![
            &self.sums,
            &self.checks,
            &self.days,
            &self.ranks,
            &self.outcomes,
            &self.timelines,
        ]
    }

    /// The keys of the sections of its commit.
    pub(super) fn section_keys(&self) -> Vec<String> {
        let sections = self.sections().into_iter();
        sections.flat_map(CommitSection::keys).collect()
    }

    /// Whether its commit writes to the outbox.
    pub fn writes_outbox(&self) -> bool {
        self.timelines.forwards()
            || self.sums.forwarded().next().is_some()
            || !self.user_checks.is_empty()
            || self.outbox.values().any(has_increment)
    }

    /// The number of log entries in it; each event of a group is one.
    pub fn entry_count(&self) -> u64 {
        self.applied + self.duplicates + self.dead_letters.len() as u64
    }

    /// The size of the payloads of its dead letters, in bytes.
    pub fn dead_letter_bytes(&self) -> usize {
        let payloads = self.dead_letters.iter().map(|dead| dead.payload.len());
        payloads.sum()
    }

    /// The number of write commands that its commit runs.
    pub fn write_count(&self) -> usize {
        let fences = self.positions.values().map(|update| update.fences.len());
        let outbox = self.outbox.values().filter(|users| has_increment(users));
        let counters = self.counters.len() + self.tables.len() + self.credits.group_count();
        let others = self.dead_letters.len()
            + self.envelope_ids.len()
            + self.timelines.update_count()
            + self.days.write_count();
        1 + fences.sum::<usize>() + outbox.count() + counters + others
    }
}

/// Whether any of the sums is not zero.
fn has_increment(users: &BTreeMap<(Id, UserCounter), i64>) -> bool {
    users.values().any(|delta| *delta != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch of partitions of which each was read from one of these histories.
    fn batch_of(histories: &[Option<&str>]) -> Batch {
        let mut batch = Batch::default();
        for (partition, history) in (0..).zip(histories) {
            let update = PositionUpdate {
                from: 0,
                next: 1,
                topic: None,
                history: history.map(Arc::from),
                fences: BTreeMap::new(),
                bytes: 0,
            };
            batch.positions.insert(partition, update);
        }
        batch
    }

    #[test]
    fn the_history_of_a_batch_is_that_of_all_its_partitions() {
        assert_eq!(batch_of(&[]).history(), Ok(""));
        assert_eq!(batch_of(&[None, None]).history(), Ok(""));
        assert_eq!(batch_of(&[Some("a"), Some("a")]).history(), Ok("a"));
        for mixed in [[Some("a"), Some("b")], [None, Some("a")], [Some("a"), None]] {
            assert_eq!(batch_of(&mixed).history(), Err(OtherHistory), "{mixed:?}");
        }
    }
}
