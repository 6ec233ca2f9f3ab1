//! A worker: reads its share of the partitions, adds up what it finds, and counts it.

use super::batch::{Batch, Misfit};
use super::commit::{Outcome, commit};
use super::courier::Courier;
use super::gathered::{Gathered, Group};
use super::lane::{Lane, Share};
use super::position::{self, Position};
use super::strangers::renumber;
use super::tally::{Read, Rules, Tally, is_to_count, read, schema_id};
use super::{AT_ONCE, BACKOFF};
use crate::dead;
use crate::event::{Event, now_ms};
use crate::ids::{Id, Name};
use crate::keys::Partition;
use crate::log::{Counted, Log, Streams, Stretch};
use crate::schema::{Schema, SchemaError};
use crate::service::Service;
use crate::store::StoreError;
use futures_util::StreamExt;
use futures_util::stream;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long a read waits for entries.
const WAIT: Duration = Duration::from_millis(500);
/// A read has about so many entries at most: memory stays bounded, and the server is not held up for long.
const ENTRIES_IN_A_READ: usize = 16_384;
/// The log is told that it may forget after so many entries.
const ACKNOWLEDGE_AFTER: u64 = 1_000;

/// A partition that this worker has.
struct Held {
    position: Position,
    acknowledged: u64,
    /// How many bytes were counted since then; `None` where nobody knows what is left of those that were counted before.
    bytes: Option<u64>,
}

/// One of the tasks that count.
pub struct Worker {
    service: Service,
    log: Streams,
    lane: Lane,
    courier: Courier,
    held: BTreeMap<Partition, Held>,
    gathered: Gathered,
    /// How many entries of a partition are read at once.
    limit: usize,
}

impl Worker {
    /// The `number`th of this process. `share` is what this process has. Within a runtime of Tokio.
    pub fn new(service: Service, number: usize, share: Share) -> Worker {
        let log = Streams::new(service.store.clone(), &service.config);
        let workers = service.config.consumer.workers;
        Worker {
            log,
            lane: Lane::new(service.store.clone(), share, (number, workers)),
            courier: Courier::start(&service),
            held: BTreeMap::new(),
            gathered: Gathered::new(service.store.keys()),
            limit: 0,
            service,
        }
    }

    /// Counts until `stop` turns true, and finishes what it has read.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut backoff = BACKOFF.0;
        while !*stop.borrow() {
            let pause = match self.cycle(&mut stop).await {
                Ok(pause) => {
                    // That something was read does not mean that it can be counted.
                    if self.gathered.is_empty() {
                        backoff = BACKOFF.0;
                    }
                    pause
                }
                Err(why) => {
                    tracing::warn!(error = %why, backoff_ms = backoff.as_millis() as u64, "counting has to wait");
                    metrics::counter!("countd_consumer_retries_total").increment(1);
                    // The server may have come back without its last moments.
                    self.gathered.forget();
                    self.held.clear();
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
        self.courier.finish().await;
    }

    /// Reads once, and counts what is ripe. Says how long to wait before the next time.
    async fn cycle(&mut self, stop: &mut watch::Receiver<bool>) -> Result<Duration, StoreError> {
        if self.gathered.is_empty() {
            self.take_share().await?;
        }
        let next = |partition: &Partition| Some((*partition, self.next(*partition)?));
        let from: BTreeMap<Partition, u64> = self.held.keys().filter_map(next).collect();
        let places: Vec<(Partition, u64)> = from.iter().map(|(p, next)| (*p, *next)).collect();
        let wait = match self.gathered.is_empty() {
            true => WAIT,
            false => Duration::ZERO,
        };
        let found = tokio::select! {
            found = self.log.read(&places, self.limit, wait) => found?,
            _ = stop.wait_for(|stop| *stop) => return Ok(Duration::ZERO),
        };
        let is_all = self.adapt(&found);
        let is_stuck = renumber(&self.log, &found).await;
        self.add(found, &from).await?;
        let settings = &self.service.config.consumer;
        let linger = Duration::from_millis(settings.linger_ms);
        if self.gathered.is_ripe(settings, is_all) {
            self.count_all().await?;
        }
        Ok(match (is_stuck, is_all) {
            (true, _) => WAIT,
            (false, true) => linger,
            (false, false) => Duration::ZERO,
        })
    }

    /// Where reading a partition goes on: behind what is gathered of it, or what is counted. None if it is not held.
    fn next(&self, partition: Partition) -> Option<u64> {
        let held = self.held.get(&partition)?;
        let gathered = self.gathered.next(partition);
        Some(gathered.unwrap_or(held.position.next))
    }

    /// Learns from a read how much to read the next time. True: nothing waits to be read.
    fn adapt(&mut self, found: &[Stretch]) -> bool {
        let total: usize = found.iter().map(|found| found.entries.len()).sum();
        let is_all = found.iter().all(|found| found.entries.len() < self.limit);
        self.limit = match (total > ENTRIES_IN_A_READ, is_all) {
            (true, _) => self.limit * ENTRIES_IN_A_READ / total,
            (false, false) => self.limit * 2,
            (false, true) => ENTRIES_IN_A_READ / self.held.len().max(1),
        };
        self.limit = self.limit.clamp(1, self.service.config.consumer.batch);
        is_all
    }

    /// Takes what is this worker's now, and lets go of the rest.
    async fn take_share(&mut self) -> Result<(), StoreError> {
        let mine = self.lane.partitions();
        self.held.retain(|partition, _| mine.contains(partition));
        self.gathered.keep(|partition| mine.contains(&partition));
        let new = mine.iter().copied();
        let mut new: Vec<Partition> = new.filter(|p| !self.held.contains_key(p)).collect();
        if new.is_empty() {
            return Ok(());
        }
        new.sort_unstable();
        let store = &self.service.store;
        let positions = position::load(store, &new).await?;
        if store.keys().tagged() {
            // What others left in their outboxes.
            new.iter()
                .for_each(|partition| self.courier.owes(*partition));
        }
        for (partition, position) in new.into_iter().zip(positions) {
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
        self.limit = fair.clamp(1, self.service.config.consumer.batch);
        Ok(())
    }

    /// Adds up what was read from these offsets on.
    async fn add(
        &mut self,
        found: Vec<Stretch>,
        from: &BTreeMap<Partition, u64>,
    ) -> Result<(), StoreError> {
        for Stretch {
            partition, entries, ..
        } in found
        {
            // A group that was full and could not be counted is dropped, to be read again. What was read behind it has
            // to wait until then: counted alone, it would take the position past what was dropped.
            if from.get(&partition).copied() != self.next(partition) {
                continue;
            }
            let events: Vec<Read> = entries.iter().map(read).collect();
            let schemas = schemas(&self.service, &events).await?;
            let Some(held) = self.held.get(&partition) else {
                continue;
            };
            let group = self.gathered.group(partition);
            let mut tally = Tally::new(Rules {
                config: &self.service.config,
                keys: self.service.store.keys(),
                schemas: &schemas,
                refused: &group.refused,
                seen: &group.seen,
            });
            let of = (partition, &held.position);
            tally.add(&mut group.batch, of, entries, &events);
            if let Some(group) = self.gathered.take_full(partition) {
                self.count(vec![group]).await?;
            }
        }
        Ok(())
    }

    async fn count_all(&mut self) -> Result<(), StoreError> {
        let groups = self.gathered.take();
        self.count(groups).await
    }

    /// Counts groups.
    async fn count(&mut self, groups: Vec<Group>) -> Result<(), StoreError> {
        let service = &self.service;
        let remember = service.config.dedup.event_window_seconds;
        let done = stream::iter(groups).map(|group| async move {
            let outcome = commit(&service.store, &group.batch, remember).await;
            (group, outcome)
        });
        let done: Vec<_> = done.buffer_unordered(AT_ONCE).collect().await;
        let (mut failed, mut acknowledged, mut dead) = (None, Vec::new(), BTreeSet::new());
        for (group, outcome) in done {
            match outcome {
                Ok(Outcome::Counted) => {
                    acknowledged.extend(self.counted(&group.batch));
                    dead.extend(group.batch.dead.iter().map(|dead| dead.partition));
                }
                // Somebody else counts there too. These positions are asked for again, and the rest is read again.
                Ok(Outcome::Moved(partitions)) => {
                    metrics::counter!("countd_batches_lost_total").increment(1);
                    tracing::debug!(?partitions, "positions have moved");
                    self.held
                        .retain(|partition, _| !partitions.contains(partition));
                }
                Ok(Outcome::Refused(keys)) => {
                    failed = self.again(group, keys, Vec::new()).or(failed)
                }
                Ok(Outcome::Seen(ids)) => failed = self.again(group, Vec::new(), ids).or(failed),
                Err(why) => failed = Some(why),
            }
        }
        if !dead.is_empty() {
            dead::bound(&self.service.store, dead, &self.service.config.dead).await;
        }
        match failed {
            Some(why) => Err(why),
            None => self.log.acknowledge(&acknowledged).await,
        }
    }

    /// A batch is to be read again, without what turned out not to count. Each time that is more, so there is an end to it.
    fn again(
        &mut self,
        group: Group,
        refused: Vec<(String, Misfit)>,
        seen: Vec<Id>,
    ) -> Option<StoreError> {
        let is_news = self.gathered.leave_out(group, refused, seen);
        let nothing = || StoreError::Unexpected("the same was refused twice".to_owned());
        (!is_news).then(nothing)
    }

    /// A batch is counted: positions go on. Returns what the log may forget.
    fn counted(&mut self, batch: &Batch) -> Vec<Counted> {
        record(batch);
        let log = &self.service.config.log;
        if batch.fills_outbox() {
            batch
                .moves
                .keys()
                .for_each(|partition| self.courier.owes(*partition));
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

/// The schemas of a batch. Those that lack a name of it are asked for again, once.
async fn schemas(
    service: &Service,
    events: &[Read],
) -> Result<HashMap<Name, Arc<Schema>>, StoreError> {
    // Most have the same few metrics.
    let mut sorts: Vec<&Event> = Vec::new();
    for event in events {
        if let Read::Event(event, _) = event
            && !sorts.iter().any(|sort| is_alike(sort, event))
        {
            sorts.push(event);
        }
    }
    let mut names: HashMap<&Name, HashSet<&str>> = HashMap::new();
    for event in sorts {
        if is_to_count(event, &service.config)
            && let Some(id) = schema_id(event, &service.config)
        {
            let name = service.config.metrics.resolve(event.metric.as_str());
            names.entry(id).or_default().insert(name);
        }
    }
    let mut found = HashMap::with_capacity(names.len());
    for (id, names) in names {
        let schema = match service.schemas.cached(id) {
            Some(schema) if names.iter().all(|name| schema.index_of(name).is_some()) => Ok(schema),
            _ => service.schemas.refresh(id).await,
        };
        match schema {
            Ok(schema) => {
                found.insert(id.clone(), schema);
            }
            Err(SchemaError::Store(why)) => return Err(why),
            Err(why) => tracing::warn!(schema = %id, error = %why, "no schema"),
        }
    }
    Ok(found)
}

fn is_alike(one: &Event, other: &Event) -> bool {
    one.counted == other.counted
        && one.metric == other.metric
        && one.entity.etype == other.entity.etype
        && one.schema == other.schema
}

fn record(batch: &Batch) {
    metrics::counter!("countd_events_applied_total").increment(batch.applied);
    metrics::counter!("countd_events_duplicated_total").increment(batch.repeated);
    metrics::counter!("countd_events_dead_total").increment(batch.dead.len() as u64);
    metrics::counter!("countd_commits_total").increment(1);
    metrics::counter!("countd_counter_writes_total").increment(batch.counters.len() as u64);
    let entries = batch.entries();
    metrics::histogram!("countd_batch_events").record(entries as f64);
    let commands = batch.commands() as f64 / entries.max(1) as f64;
    metrics::histogram!("countd_commands_per_event").record(commands);
    if let Some(oldest) = batch.oldest {
        let age = now_ms().saturating_sub(oldest);
        metrics::histogram!("countd_event_age_seconds").record(age as f64 / 1000.0);
    }
    // A flood of them is one line a batch.
    if let Some(first) = batch.dead.first() {
        let (count, partition, offset) = (batch.dead.len(), first.partition, first.offset);
        tracing::warn!(
            partition,
            count,
            offset,
            reason = first.reason,
            "dead letters"
        );
    }
}
