//! Partitions that are not read until a retry, or are not read past a poison message.

use super::super::accumulator::Accumulator;
use crate::domain::health::{Health, PartitionPart};
use crate::domain::keys::Partition;
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

/// The delay before a blocked partition is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The blocked partitions of a worker.
#[derive(Default)]
pub struct BlockedPartitions {
    /// Partitions whose commit was rejected because a key is damaged, and the time when they are read again.
    paused_until: BTreeMap<Partition, Instant>,
    /// Commit groups whose dead letters cannot be written: the time of the failure and the reason.
    without_dead_letters: BTreeMap<Partition, (Instant, String)>,
}

impl BlockedPartitions {
    /// Stops reading a partition until the retry delay is over.
    pub fn pause(&mut self, partition: Partition) {
        self.paused_until
            .insert(partition, Instant::now() + RETRY_DELAY);
    }

    /// Whether the partition is paused.
    pub fn is_paused(&self, partition: Partition) -> bool {
        self.paused_until.contains_key(&partition)
    }

    /// Resumes the partitions whose retry delay is over.
    pub fn resume_due(&mut self) {
        self.paused_until.retain(|_, until| *until > Instant::now());
    }

    /// Records why the dead letters of a commit group cannot be written.
    pub fn hold_dead_letters(&mut self, group_id: Partition, reason: String) {
        self.without_dead_letters
            .insert(group_id, (Instant::now(), reason));
    }

    /// The reason why the dead letters of a commit group cannot be written; `None` if they can.
    pub fn dead_letter_failure(&self, group_id: Partition) -> Option<&str> {
        let failure = self.without_dead_letters.get(&group_id);
        failure.map(|(_, reason)| reason.as_str())
    }

    /// Forgets failures of dead letters after the retry delay, unless a partition of the group still has one in [`Health`].
    ///
    /// Must run before each read: otherwise a partition whose dead-letter stream was repaired would be blocked again by the old
    /// failure.
    pub fn retry_dead_letters(
        &mut self,
        owned: impl Iterator<Item = Partition>,
        health: &Health,
        accumulator: &Accumulator,
    ) {
        if self.without_dead_letters.is_empty() {
            return;
        }
        let failed = owned.filter(|p| health.has_failed(*p, PartitionPart::DeadLetters));
        let failed_groups: HashSet<Partition> = failed.map(|p| accumulator.group_id(p)).collect();
        self.without_dead_letters.retain(|group_id, (since, _)| {
            failed_groups.contains(group_id) || since.elapsed() < RETRY_DELAY
        });
    }
}
