//! Limits the bytes of counted entries that logs retain: Redis limits only their number.

use super::entry::Acknowledgement;
use super::holds;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::redis::call::RedisCall;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::sync::LazyLock;

/// Trims counted entries some time after they were counted.
pub(super) static TRIM: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../lua/log_trim.lua")));

/// The maximum number of logs per call of the script, which blocks the server.
const MAX_LOGS: usize = 100;
/// The maximum number of calls in flight.
const MAX_IN_FLIGHT: usize = 16;

/// A log with counted entries to trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedLog {
    /// Its partition.
    pub partition: Partition,
    /// How many counted entries are retained.
    pub retain: u64,
}

/// Trims counted entries of logs, at any time after they were counted.
///
/// # Errors
/// The store is unavailable or rejects the script. Some logs may have been trimmed.
pub async fn trim_counted(store: &Store, logs: &[CountedLog]) -> Result<(), StoreError> {
    let keys = store.keys();
    let max = if keys.tagged() { 1 } else { MAX_LOGS };
    let partitions: Vec<Partition> = logs.iter().map(|log| log.partition).collect();
    let mut held = holds::of_sinks(store, &partitions).await?;
    // Without sinks there are none.
    held.resize(logs.len(), None);
    let calls = logs.chunks(max).zip(held.chunks(max)).map(|(logs, held)| {
        let mut all = vec![keys.position(logs[0].partition)];
        all.extend(logs.iter().map(|log| keys.log(log.partition)));
        let mut call = RedisCall::script(&TRIM, &all);
        for (log, held) in logs.iter().zip(held) {
            let held = held.map(|offset| offset.to_string()).unwrap_or_default();
            call.cmd.arg(log.partition).arg(log.retain).arg(held);
        }
        call
    });
    let calls: Vec<RedisCall> = calls.collect();
    let sent = stream::iter(calls).map(|call| async move { call.send(store).await.map(drop) });
    Ok(sent
        .buffer_unordered(MAX_IN_FLIGHT)
        .try_collect::<()>()
        .await?)
}

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
