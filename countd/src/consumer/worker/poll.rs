//! One poll of a worker: refresh the assignment, read, aggregate, and flush if it is due.

use super::super::aggregator::{Aggregator, HeldEntry};
use super::super::decoder::{DecodedEntry, decode};
use super::super::position;
use super::super::reread::{limit_facts, reread_facts};
use super::super::rules::Rules;
use super::super::schemas::{load_schemas, load_user_schema};
use super::super::server_history;
use super::state::Worker;
use crate::domain::error::StoreError;
use crate::domain::health::PartitionPart;
use crate::domain::ids::Entity;
use crate::domain::keys::Partition;
use crate::log::{CountedLog, EntryKind, EventLog, LogEntry, PartitionEntries, trim_counted};
use hashbrown::HashSet;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long a read blocks while there are no entries.
pub(super) const READ_TIMEOUT: Duration = Duration::from_millis(500);
/// The maximum number of events that are added to a batch before it is committed if it is full.
pub(super) const MAX_ADDED: usize = 128;
/// About the length of a user in the JSON of a group.
const USER_BYTES: usize = 20;

/// Where entries come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntrySource {
    /// The stream of their partition.
    Stream,
    /// The topic.
    Topic,
}

/// The number of the first entries that are added at once: about [`MAX_ADDED`] events, at least one entry.
fn first_entries(entries: &[LogEntry]) -> usize {
    let mut events = 0;
    let within = entries.iter().take_while(|entry| {
        events += match entry.kind {
            EntryKind::Group => 1 + entry.payload.len() / USER_BYTES,
            _ => 1,
        };
        events <= MAX_ADDED
    });
    within.count().max(1).min(entries.len())
}

/// Whether any entry has an event of one of these entities.
fn counts_any(hot: &HashSet<Entity>, entries: &[DecodedEntry]) -> bool {
    !hot.is_empty()
        && entries.iter().any(|entry| match entry {
            DecodedEntry::Event(event, _) => hot.contains(&event.entity),
            // They have the same entity.
            DecodedEntry::Group(events) => events.iter().take(1).any(|e| hot.contains(&e.entity)),
            _ => false,
        })
}

/// Gives events that came without their text that text, before names in them are replaced: dead letters have what was sent.
fn keep_texts(entries: &mut [LogEntry], decoded: &[DecodedEntry]) {
    for (entry, decoded) in entries.iter_mut().zip(decoded) {
        if let DecodedEntry::Event(event, None) = decoded
            && entry.payload.is_empty()
        {
            entry.payload = event.to_json().into_bytes();
            entry.is_whole = true;
        }
    }
}

impl Worker {
    /// Reads once, and flushes the accumulator if it is due. Returns the delay before the next poll.
    pub(super) async fn poll(
        &mut self,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Duration, StoreError> {
        if !self.follows_layout() {
            self.follow_layout();
            if !self.follows_layout() {
                return Ok(READ_TIMEOUT);
            }
        }
        if self.accumulator.is_empty() {
            self.refresh_assignment().await?;
            if self.assignment.partitions().is_empty() {
                if let Some(topic) = &mut self.topic {
                    topic.release();
                }
                tokio::select! {
                    () = self.assignment.changed() => {}
                    () = tokio::time::sleep(READ_TIMEOUT) => {}
                    _ = stop.wait_for(|stop| *stop) => {}
                }
                return Ok(Duration::ZERO);
            }
        }
        self.blocked
            .retry_dead_letters(self.partitions.iter(), &self.health, &self.accumulator);
        self.blocked.resume_due();
        let offsets = self.read_offsets();
        let from: Vec<(Partition, u64)> = offsets.iter().map(|(p, next)| (*p, *next)).collect();
        let timeout = match self.accumulator.is_empty() {
            true => READ_TIMEOUT,
            false => Duration::ZERO,
        };
        if self.topic.is_some() {
            return self.poll_both(&offsets, timeout, stop).await;
        }
        let reads = tokio::select! {
            reads = self.log.read(&from, self.read_limit.get(), timeout) => reads?,
            _ = stop.wait_for(|stop| *stop) => return Ok(Duration::ZERO),
        };
        let is_caught_up = self.read_limit.adapt(&reads, self.partitions.len());
        self.has_caught_up |= is_caught_up;
        let is_idle = reads.is_empty();
        let is_blocked = self.renumber_foreign_ids(&reads).await;
        self.aggregate(reads, &offsets).await?;
        self.flush_if_due(is_idle).await?;
        Ok(self.next_delay(is_blocked, is_caught_up))
    }

    /// Flushes the accumulator if it is due, and trims logs.
    pub(super) async fn flush_if_due(&mut self, is_idle: bool) -> Result<(), StoreError> {
        let settings = &self.catalog.config.consumer;
        let progress = (self.has_caught_up, is_idle);
        let hot_age_ms = self.catalog.config.hot.max_batch_age_ms;
        if (self.accumulator).should_flush(settings, hot_age_ms, progress) {
            self.has_caught_up = false;
            self.flush().await?;
        }
        let overdue = self.partitions.overdue(&self.catalog.config.log);
        self.trim(overdue).await;
        Ok(())
    }

    /// The delay before the next poll.
    pub(super) fn next_delay(&self, is_blocked: bool, is_caught_up: bool) -> Duration {
        match (is_blocked, is_caught_up) {
            (true, _) => READ_TIMEOUT,
            (false, true) => Duration::from_millis(self.catalog.config.consumer.linger_ms),
            (false, false) => Duration::ZERO,
        }
    }

    /// Trims logs. A failure has no consequences: later entries of the partition are trimmed, too.
    pub(super) async fn trim(&self, logs: Vec<CountedLog>) {
        // The archiver and the publisher trim what they have read.
        if self.store.layout().archives || self.topic.is_some() {
            return;
        }
        if let Err(error) = trim_counted(&self.store, &logs).await {
            tracing::debug!(%error, "cannot trim logs");
        }
    }

    /// The next offset of each partition that is not blocked.
    fn read_offsets(&self) -> BTreeMap<Partition, u64> {
        let is_blocked = |partition| {
            let health = &self.health;
            self.blocked.is_paused(partition)
                || health.has_failed(partition, PartitionPart::DeadLetters)
        };
        let readable = self.partitions.iter().filter(|p| !is_blocked(*p));
        let offsets = readable.filter_map(|p| Some((p, self.next_offset(p)?)));
        offsets.collect()
    }

    /// The next offset to read of a partition: after its accumulated entries, or its position. `None` if the worker does not own
    /// it.
    fn next_offset(&self, partition: Partition) -> Option<u64> {
        let position = self.partitions.position(partition)?;
        let accumulated = self.accumulator.next_offset(partition);
        Some(accumulated.unwrap_or(position.next))
    }

    /// Gives up the partitions that were assigned to other workers, and takes over the new ones.
    async fn refresh_assignment(&mut self) -> Result<(), StoreError> {
        let health = &self.health;
        let mut assigned = self.assignment.partitions().clone();
        assigned.retain(|partition| !health.has_failed(*partition, PartitionPart::Log));
        self.partitions.retain(|p| assigned.contains(&p));
        self.accumulator.retain(|p| assigned.contains(&p));
        let with_topic = self.topic.is_some();
        self.partitions.validate(&self.store, with_topic).await?;
        let added = assigned.into_iter();
        let mut added: Vec<Partition> = added.filter(|p| !self.partitions.contains(*p)).collect();
        if added.is_empty() {
            return Ok(());
        }
        added.sort_unstable();
        let positions = position::load(&self.store, &added).await?;
        // Before the first read: what is read later is committed to this history, or to none.
        let histories = server_history::load(&self.store, &added).await?;
        // The previous owner may have left entries in the outboxes.
        added.iter().for_each(|p| self.outbox_relay.notify(*p));
        for ((partition, position), history) in added.into_iter().zip(positions).zip(histories) {
            match position {
                Ok(mut position) => {
                    position.history = Some(history);
                    self.partitions.insert(partition, position);
                    if let Some(topic) = &mut self.topic {
                        topic.forget_reads();
                    }
                }
                Err(reason) => {
                    self.health.fail(partition, PartitionPart::Log, &reason);
                }
            }
        }
        self.read_limit.divide(self.partitions.len());
        Ok(())
    }

    /// Renumbers the logs in which the next entry has a foreign ID, so that it can be read. Returns whether a retry is needed
    /// because a log cannot be renumbered now. Other partitions continue.
    pub(super) async fn renumber_foreign_ids(&self, reads: &[PartitionEntries]) -> bool {
        let mut is_blocked = false;
        for read in reads {
            if !(read.ends_at_foreign_id && read.entries.is_empty()) {
                continue;
            }
            let partition = read.partition;
            let Err(error) = self.log.renumber(partition).await else {
                continue;
            };
            is_blocked = true;
            metrics::counter!("countd_consumer_retries_total").increment(1);
            match error {
                StoreError::Unavailable(error) if error.code().is_none() => {
                    tracing::warn!(partition, %error, "cannot renumber a log; will retry");
                }
                error => {
                    let reason = format!("its log cannot be renumbered: {error}");
                    self.health.fail(partition, PartitionPart::Log, &reason);
                }
            }
        }
        is_blocked
    }

    /// Adds the entries read from these offsets to the accumulator.
    pub(super) async fn aggregate(
        &mut self,
        reads: Vec<PartitionEntries>,
        offsets: &BTreeMap<Partition, u64>,
    ) -> Result<(), StoreError> {
        for PartitionEntries {
            partition,
            mut entries,
            ..
        } in reads
        {
            let mut expected = offsets.get(&partition).copied();
            while !entries.is_empty() {
                let others = entries.split_off(first_entries(&entries));
                let next = entries.last().map(|entry| entry.offset + 1);
                // A full group is committed within this loop. If that fails, its entries are read again. Later entries of the read must
                // not be added: committed alone, they would advance the position past the failed ones.
                if expected != self.next_offset(partition) {
                    break;
                }
                self.add_entries(partition, entries).await?;
                (entries, expected) = (others, next);
            }
        }
        Ok(())
    }

    /// Records the *once* metrics of which entries are events without facts, before the first one is counted. Returns whether there were
    /// any: the worker then has to follow the changed layout, and the entries are read again.
    pub(super) async fn record_external(
        &self,
        entries: &[DecodedEntry],
    ) -> Result<bool, StoreError> {
        let (metrics, layout) = (&self.catalog.config.metrics, self.store.layout());
        let mut is_recorded = false;
        for entry in entries {
            let DecodedEntry::Event(event, Some(_)) = entry else {
                continue;
            };
            let Some((name, metric)) = metrics.get(event.metric.as_str()) else {
                continue;
            };
            if metric.fact_kind().is_some() && !layout.is_external(name) {
                tracing::warn!(metric = %name, "events without facts are counted: the metric is not reconciled any more");
                self.store.record_external(name).await?;
                is_recorded = true;
            }
        }
        Ok(is_recorded)
    }

    /// Replaces the schemas that events name by those that have the columns of their counters. Returns false if the worker has to follow a
    /// changed layout first; the entries are then read again.
    async fn use_columns(&self, entries: &mut [DecodedEntry]) -> Result<bool, StoreError> {
        let config = &self.catalog.config;
        if entries.iter().any(|entry| entry.names_other_schema(config)) {
            // An event that names a schema whose migration has begun is newer than that stage, and so is what is read now.
            let refreshed = self.store.refresh_layout().await;
            refreshed.map_err(|error| StoreError::Unexpected(error.to_string()))?;
            if !Arc::ptr_eq(&self.store.layout(), self.locator.layout()) {
                return Ok(false);
            }
        }
        for entry in entries {
            entry.use_columns(config, self.locator.layout());
        }
        Ok(true)
    }

    /// Adds entries of a partition to its group, and commits the group if it is full.
    async fn add_entries(
        &mut self,
        partition: Partition,
        entries: Vec<LogEntry>,
    ) -> Result<(), StoreError> {
        let decoded: Vec<DecodedEntry> = entries.iter().map(decode).collect();
        self.add_decoded((partition, EntrySource::Stream), entries, decoded)
            .await
    }

    /// Adds decoded entries of a partition to its group, and commits the group if it is full.
    pub(super) async fn add_decoded(
        &mut self,
        (partition, source): (Partition, EntrySource),
        mut entries: Vec<LogEntry>,
        mut decoded: Vec<DecodedEntry>,
    ) -> Result<(), StoreError> {
        // The rest is read again.
        decoded.truncate(limit_facts(&decoded));
        entries.truncate(decoded.len());
        if !self.locator.layout().all_schema_views().is_empty() {
            keep_texts(&mut entries, &decoded);
        }
        if !self.use_columns(&mut decoded).await? {
            return Ok(());
        }
        reread_facts(&self.store, &self.catalog.config, &mut decoded).await?;
        if self.record_external(&decoded).await? {
            return Ok(());
        }
        let users = load_user_schema(&self.catalog, &decoded).await?;
        let schemas = load_schemas(&self.catalog, &decoded).await?;
        let Some(position) = self.partitions.position(partition) else {
            return Ok(());
        };
        let group_id = self.accumulator.group_id(partition);
        let dead_letter_failure = self.blocked.dead_letter_failure(group_id);
        let in_rows = self.in_rows.entry(group_id).or_default();
        let group = self.accumulator.group_mut(partition);
        group.batch.counts_hot |= counts_any(&self.hot.load(), &decoded);
        let rules = Rules {
            config: &self.catalog.config,
            locator: &self.locator,
            users: &users,
            schemas: &schemas,
            in_rows,
            unusable_keys: &group.unusable_keys,
            duplicate_envelopes: &group.duplicate_envelopes,
            holds_dead_letters: dead_letter_failure.is_some(),
        };
        let mut aggregator = Aggregator::new(rules, &mut group.batch);
        let at = (partition, position);
        let held = match source {
            EntrySource::Stream => aggregator.add_entries(at, entries, &decoded),
            EntrySource::Topic => aggregator.add_records(at, entries, &decoded),
        };
        if let (Some(HeldEntry { offset, reason }), Some(failure)) = (held, dead_letter_failure) {
            let entry = match source {
                EntrySource::Stream => format!("entry 0-{offset}"),
                EntrySource::Topic => format!("record {offset} of the topic"),
            };
            let reason = format!(
                "{entry} cannot be counted ({reason}), and its dead letter cannot be written: {failure}"
            );
            let health = &self.health;
            health.fail(partition, PartitionPart::DeadLetters, &reason);
        }
        if let Some(group) = self.accumulator.take_if_full(partition) {
            self.commit_groups(vec![group]).await?;
        }
        Ok(())
    }
}
