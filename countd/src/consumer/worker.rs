//! A worker: reads its share of the partitions, adds up what it finds, and counts it.

use super::accumulator::{Accumulator, CommitGroup};
use super::aggregator::{Aggregator, DecodedEntry, Rules, read};
use super::assignment::{AssignedPartitions, WorkerAssignment};
use super::batch::Batch;
use super::batch::UnusableKey;
use super::commit::{CommitOutcome, commit};
use super::measure::record;
use super::outbox_relay::OutboxRelay;
use super::position::{self, Position};
use super::schemas::schemas;
use super::strangers::renumber;
use super::survey::survey;
use super::{AT_ONCE, BACKOFF};
use crate::domain::error::StoreError;
use crate::domain::error::rejected_by_foreign_last_id;
use crate::domain::health::Health;
use crate::domain::health::PartitionPart;
use crate::domain::ids::Id;
use crate::domain::keys::Partition;
use crate::log::dead_letters;
use crate::log::inspect::key_error;
use crate::log::{Counted, EventLog, PartitionEntries, Streams};
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use futures_util::StreamExt;
use futures_util::stream;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long a read waits for entries.
const WAIT: Duration = Duration::from_millis(500);
/// A read has about so many entries at most: memory stays bounded, and the server is not held up for long.
const ENTRIES_IN_A_READ: usize = 16_384;
/// How often what is held is compared with the stored positions, and a stream of dead letters is tried again that was damaged.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The log is told that it may forget after so many entries.
const ACKNOWLEDGE_AFTER: u64 = 1_000;

/// Whether the server refused something since a key holds what it should not.
fn is_damage(why: &StoreError) -> bool {
    match why {
        StoreError::Unavailable(why) => rejected_by_foreign_last_id(why),
        why => why.is_answer(),
    }
}

/// A partition that this worker has.
struct Held {
    position: Position,
    acknowledged: u64,
    /// How many bytes were counted since then; `None` where nobody knows what is left of those that were counted before.
    bytes: Option<u64>,
}

/// One of the tasks that count.
pub struct Worker {
    store: Store,
    catalog: Catalog,
    health: Health,
    log: Streams,
    assignment: WorkerAssignment,
    outbox_relay: OutboxRelay,
    held: BTreeMap<Partition, Held>,
    accumulator: Accumulator,
    /// The groups whose dead letters cannot be written, since when, and why.
    without_dead: BTreeMap<Partition, (Instant, String)>,
    /// Partitions whose batch was refused since something of them is damaged, and when they are read again.
    resting: BTreeMap<Partition, Instant>,
    /// When what is held was compared with the stored positions.
    compared: Instant,
    /// How many entries of a partition are read at once.
    limit: usize,
}

impl Worker {
    /// The `number`th of this process. `share` is what this process has. Within a runtime of Tokio.
    pub fn new(
        store: Store,
        catalog: Catalog,
        health: Health,
        number: usize,
        share: AssignedPartitions,
    ) -> Worker {
        let log = Streams::new(store.clone(), &catalog.config);
        let workers = catalog.config.consumer.workers;
        Worker {
            log,
            assignment: WorkerAssignment::new(store.clone(), share, (number, workers)),
            outbox_relay: OutboxRelay::start(
                store.clone(),
                Streams::new(store.clone(), &catalog.config),
                health.clone(),
            ),
            held: BTreeMap::new(),
            accumulator: Accumulator::new(store.keys()),
            without_dead: BTreeMap::new(),
            resting: BTreeMap::new(),
            compared: Instant::now(),
            limit: 0,
            store,
            catalog,
            health,
        }
    }

    /// Counts until `stop` turns true, and finishes what it has read.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut backoff = BACKOFF.0;
        while !*stop.borrow() {
            let pause = match self.cycle(&mut stop).await {
                Ok(pause) => {
                    // That something was read does not mean that it can be counted.
                    if self.accumulator.is_empty() {
                        backoff = BACKOFF.0;
                    }
                    pause
                }
                // One key may be damaged: what has failed is left out, and the rest goes on.
                Err(why) if self.has_failed(&why).await => {
                    tracing::warn!(error = %why, "some partitions are left out");
                    self.start_over();
                    Duration::ZERO
                }
                Err(why) => {
                    tracing::warn!(error = %why, backoff_ms = backoff.as_millis() as u64, "counting has to wait");
                    metrics::counter!("countd_consumer_retries_total").increment(1);
                    self.start_over();
                    let pause = backoff;
                    backoff = (backoff * 2).min(BACKOFF.1);
                    pause
                }
            };
            if !pause.is_zero() {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    _ = stop.wait_for(|stop| *stop) => {}
                }
            }
        }
        if let Err(why) = self.count_all().await {
            tracing::warn!(error = %why, "left to be counted by others");
        }
        self.outbox_relay.finish().await;
    }

    /// Forgets what is not counted: the server may have come back without its last moments.
    fn start_over(&mut self) {
        self.accumulator.forget();
        self.held.clear();
    }

    /// Whether partitions are found to have failed, if the server says that something is wrong.
    async fn has_failed(&mut self, why: &StoreError) -> bool {
        let is_damage = is_damage(why) || matches!(why, StoreError::Unexpected(_));
        let mine: Vec<Partition> = self.assignment.partitions().iter().copied().collect();
        is_damage && survey(&self.store, &self.health, &mine).await.newly_failed > 0
    }

    /// Reads once, and counts what is ripe. Says how long to wait before the next time.
    async fn cycle(&mut self, stop: &mut watch::Receiver<bool>) -> Result<Duration, StoreError> {
        if self.accumulator.is_empty() {
            self.take_share().await?;
        }
        self.try_dead_letters();
        self.resting.retain(|_, until| *until > Instant::now());
        let is_held_up = |partition| {
            self.resting.contains_key(&partition)
                || self
                    .health
                    .has_failed(partition, PartitionPart::DeadLetters)
        };
        let next = |partition: &Partition| match is_held_up(*partition) {
            true => None,
            false => Some((*partition, self.next(*partition)?)),
        };
        let from: BTreeMap<Partition, u64> = self.held.keys().filter_map(next).collect();
        let places: Vec<(Partition, u64)> = from.iter().map(|(p, next)| (*p, *next)).collect();
        let wait = match self.accumulator.is_empty() {
            true => WAIT,
            false => Duration::ZERO,
        };
        let found = tokio::select! {
            found = self.log.read(&places, self.limit, wait) => found?,
            _ = stop.wait_for(|stop| *stop) => return Ok(Duration::ZERO),
        };
        let is_all = self.adapt(&found);
        let is_stuck = renumber(&self.log, &self.health, &found).await;
        self.add(found, &from).await?;
        let settings = &self.catalog.config.consumer;
        let linger = Duration::from_millis(settings.linger_ms);
        if self.accumulator.should_flush(settings, is_all) {
            self.count_all().await?;
        }
        Ok(match (is_stuck, is_all) {
            (true, _) => WAIT,
            (false, true) => linger,
            (false, false) => Duration::ZERO,
        })
    }

    /// Where reading a partition goes on: behind what is accumulator of it, or what is counted. None if it is not held.
    fn next(&self, partition: Partition) -> Option<u64> {
        let held = self.held.get(&partition)?;
        let accumulator = self.accumulator.next(partition);
        Some(accumulator.unwrap_or(held.position.next))
    }

    /// Learns from a read how much to read the next time. True: nothing waits to be read.
    fn adapt(&mut self, found: &[PartitionEntries]) -> bool {
        let total: usize = found.iter().map(|found| found.entries.len()).sum();
        let is_all = found.iter().all(|found| found.entries.len() < self.limit);
        self.limit = match (total > ENTRIES_IN_A_READ, is_all) {
            (true, _) => self.limit * ENTRIES_IN_A_READ / total,
            (false, false) => self.limit * 2,
            (false, true) => ENTRIES_IN_A_READ / self.held.len().max(1),
        };
        self.limit = self.limit.clamp(1, self.catalog.config.consumer.batch);
        is_all
    }

    /// Takes what is this worker's now, and lets go of the rest.
    async fn take_share(&mut self) -> Result<(), StoreError> {
        let health = &self.health;
        let mut mine = self.assignment.partitions().clone();
        mine.retain(|partition| !health.has_failed(*partition, PartitionPart::Log));
        self.held.retain(|partition, _| mine.contains(partition));
        self.accumulator.keep(|partition| mine.contains(&partition));
        if self.compared.elapsed() >= LOOK_AGAIN {
            self.compared = Instant::now();
            self.compare().await?;
        }
        let new = mine.iter().copied();
        let mut new: Vec<Partition> = new.filter(|p| !self.held.contains_key(p)).collect();
        if new.is_empty() {
            return Ok(());
        }
        new.sort_unstable();
        let store = &self.store;
        let positions = position::load(store, &new).await?;
        if store.keys().tagged() {
            // What others left in their outboxes.
            new.iter()
                .for_each(|partition| self.outbox_relay.notify(*partition));
        }
        for (partition, position) in new.into_iter().zip(positions) {
            let position = match position {
                Ok(position) => position,
                Err(why) => {
                    self.health.fail(partition, PartitionPart::Log, &why);
                    continue;
                }
            };
            let acknowledged = position.next;
            self.held.insert(
                partition,
                Held {
                    position,
                    acknowledged,
                    bytes: None,
                },
            );
        }
        let fair = ENTRIES_IN_A_READ / self.held.len().max(1);
        self.limit = fair.clamp(1, self.catalog.config.consumer.batch);
        Ok(())
    }

    /// Lets go of partitions whose stored position is another one: an operator has set it, or all data is gone.
    async fn compare(&mut self) -> Result<(), StoreError> {
        let held: Vec<Partition> = self.held.keys().copied().collect();
        let stored = position::next_offsets(&self.store, &held).await?;
        for (partition, stored) in held.into_iter().zip(stored) {
            let held = self.held.get(&partition);
            if held.is_some_and(|held| Some(held.position.next) != stored) {
                self.held.remove(&partition);
            }
        }
        Ok(())
    }

    /// Forgets that dead letters could not be written, where no partition is held up any more. Called before each read: else a
    /// partition whose stream of dead letters was repaired would be held up again by what is still known of it.
    fn try_dead_letters(&mut self) {
        if self.without_dead.is_empty() {
            return;
        }
        let (health, accumulator) = (&self.health, &self.accumulator);
        let held_up = self
            .held
            .keys()
            .filter(|p| health.has_failed(**p, PartitionPart::DeadLetters));
        let held_up: HashSet<Partition> = held_up.map(|p| accumulator.group_of(*p)).collect();
        self.without_dead
            .retain(|group, (since, _)| held_up.contains(group) || since.elapsed() < LOOK_AGAIN);
    }

    /// Adds up what was read from these offsets on.
    async fn add(
        &mut self,
        found: Vec<PartitionEntries>,
        from: &BTreeMap<Partition, u64>,
    ) -> Result<(), StoreError> {
        for PartitionEntries {
            partition, entries, ..
        } in found
        {
            // A group that was full and could not be counted is dropped, to be read again. What was read behind it has
            // to wait until then: counted alone, it would take the position past what was dropped.
            if from.get(&partition).copied() != self.next(partition) {
                continue;
            }
            let events: Vec<DecodedEntry> = entries.iter().map(read).collect();
            let schemas = schemas(&self.catalog, &events).await?;
            let Some(held) = self.held.get(&partition) else {
                continue;
            };
            let without_dead = self.without_dead.get(&self.accumulator.group_of(partition));
            let group = self.accumulator.group(partition);
            let mut aggregator = Aggregator::new(Rules {
                config: &self.catalog.config,
                keys: self.store.keys(),
                schemas: &schemas,
                refused: &group.refused,
                seen: &group.seen,
                holds_dead: without_dead.is_some(),
            });
            let of = (partition, &held.position);
            let held_back = aggregator.add(&mut group.batch, of, entries, &events);
            if let (Some((offset, reason)), Some((_, why))) = (held_back, without_dead) {
                let why = format!(
                    "entry 0-{offset} cannot be counted ({reason}), and there is no place for it: {why}"
                );
                let health = &self.health;
                health.fail(partition, PartitionPart::DeadLetters, &why);
            }
            if let Some(group) = self.accumulator.take_if_full(partition) {
                self.count(vec![group]).await?;
            }
        }
        Ok(())
    }

    async fn count_all(&mut self) -> Result<(), StoreError> {
        let groups = self.accumulator.take();
        self.count(groups).await
    }

    /// Counts groups.
    async fn count(&mut self, groups: Vec<CommitGroup>) -> Result<(), StoreError> {
        let remember = self.catalog.config.dedup.event_window_seconds;
        let store = &self.store;
        let done = stream::iter(groups).map(|group| async move {
            let outcome = commit(store, &group.batch, remember).await;
            (group, outcome)
        });
        let done: Vec<_> = done.buffer_unordered(AT_ONCE).collect().await;
        let (mut failed, mut acknowledged, mut dead) = (None, Vec::new(), BTreeSet::new());
        let mut refused = Vec::new();
        for (group, outcome) in done {
            match outcome {
                Ok(CommitOutcome::Committed) => {
                    acknowledged.extend(self.counted(&group.batch));
                    dead.extend(group.batch.dead.iter().map(|dead| dead.partition));
                }
                // Somebody else counts there too. These positions are asked for again, and the rest is read again.
                Ok(CommitOutcome::PositionConflict(partitions)) => {
                    metrics::counter!("countd_batches_lost_total").increment(1);
                    tracing::debug!(?partitions, "positions have moved");
                    self.held
                        .retain(|partition, _| !partitions.contains(partition));
                }
                Ok(CommitOutcome::UnusableKeys(keys)) => {
                    failed = self.again(group, keys, Vec::new()).or(failed)
                }
                Ok(CommitOutcome::DuplicateEnvelopes(ids)) => {
                    failed = self.again(group, Vec::new(), ids).or(failed)
                }
                // It is read again, up to what would be a dead letter.
                Ok(CommitOutcome::NoDeadLetters(why)) => {
                    if let Some(partition) = group.batch.moves.keys().next() {
                        let dead = self.store.keys().dead(*partition);
                        let why = key_error(&dead, &why, "stream");
                        let group = self.accumulator.group_of(*partition);
                        self.without_dead.insert(group, (Instant::now(), why));
                    }
                }
                Err(why) if self.store.keys().tagged() && is_damage(&why) => {
                    let partition = group.batch.moves.into_keys().next();
                    refused.extend(partition.map(|partition| (partition, why)));
                }
                Err(why) => failed = Some(why),
            }
        }
        if !dead.is_empty() {
            dead_letters::bound(&self.store, dead, &self.catalog.config.dead).await;
        }
        failed = self.rest(refused).await.or(failed);
        let acknowledged = self.log.acknowledge(&acknowledged).await;
        failed.map_or(acknowledged, Err)
    }

    /// Leaves partitions out for a while whose batch was refused and of which something is found to be damaged. In a cluster each
    /// has a batch of its own, so the others go on. Returns why another one was refused, if one was.
    async fn rest(&mut self, refused: Vec<(Partition, StoreError)>) -> Option<StoreError> {
        if refused.is_empty() {
            return None;
        }
        let partitions: Vec<Partition> = refused.iter().map(|(partition, _)| *partition).collect();
        survey(&self.store, &self.health, &partitions).await;
        let health = &self.health;
        let has_failed = |partition| {
            let parts = [PartitionPart::Log, PartitionPart::Outbox];
            parts.iter().any(|part| health.has_failed(partition, *part))
        };
        let (damaged, others): (Vec<_>, Vec<_>) = refused
            .into_iter()
            .partition(|(partition, _)| has_failed(*partition));
        for (partition, why) in damaged {
            tracing::debug!(partition, error = %why, "its batch is refused");
            metrics::counter!("countd_consumer_retries_total").increment(1);
            self.resting.insert(partition, Instant::now() + LOOK_AGAIN);
        }
        others.into_iter().next().map(|(_, why)| why)
    }

    /// A batch is to be read again, without what turned out not to count. Each time that is more, so there is an end to it.
    fn again(
        &mut self,
        group: CommitGroup,
        refused: Vec<(String, UnusableKey)>,
        seen: Vec<Id>,
    ) -> Option<StoreError> {
        let is_new = self.accumulator.exclude(group, refused, seen);
        let nothing = || StoreError::Unexpected("the same was refused twice".to_owned());
        (!is_new).then(nothing)
    }

    /// A batch is counted: positions go on. Returns what the log may forget.
    fn counted(&mut self, batch: &Batch) -> Vec<Counted> {
        record(batch);
        let log = &self.catalog.config.log;
        if batch.fills_outbox() {
            batch
                .moves
                .keys()
                .for_each(|partition| self.outbox_relay.notify(*partition));
        }
        let mut acknowledged = Vec::new();
        for (partition, step) in &batch.moves {
            let Some(held) = self.held.get_mut(partition) else {
                continue;
            };
            held.position.next = step.next;
            held.position.fences.extend(&step.fences);
            let bytes = held.bytes.map(|bytes| bytes + step.bytes);
            let entries = step.next.saturating_sub(held.acknowledged).max(1);
            let is_due = |bytes| entries >= ACKNOWLEDGE_AFTER || bytes >= log.retain_bytes;
            // If all that is kept is as long as these, it has more bytes than may be kept.
            let is_long =
                |bytes: u64| (bytes / entries).saturating_mul(log.retain) >= log.retain_bytes;
            held.bytes = bytes;
            if bytes.is_none_or(is_due) {
                (held.acknowledged, held.bytes) = (step.next, Some(0));
                acknowledged.push(Counted {
                    partition: *partition,
                    next: step.next,
                    may_be_long: bytes.is_none_or(is_long),
                });
            }
        }
        acknowledged
    }
}
