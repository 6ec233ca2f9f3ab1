//! Limits the bytes of counted entries that logs retain: Redis limits only their number.

use super::entry::Acknowledgement;
use crate::domain::error::StoreError;
use crate::redis::store::Store;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["XTRIM {log} MINID 0-1", "MEMORY USAGE {log} SAMPLES 0"];

/// Trims counted entries of each log larger than `max_bytes`: to the last `retain` entries, then to an eighth of them, and so on, until
/// the log is small enough or no counted entry is left. While a log has many uncounted entries, all steps are needed.
///
/// # Errors
/// The store is unavailable. Some logs may have been trimmed.
pub(super) async fn trim_to_bytes(
    store: &Store,
    mut logs: Vec<Acknowledgement>,
    mut retain: u64,
    max_bytes: u64,
) -> Result<(), StoreError> {
    while !logs.is_empty() {
        let mut pipe = redis::pipe();
        for counted in &logs {
            let log = store.keys().log(counted.partition);
            let from = counted.next.saturating_sub(retain);
            pipe.cmd("XTRIM").arg(&log).arg("MINID");
            pipe.arg(format!("0-{from}")).ignore();
            // SAMPLES 0 measures all nodes of the stream: a sample could miss the large entries.
            pipe.cmd("MEMORY").arg("USAGE").arg(&log);
            pipe.arg(&["SAMPLES", "0"]);
        }
        let sizes: Vec<Option<u64>> = pipe.query_async(&mut store.commands()).await?;
        let mut sizes = sizes.into_iter();
        logs.retain(|_| sizes.next().flatten().is_some_and(|size| size > max_bytes));
        if retain == 0 {
            break;
        }
        retain /= 8;
    }
    Ok(())
}
