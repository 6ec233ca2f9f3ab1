//! Entries that others appended to a log under ids of their own.

use crate::log::{Log, Stretch};
use crate::store::StoreError;

/// Gives those that are next in their log an offset, so that they can be read. True: those of some log cannot get one now; what is
/// in the other logs is counted all the same.
pub async fn renumber<L: Log>(log: &L, found: &[Stretch]) -> bool {
    let mut is_stuck = false;
    for found in found {
        if !(found.is_cut && found.entries.is_empty()) {
            continue;
        }
        let partition = found.partition;
        let Err(why) = log.renumber(partition).await else {
            continue;
        };
        is_stuck = true;
        metrics::counter!("countd_consumer_retries_total").increment(1);
        let what = "a log has entries with ids of others, and cannot be mended";
        match why {
            StoreError::Unavailable(why) => tracing::warn!(partition, error = %why, "{what} now"),
            why => tracing::error!(partition, error = %why, "{what}"),
        }
    }
    is_stuck
}
