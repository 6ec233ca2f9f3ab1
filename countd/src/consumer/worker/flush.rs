//! Flushes the accumulator: commits its batches, and handles each outcome.

use super::super::accumulator::CommitGroup;
use super::super::batch::Batch;
use super::super::change_streams::announced_bytes;
use super::super::commit::{CommitOutcome, commit, record_commit};
use super::super::counter_key::UnusableKey;
use super::super::partition_health::{check_partitions, is_damage};
use super::state::Worker;
use crate::domain::error::StoreError;
use crate::domain::health::PartitionPart;
use crate::domain::ids::Id;
use crate::domain::keys::Partition;
use crate::log::inspect::key_error;
use crate::log::{Acknowledgement, EventLog, dead_letters};
use crate::trace::{self, Span};
use futures_util::{StreamExt, stream};
use std::collections::BTreeSet;
use std::pin::pin;

/// The number of commits in flight. More would queue at the server until replies time out.
const MAX_IN_FLIGHT: usize = 16;

impl Worker {
    /// Commits all groups of the accumulator.
    pub(super) async fn flush(&mut self) -> Result<(), StoreError> {
        let groups = self.accumulator.take_all();
        self.commit_groups(groups).await
    }

    /// Commits groups. Then trims their dead-letter streams and acknowledges committed entries, also if some groups failed.
    ///
    /// # Errors
    /// The last failure, if there was one.
    pub(super) async fn commit_groups(
        &mut self,
        mut groups: Vec<CommitGroup>,
    ) -> Result<(), StoreError> {
        // A process with other settings waits until the commits, which compare counters, have ended.
        let store = self.store.clone();
        let held = store.hold_layout().await;
        // The entries will be read again.
        if !self.follows_layout() {
            return Ok(());
        }
        groups
            .iter_mut()
            .for_each(|group| self.require_tables(group));
        let (store, locator) = (&store, &self.locator);
        let config = &self.catalog.config;
        let commits = stream::iter(groups).map(|group| async move {
            let span = Span::root("commit");
            let committing = commit(store, locator, &group.batch, config);
            let outcome = trace::scope(span.as_ref(), pin!(committing)).await;
            if let Some(span) = span {
                describe(&span, &group.batch, &outcome);
            }
            (group, outcome)
        });
        let outcomes: Vec<_> = commits.buffer_unordered(MAX_IN_FLIGHT).collect().await;
        drop(held);
        let (mut failed, mut acknowledgements) = (None, Vec::new());
        let mut with_dead_letters = BTreeSet::new();
        let mut changed = Vec::new();
        let mut rejected = Vec::new();
        for (group, outcome) in outcomes {
            match outcome {
                Ok(CommitOutcome::Committed {
                    forwards,
                    announced,
                }) => {
                    changed.extend(announced_bytes(&group.batch, announced));
                    acknowledgements.extend(self.complete(&group.batch, forwards));
                    let dead_letters = group.batch.dead_letters.iter();
                    with_dead_letters.extend(dead_letters.map(|dead| dead.partition));
                    let partitions = &self.partitions;
                    let position = |partition| Some(partitions.position(partition)?.topic);
                    self.accumulator.complete(group, position);
                }
                // Another consumer has committed. The positions of these partitions are loaded again.
                Ok(CommitOutcome::PositionConflict(conflicts)) => {
                    metrics::counter!("countd_commit_conflicts_total").increment(1);
                    tracing::debug!(partitions = ?conflicts, "position conflict");
                    self.partitions.retain(|p| !conflicts.contains(&p));
                }
                // After a failover. Their positions and histories are loaded again.
                Ok(CommitOutcome::OtherHistory) => {
                    let held = &group.batch.positions;
                    tracing::info!(
                        partitions = held.len(),
                        "the server has another history; reading again"
                    );
                    self.partitions.retain(|p| !held.contains_key(&p));
                }
                Ok(CommitOutcome::UnusableKeys(keys)) => {
                    failed = self.repair_unusable(group, keys).await.err().or(failed)
                }
                Ok(CommitOutcome::MissingTables(keys)) => {
                    failed = self.repair_missing(group, keys).await.err().or(failed)
                }
                Ok(CommitOutcome::DuplicateEnvelopes(ids)) => {
                    failed = self.retry_without(group, Vec::new(), ids).err().or(failed)
                }
                Ok(CommitOutcome::OtherPlaces(types)) => self.choose_other_places(group, types),
                // The group is read again, up to the entry that would become a dead letter.
                Ok(CommitOutcome::DeadLettersRejected(reason)) => {
                    if let Some(partition) = group.batch.positions.keys().next() {
                        let dead = self.store.keys().dead(*partition);
                        let reason = key_error(&dead, &reason, "stream");
                        let group_id = self.accumulator.group_id(*partition);
                        self.blocked.hold_dead_letters(group_id, reason);
                    }
                }
                Err(error) if self.store.keys().tagged() && is_damage(&error) => {
                    let partition = group.batch.positions.into_keys().next();
                    rejected.extend(partition.map(|partition| (partition, error)));
                }
                Err(error) => failed = Some(error),
            }
        }
        if !with_dead_letters.is_empty() {
            let settings = &self.catalog.config.dead;
            dead_letters::bound(&self.store, with_dead_letters, settings).await;
        }
        self.change_streams.bound(&self.store, changed).await;
        failed = self.pause_damaged(rejected).await.or(failed);
        // The archiver and the publisher trim what they have read.
        let acknowledged = match self.locator.layout().archives || self.topic.is_some() {
            true => Ok(()),
            false => self.log.acknowledge(&acknowledgements).await,
        };
        failed.map_or(acknowledged, Err)
    }

    /// Pauses the partitions whose commit was rejected because one of their keys is damaged. In a cluster each partition has its
    /// own commit, so the other partitions continue. Returns the first error of a partition that is not damaged.
    async fn pause_damaged(
        &mut self,
        rejected: Vec<(Partition, StoreError)>,
    ) -> Option<StoreError> {
        if rejected.is_empty() {
            return None;
        }
        let partitions: Vec<Partition> = rejected.iter().map(|(partition, _)| *partition).collect();
        check_partitions(&self.store, &self.health, &partitions).await;
        let health = &self.health;
        let is_damaged = |partition| {
            let parts = [PartitionPart::Log, PartitionPart::Outbox];
            parts.iter().any(|part| health.has_failed(partition, *part))
        };
        let (damaged, others): (Vec<_>, Vec<_>) = rejected
            .into_iter()
            .partition(|(partition, _)| is_damaged(*partition));
        for (partition, error) in damaged {
            tracing::debug!(partition, %error, "commit rejected; the partition is paused");
            metrics::counter!("countd_consumer_retries_total").increment(1);
            self.blocked.pause(partition);
        }
        others.into_iter().next().map(|(_, error)| error)
    }

    /// Chooses the other place for the counters of types that migrations move. The group is read again.
    fn choose_other_places(&mut self, group: CommitGroup, types: Vec<String>) {
        let Some(partition) = group.batch.positions.keys().next() else {
            return;
        };
        let in_rows = self
            .in_rows
            .entry(self.accumulator.group_id(*partition))
            .or_default();
        for etype in types {
            if !in_rows.remove(&etype) {
                in_rows.insert(etype);
            }
        }
        self.accumulator.exclude(group, Vec::new(), Vec::new());
    }

    /// Excludes the keys and envelopes for which a commit was rejected. The group is read again without them. Each retry excludes
    /// more, so retries end.
    pub(super) fn retry_without(
        &mut self,
        group: CommitGroup,
        unusable_keys: Vec<(String, UnusableKey)>,
        duplicate_envelopes: Vec<Id>,
    ) -> Result<(), StoreError> {
        let accumulator = &mut self.accumulator;
        match accumulator.exclude(group, unusable_keys, duplicate_envelopes) {
            true => Ok(()),
            false => Err(StoreError::Unexpected(
                "a commit was rejected because of keys or envelopes that it excludes".to_owned(),
            )),
        }
    }

    /// Completes a committed batch: records it, notifies the outbox relay and advances the positions. Returns the acknowledgements
    /// that are due.
    fn complete(&mut self, batch: &Batch, forwards: bool) -> Vec<Acknowledgement> {
        record_commit(batch);
        self.counted.add(&batch.sampled);
        if forwards || batch.writes_outbox() {
            let partitions = batch.positions.keys();
            partitions.for_each(|partition| self.outbox_relay.notify(*partition));
        }
        self.partitions.advance(batch, &self.catalog.config.log)
    }
}

/// Sets the attributes of a commit.
fn describe(span: &Span, batch: &Batch, outcome: &Result<CommitOutcome, StoreError>) {
    let partitions = i64::try_from(batch.positions.len()).unwrap_or(i64::MAX);
    let entries = i64::try_from(batch.entry_count()).unwrap_or(i64::MAX);
    span.set("countd.partitions", partitions);
    span.set("messaging.batch.message_count", entries);
    match outcome {
        Ok(CommitOutcome::Committed { .. }) => {}
        Ok(_) => span.fail("rejected"),
        Err(StoreError::Unavailable(_)) => span.fail("unavailable"),
        Err(_) => span.fail("failed"),
    }
}
