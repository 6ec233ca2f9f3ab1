//! Checks partitions: repairs logs that can be renumbered, and records in [`Health`] which partitions have failed.

use crate::domain::error::{StoreError, rejected_by_foreign_last_id};
use crate::domain::health::{Health, PartitionPart};
use crate::domain::keys::Partition;
use crate::log::inspect::{LogState, PartitionState, inspect};
use crate::log::renumber;
use crate::redis::store::Store;

/// The lag of a partition.
#[derive(Debug)]
pub struct PartitionLag {
    /// The partition.
    pub partition: Partition,
    /// Its position.
    pub next: u64,
    /// The number of entries from there on.
    pub entries: u64,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct HealthReport {
    /// The lags of the partitions for which it is known.
    pub lags: Vec<PartitionLag>,
    /// The number of partitions that have failed since the last check.
    pub newly_failed: usize,
}

/// Whether the server rejected a command because of the value at a key.
pub fn is_damage(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable(error) => rejected_by_foreign_last_id(error),
        error => error.is_server_reply(),
    }
}

/// Checks partitions. Renumbered partitions are checked a second time.
pub async fn check_partitions(
    store: &Store,
    health: &Health,
    partitions: &[Partition],
) -> HealthReport {
    let mut report = HealthReport::default();
    let renumbered = check_once(store, health, partitions, &mut report).await;
    if !renumbered.is_empty() {
        check_once(store, health, &renumbered, &mut report).await;
    }
    report
}

/// Checks partitions. Partitions with foreign IDs are renumbered instead, and returned.
async fn check_once(
    store: &Store,
    health: &Health,
    partitions: &[Partition],
    report: &mut HealthReport,
) -> Vec<Partition> {
    let mut renumbered = Vec::new();
    let inspection = inspect(store, partitions).await;
    if let Some(error) = inspection.error {
        tracing::warn!(%error, "cannot inspect some partitions");
    }
    for (partition, state) in inspection.states {
        let problem = match state.log_state() {
            LogState::Healthy(entries) => {
                let next = state.position.clone().unwrap_or(1);
                report.lags.push(PartitionLag {
                    partition,
                    next,
                    entries,
                });
                None
            }
            LogState::Failed(reason) => Some(reason),
            LogState::Restarted(reason) => {
                // The renumbering script closes a restarted log and replies with an error, which is `Unavailable`.
                match renumber(store, partition).await {
                    Ok(_) => {
                        renumbered.push(partition);
                        continue;
                    }
                    Err(StoreError::Unavailable(_)) => {}
                    Err(error) => {
                        tracing::error!(partition, %error, "cannot close a log that was restarted");
                    }
                }
                Some(reason)
            }
            LogState::Disordered => match renumber(store, partition).await {
                Ok(_) => {
                    renumbered.push(partition);
                    continue;
                }
                Err(StoreError::Unavailable(error)) if error.code().is_none() => continue,
                Err(error) => Some(format!("its log cannot be renumbered: {error}")),
            },
        };
        let is_newly_failed = match &problem {
            Some(reason) => health.fail(partition, PartitionPart::Log, reason),
            None => {
                health.recover(partition, PartitionPart::Log);
                false
            }
        };
        report.newly_failed += usize::from(is_newly_failed);
        check_other_parts(health, &state, report);
    }
    renumbered
}

/// Checks the parts of a partition other than its log.
fn check_other_parts(health: &Health, state: &PartitionState, report: &mut HealthReport) {
    let partition = state.partition;
    match &state.outbox {
        Some(reason) => {
            let is_new = health.fail(partition, PartitionPart::Outbox, reason);
            report.newly_failed += usize::from(is_new);
        }
        None => health.recover(partition, PartitionPart::Outbox),
    }
    // A damaged dead-letter stream fails the partition only when there is a dead letter to write.
    if state.dead.is_none() {
        health.recover(partition, PartitionPart::DeadLetters);
    }
}
