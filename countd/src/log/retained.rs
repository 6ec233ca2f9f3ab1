//! What stays of the counted entries of logs, in bytes: the server bounds only how many there are.

use super::Counted;
use crate::domain::error::StoreError;
use crate::redis::store::Store;

/// Removes counted entries of each log that has more than `most` bytes, until it has not, or none is left: first those beyond the
/// last `keep`, then half of these, and so on.
///
/// # Errors
/// The store cannot be asked. What was removed is gone.
pub(super) async fn shrink(
    store: &Store,
    mut logs: Vec<Counted>,
    mut keep: u64,
    most: u64,
) -> Result<(), StoreError> {
    while !logs.is_empty() {
        let mut pipe = redis::pipe();
        for counted in &logs {
            let log = store.keys().log(counted.partition);
            let from = counted.next.saturating_sub(keep);
            pipe.cmd("XTRIM").arg(&log).arg("MINID");
            pipe.arg(format!("0-{from}")).ignore();
            // All of its nodes: a sample may miss the long entries.
            pipe.cmd("MEMORY").arg("USAGE").arg(&log);
            pipe.arg(&["SAMPLES", "0"]);
        }
        let sizes: Vec<Option<u64>> = pipe.query_async(&mut store.commands()).await?;
        let mut sizes = sizes.into_iter();
        logs.retain(|_| sizes.next().flatten().is_some_and(|size| size > most));
        if keep == 0 {
            break;
        }
        keep /= 2;
    }
    Ok(())
}
