//! Entries with foreign IDs that are next in their log.

use crate::domain::error::StoreError;
use crate::domain::health::{Health, PartitionPart};
use crate::log::{EventLog, PartitionEntries};

/// Gives those that are next in their log an offset, so that they can be read. True: those of some log cannot get one now; what is
/// in the other logs is counted all the same.
pub async fn renumber<L: EventLog>(log: &L, health: &Health, found: &[PartitionEntries]) -> bool {
    let mut is_stuck = false;
    for found in found {
        if !(found.ends_at_foreign_id && found.entries.is_empty()) {
            continue;
        }
        let partition = found.partition;
        let Err(why) = log.renumber(partition).await else {
            continue;
        };
        is_stuck = true;
        metrics::counter!("countd_consumer_retries_total").increment(1);
        match why {
            StoreError::Unavailable(why) if why.code().is_none() => {
                tracing::warn!(partition, error = %why, "a log cannot be renumbered now");
            }
            why => {
                let why = format!("its log cannot be renumbered: {why}");
                health.fail(partition, PartitionPart::Log, &why);
            }
        }
    }
    is_stuck
}
