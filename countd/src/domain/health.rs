//! Partitions that cannot be counted, and why. The consumer finds out; `/readyz`, the metrics and the log tell.

use crate::domain::keys::Partition;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What of a partition has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartitionPart {
    /// Its log or its position: nothing of it is read.
    Log,
    /// The dead letters: an entry that cannot be counted has no place to go, and those behind it wait.
    DeadLetters,
    /// Its outbox: what it has for users elsewhere cannot be written.
    Outbox,
    /// What its outbox holds: users elsewhere do not get it.
    Delivery,
}

/// A partition that has failed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct FailedPartition {
    /// The partition.
    pub partition: Partition,
    /// Why.
    pub reason: String,
}

#[derive(Default)]
struct Known {
    partitions: BTreeMap<Partition, BTreeMap<PartitionPart, String>>,
    consumer: Option<String>,
}

/// What has failed in this process's share of the partitions. Cheap to clone.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<Known>>);

impl Health {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records why a part of a partition has failed. True: it had not failed before.
    pub fn fail(&self, partition: Partition, part: PartitionPart, reason: &str) -> bool {
        let mut known = self.known();
        let parts = known.partitions.entry(partition).or_default();
        let before = parts.insert(part, reason.to_owned());
        if before.as_deref() != Some(reason) {
            tracing::error!(partition, reason, "a partition has failed");
        }
        publish(&known);
        before.is_none()
    }

    /// Records that a part of a partition works.
    pub fn recover(&self, partition: Partition, part: PartitionPart) {
        let mut known = self.known();
        let Some(parts) = known.partitions.get_mut(&partition) else {
            return;
        };
        if parts.remove(&part).is_some() && parts.is_empty() {
            known.partitions.remove(&partition);
            tracing::info!(partition, "a partition works again");
        }
        publish(&known);
    }

    /// Forgets the partitions that other processes have now.
    pub fn keep(&self, is_mine: impl Fn(Partition) -> bool) {
        let mut known = self.known();
        known.partitions.retain(|partition, _| is_mine(*partition));
        publish(&known);
    }

    /// Records why the consumer as a whole does not get its partitions, or that it does.
    pub fn consumer(&self, problem: Option<String>) {
        self.known().consumer = problem;
    }

    /// Why the consumer as a whole does not get its partitions.
    pub fn consumer_problem(&self) -> Option<String> {
        self.known().consumer.clone()
    }

    /// Whether this part of a partition has failed.
    pub fn has_failed(&self, partition: Partition, part: PartitionPart) -> bool {
        let known = self.known();
        let parts = known.partitions.get(&partition);
        parts.is_some_and(|parts| parts.contains_key(&part))
    }

    /// The partitions that have failed, each with all of its reasons.
    pub fn failed(&self) -> Vec<FailedPartition> {
        let known = self.known();
        let failed = known
            .partitions
            .iter()
            .map(|(partition, parts)| FailedPartition {
                partition: *partition,
                reason: parts.values().cloned().collect::<Vec<_>>().join("; "),
            });
        failed.collect()
    }
}

fn publish(known: &Known) {
    metrics::gauge!("countd_partitions_failed").set(known.partitions.len() as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_failed_until_all_of_its_parts_work() {
        let health = Health::default();
        assert!(health.fail(7, PartitionPart::Log, "no stream"));
        assert!(!health.fail(7, PartitionPart::Log, "no number"));
        health.fail(7, PartitionPart::Outbox, "no stream either");
        health.fail(3, PartitionPart::Log, "it");
        let reason = "no number; no stream either".to_owned();
        let seven = FailedPartition {
            partition: 7,
            reason,
        };
        assert_eq!(health.failed()[1], seven);
        health.keep(|partition| partition == 7);
        health.recover(7, PartitionPart::Log);
        assert!(
            !health.has_failed(7, PartitionPart::Log)
                && health.has_failed(7, PartitionPart::Outbox)
        );
        health.recover(7, PartitionPart::Outbox);
        assert_eq!(health.failed(), []);
    }
}
