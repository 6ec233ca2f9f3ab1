//! Looks at partitions, puts in order what can be, and records which have failed.

use crate::domain::error::StoreError;
use crate::domain::health::Health;
use crate::domain::health::PartitionPart;
use crate::domain::keys::Partition;
use crate::log::inspect::{LogState, PartitionState, inspect};
use crate::log::renumber;
use crate::redis::store::Store;

/// What was found.
#[derive(Debug, Default)]
pub struct Survey {
    /// The partitions whose lag is known: the position, and how many entries wait.
    pub waiting: Vec<(Partition, u64, u64)>,
    /// How many partitions have failed that had not before.
    pub newly_failed: usize,
    /// Why some could not be looked at.
    pub unknown: Option<StoreError>,
}

/// Looks at these partitions.
pub async fn survey(store: &Store, health: &Health, partitions: &[Partition]) -> Survey {
    let mut survey = Survey::default();
    let mut renumbered = Vec::new();
    look(store, health, partitions, &mut survey, &mut renumbered).await;
    if !renumbered.is_empty() {
        let again = std::mem::take(&mut renumbered);
        look(store, health, &again, &mut survey, &mut renumbered).await;
    }
    survey
}

async fn look(
    store: &Store,
    health: &Health,
    partitions: &[Partition],
    survey: &mut Survey,
    renumbered: &mut Vec<Partition>,
) {
    let inspection = inspect(store, partitions).await;
    if let Some(why) = inspection.error {
        tracing::warn!(error = %why, "some partitions cannot be looked at");
        survey.unknown = Some(why);
    }
    for (partition, found) in inspection.states {
        let problem = match found.log_state() {
            LogState::Healthy(waiting) => {
                let next = found.position.clone().unwrap_or(1);
                survey.waiting.push((partition, next, waiting));
                None
            }
            LogState::Failed(why) => Some(why),
            LogState::Restarted(why) => {
                // It is closed by what would renumber it, and that says so.
                match renumber(store, partition).await {
                    Ok(_) => {
                        renumbered.push(partition);
                        continue;
                    }
                    Err(StoreError::Unavailable(_)) => {}
                    Err(why) => {
                        tracing::error!(partition, error = %why, "a log that begins again cannot be closed");
                    }
                }
                Some(why)
            }
            LogState::Disordered => match renumber(store, partition).await {
                Ok(_) => {
                    renumbered.push(partition);
                    continue;
                }
                Err(StoreError::Unavailable(why)) if why.code().is_none() => {
                    survey.unknown = Some(why.into());
                    continue;
                }
                Err(why) => Some(format!("its log cannot be renumbered: {why}")),
            },
        };
        let is_new = match &problem {
            Some(why) => health.fail(partition, PartitionPart::Log, why),
            None => {
                health.recover(partition, PartitionPart::Log);
                false
            }
        };
        survey.newly_failed += usize::from(is_new);
        others(health, &found, survey);
    }
}

/// What belongs to a partition beside its log.
fn others(health: &Health, found: &PartitionState, survey: &mut Survey) {
    let partition = found.partition;
    match &found.outbox {
        Some(why) => {
            survey.newly_failed += usize::from(health.fail(partition, PartitionPart::Outbox, why))
        }
        None => health.recover(partition, PartitionPart::Outbox),
    }
    // It fails where there is a letter for them.
    if found.dead.is_none() {
        health.recover(partition, PartitionPart::DeadLetters);
    }
}
