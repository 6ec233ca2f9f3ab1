//! Failed partitions and their reasons. The consumer reports failures; `/readyz`, the metrics and the log show them.

use crate::domain::keys::Partition;
use crate::domain::sweep_ages::SweepAges;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The part of a partition that a failure affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartitionPart {
    /// The log or the position: the partition is not read.
    Log,
    /// The topic, or the position in it: its records are not read.
    Topic,
    /// The dead-letter stream: an event that cannot be counted blocks later events.
    DeadLetters,
    /// The outbox: derived events for other partitions cannot be written.
    Outbox,
    /// The delivery of outbox entries to other partitions.
    Delivery,
}

/// A partition that has failed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct FailedPartition {
    /// The partition.
    #[schema(value_type = u16)]
    pub partition: Partition,
    /// The reasons, separated by semicolons.
    pub reason: String,
}

#[derive(Default)]
struct HealthState {
    partitions: BTreeMap<Partition, BTreeMap<PartitionPart, String>>,
    consumer_problem: Option<String>,
    archive_problem: Option<String>,
    topic_problem: Option<String>,
    is_stopping: bool,
}

/// The health of the partitions assigned to this process, and the ages of its sweeps. Cheap to clone.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<HealthState>>, SweepAges);

impl Health {
    fn lock(&self) -> MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ages of the sweeps of this process.
    pub fn sweeps(&self) -> &SweepAges {
        &self.1
    }

    /// Marks a part of a partition as failed. Returns true if it had not failed before.
    pub fn fail(&self, partition: Partition, part: PartitionPart, reason: &str) -> bool {
        let mut state = self.lock();
        let parts = state.partitions.entry(partition).or_default();
        let previous = parts.insert(part, reason.to_owned());
        if previous.as_deref() != Some(reason) {
            tracing::error!(partition, reason, "a partition has failed");
        }
        update_gauge(&state);
        previous.is_none()
    }

    /// Marks a part of a partition as working.
    pub fn recover(&self, partition: Partition, part: PartitionPart) {
        let mut state = self.lock();
        let Some(parts) = state.partitions.get_mut(&partition) else {
            return;
        };
        if parts.remove(&part).is_some() && parts.is_empty() {
            state.partitions.remove(&partition);
            tracing::info!(partition, "partition recovered");
        }
        update_gauge(&state);
    }

    /// Drops the state of partitions that are assigned to other processes now.
    pub fn retain(&self, is_assigned: impl Fn(Partition) -> bool) {
        let mut state = self.lock();
        state
            .partitions
            .retain(|partition, _| is_assigned(*partition));
        update_gauge(&state);
    }

    /// The process is going to stop, so load balancers should send no further requests.
    pub fn set_stopping(&self) {
        self.lock().is_stopping = true;
    }

    /// Whether the process is going to stop.
    pub fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    /// Sets the reason why the consumer has no assignment; `None` if it has one.
    pub fn set_consumer_problem(&self, problem: Option<String>) {
        self.lock().consumer_problem = problem;
    }

    /// The reason why the consumer has no assignment.
    pub fn consumer_problem(&self) -> Option<String> {
        self.lock().consumer_problem.clone()
    }

    /// Sets the reason why entries cannot be archived; `None` if they can.
    pub fn set_archive_problem(&self, problem: Option<String>) {
        self.lock().archive_problem = problem;
    }

    /// The reason why entries cannot be archived. Counting goes on, and the logs keep the entries.
    pub fn archive_problem(&self) -> Option<String> {
        self.lock().archive_problem.clone()
    }

    /// Sets the reason why the topic is not reachable; `None` if it is.
    pub fn set_topic_problem(&self, problem: Option<String>) {
        self.lock().topic_problem = problem;
    }

    /// The reason why the topic is not reachable. Events in streams are counted without it.
    pub fn topic_problem(&self) -> Option<String> {
        self.lock().topic_problem.clone()
    }

    /// Whether this part of any partition has failed.
    pub fn has_any_failed(&self, part: PartitionPart) -> bool {
        let state = self.lock();
        let mut partitions = state.partitions.values();
        partitions.any(|parts| parts.contains_key(&part))
    }

    /// Whether a part of a partition has failed.
    pub fn has_failed(&self, partition: Partition, part: PartitionPart) -> bool {
        let state = self.lock();
        let parts = state.partitions.get(&partition);
        parts.is_some_and(|parts| parts.contains_key(&part))
    }

    /// The failed partitions with all their reasons.
    pub fn failed(&self) -> Vec<FailedPartition> {
        let state = self.lock();
        let failed = state
            .partitions
            .iter()
            .map(|(partition, parts)| FailedPartition {
                partition: *partition,
                reason: parts.values().cloned().collect::<Vec<_>>().join("; "),
            });
        failed.collect()
    }
}

fn update_gauge(state: &HealthState) {
    metrics::gauge!("countd_partitions_failed").set(state.partitions.len() as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_failed_until_all_of_its_parts_recover() {
        let health = Health::default();
        assert!(health.fail(7, PartitionPart::Log, "not a stream"));
        assert!(!health.fail(7, PartitionPart::Log, "not a number"));
        health.fail(7, PartitionPart::Outbox, "not a stream either");
        health.fail(3, PartitionPart::Log, "damaged");
        let reason = "not a number; not a stream either".to_owned();
        let seven = FailedPartition {
            partition: 7,
            reason,
        };
        assert_eq!(health.failed()[1], seven);
        health.retain(|partition| partition == 7);
        health.recover(7, PartitionPart::Log);
        assert!(
            !health.has_failed(7, PartitionPart::Log)
                && health.has_failed(7, PartitionPart::Outbox)
        );
        health.recover(7, PartitionPart::Outbox);
        assert_eq!(health.failed(), []);
    }
}
