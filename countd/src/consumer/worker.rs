//! A worker: reads its share of the partitions and counts what it finds.

use super::commit::{Outcome, commit, fills_outbox};
use super::handover::hand_over;
use super::position::{self, Position};
use super::tally::{Batch, Read, Rules, is_to_count, read, schema_id};
use crate::event::now_ms;
use crate::ids::Name;
use crate::keys::Partition;
use crate::log::{Entry, Log, Streams};
use crate::schema::{Schema, SchemaError};
use crate::service::Service;
use crate::store::StoreError;
use futures_util::StreamExt;
use futures_util::stream;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long a read waits for entries.
const WAIT: Duration = Duration::from_millis(500);
/// After a failure: so long at first, then twice as long each time, up to the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// A reply holds about this many batches at most, so that memory stays bounded while a backlog is read.
const BATCHES_IN_A_READ: usize = 32;
/// Partitions that are counted at the same time. More would only queue up at the server until replies count as lost.
const AT_ONCE: usize = 16;
/// The log is told that it may forget after so many entries.
const ACKNOWLEDGE_AFTER: u64 = 1_000;

/// A partition that this worker has.
struct Held {
    position: Position,
    acknowledged: u64,
}

/// One of the tasks that count.
pub struct Worker {
    service: Service,
    log: Streams,
    number: u16,
    share: watch::Receiver<Arc<Vec<Partition>>>,
    held: BTreeMap<Partition, Held>,
    /// How many partitions had something to count at the last read.
    busy: usize,
}

impl Worker {
    /// The `number`th of this process. `share` is what this process has.
    pub fn new(
        service: Service,
        number: u16,
        share: watch::Receiver<Arc<Vec<Partition>>>,
    ) -> Worker {
        let log = Streams::new(service.store.clone(), service.config.log.retain);
        Worker {
            service,
            log,
            number,
            share,
            held: BTreeMap::new(),
            busy: 0,
        }
    }

    /// Counts until `stop` turns true, and finishes what it has read.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let linger = Duration::from_millis(self.service.config.consumer.linger_ms);
        let mut backoff = BACKOFF.0;
        while !*stop.borrow() {
            let start = Instant::now();
            let pause = match self.cycle(&mut stop).await {
                Ok(()) => {
                    backoff = BACKOFF.0;
                    linger.saturating_sub(start.elapsed())
                }
                Err(why) => {
                    tracing::warn!(error = %why, backoff_ms = backoff.as_millis() as u64, "counting has to wait");
                    metrics::counter!("countd_consumer_retries_total").increment(1);
                    let pause = backoff;
                    backoff = (backoff * 2).min(BACKOFF.1);
                    pause
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
    }

    async fn cycle(&mut self, stop: &mut watch::Receiver<bool>) -> Result<(), StoreError> {
        self.take_share().await?;
        let from: Vec<(Partition, u64)> = self
            .held
            .iter()
            .map(|(p, held)| (*p, held.position.next))
            .collect();
        let batch = self.service.config.consumer.batch;
        let limit = (batch * BATCHES_IN_A_READ / self.busy.max(1)).clamp(1, batch);
        let found = tokio::select! {
            found = self.log.read(&from, limit, WAIT) => found,
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
        };
        let found = match found {
            Ok(found) => found,
            Err(why) => {
                // The server may have come back without its last moments.
                self.held.clear();
                return Err(why);
            }
        };
        self.busy = found.len();
        self.count(found).await
    }

    /// Takes what is this worker's now, and lets go of the rest.
    async fn take_share(&mut self) -> Result<(), StoreError> {
        let workers = self.service.config.consumer.workers;
        let share = Arc::clone(&self.share.borrow());
        let mine: HashSet<Partition> = share
            .iter()
            .copied()
            .filter(|p| p % workers == self.number)
            .collect();
        self.held.retain(|partition, _| mine.contains(partition));
        let mut new: Vec<Partition> = mine
            .into_iter()
            .filter(|p| !self.held.contains_key(p))
            .collect();
        new.sort_unstable();
        let positions = position::load(&self.service.store, &new).await?;
        // What others left in their outboxes.
        let (store, log) = (&self.service.store, &self.log);
        let left = stream::iter(new.clone()).map(|partition| hand_over(store, log, partition));
        let left: Vec<_> = left.buffer_unordered(AT_ONCE).collect().await;
        left.into_iter().collect::<Result<(), StoreError>>()?;
        for (partition, position) in new.into_iter().zip(positions) {
            let acknowledged = position.next;
            self.held.insert(
                partition,
                Held {
                    position,
                    acknowledged,
                },
            );
        }
        Ok(())
    }

    async fn count(&mut self, found: Vec<(Partition, Vec<Entry>)>) -> Result<(), StoreError> {
        let mut work = Vec::with_capacity(found.len());
        for (partition, entries) in found {
            if let Some(held) = self.held.remove(&partition) {
                work.push((partition, held, entries));
            }
        }
        let (service, log) = (&self.service, &self.log);
        let done = stream::iter(work).map(|(partition, mut held, entries)| async move {
            let result = count_partition(service, log, partition, &mut held, &entries).await;
            (partition, held, result)
        });
        let done: Vec<_> = done.buffer_unordered(AT_ONCE).collect().await;
        let mut failed = None;
        for (partition, held, result) in done {
            match result {
                Ok(true) => {
                    self.held.insert(partition, held);
                }
                // Somebody else counts here too: its position is asked for again.
                Ok(false) => {
                    metrics::counter!("countd_batches_lost_total").increment(1);
                    tracing::debug!(partition, "the position has moved");
                }
                Err(why) => failed = Some(why),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Counts what was read of a partition. False: somebody else has moved the position.
async fn count_partition(
    service: &Service,
    log: &Streams,
    partition: Partition,
    held: &mut Held,
    entries: &[Entry],
) -> Result<bool, StoreError> {
    for entries in entries.chunks(service.config.consumer.batch) {
        let Some(batch) = count_batch(service, partition, &held.position, entries).await? else {
            return Ok(false);
        };
        held.position.next = batch.next;
        held.position.fences.extend(&batch.fences);
        record(partition, &batch);
        if fills_outbox(&batch) {
            hand_over(&service.store, log, partition).await?;
        }
    }
    if held.position.next >= held.acknowledged + ACKNOWLEDGE_AFTER {
        log.acknowledge(partition, held.position.next).await?;
        held.acknowledged = held.position.next;
    }
    Ok(true)
}

/// Counts one batch. `None`: somebody else has moved the position.
async fn count_batch(
    service: &Service,
    partition: Partition,
    position: &Position,
    entries: &[Entry],
) -> Result<Option<Batch>, StoreError> {
    let events: Vec<Read> = entries.iter().map(read).collect();
    let schemas = schemas(service, &events).await?;
    let remember = service.config.dedup.event_window_seconds;
    let (mut refused, mut seen) = (HashSet::new(), HashSet::new());
    loop {
        let rules = Rules {
            config: &service.config,
            keys: service.store.keys(),
            schemas: &schemas,
            refused: &refused,
            seen: &seen,
        };
        let batch = Batch::of(partition, position, entries, &events, &rules);
        match commit(&service.store, partition, position.next, &batch, remember).await? {
            Outcome::Counted => return Ok(Some(batch)),
            Outcome::Moved => return Ok(None),
            Outcome::Refused(keys) => {
                let before = refused.len();
                refused.extend(keys);
                if refused.len() == before {
                    return Err(StoreError::Unexpected("a key was refused twice".to_owned()));
                }
            }
            // These are left out of the next attempt, so there is an end to it.
            Outcome::Seen(ids) => seen.extend(ids),
        }
    }
}

/// The schemas of a batch. Those that lack a name of it are asked for again, once.
async fn schemas(
    service: &Service,
    events: &[Read],
) -> Result<HashMap<Name, Arc<Schema>>, StoreError> {
    let mut names: HashMap<&Name, HashSet<&str>> = HashMap::new();
    for event in events {
        if let Read::Event(event, _) = event
            && is_to_count(event, &service.config)
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

fn record(partition: Partition, batch: &Batch) {
    metrics::counter!("countd_events_applied_total").increment(batch.applied);
    metrics::counter!("countd_events_duplicated_total").increment(batch.repeated);
    metrics::counter!("countd_events_dead_total").increment(batch.dead.len() as u64);
    metrics::counter!("countd_commits_total").increment(1);
    metrics::counter!("countd_counter_writes_total").increment(batch.counters.len() as u64);
    let entries = batch.applied + batch.repeated + batch.dead.len() as u64;
    metrics::histogram!("countd_batch_events").record(entries as f64);
    let commands = batch.commands() as f64 / entries.max(1) as f64;
    metrics::histogram!("countd_commands_per_event").record(commands);
    if let Some(oldest) = batch.oldest {
        let age = now_ms().saturating_sub(oldest);
        metrics::histogram!("countd_event_age_seconds").record(age as f64 / 1000.0);
    }
    // A flood of them is one line a batch.
    if let Some(first) = batch.dead.first() {
        let (count, offset, reason) = (batch.dead.len(), first.offset, &first.reason);
        tracing::warn!(partition, count, offset, reason, "dead letters");
    }
}
