//! Entries that others appended to a log under ids of their own.

use crate::log::{Log, Stretch};
use crate::store::StoreError;

/// Gives those that are next in their log an offset, so that they can be read. True: those of some log cannot get one; what is in
/// the other logs is counted all the same.
///
/// # Errors
/// The store is not available.
pub async fn renumber<L: Log>(log: &L, found: &[Stretch]) -> Result<bool, StoreError> {
    let mut is_stuck = false;
    for found in found {
        if !(found.is_cut && found.entries.is_empty()) {
            continue;
        }
        let partition = found.partition;
        match log.renumber(partition).await {
            Ok(_) => {}
            Err(why @ StoreError::Unavailable(_)) => return Err(why),
            Err(why) => {
                is_stuck = true;
                metrics::counter!("countd_consumer_retries_total").increment(1);
                tracing::error!(partition, error = %why, "a log has entries with ids of others, and cannot be mended");
            }
        }
    }
    Ok(is_stuck)
}
