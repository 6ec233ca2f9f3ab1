//! Holds: the first offsets that a reader of counted entries still needs. Entries from there on are not trimmed until the hold expires.

use crate::domain::error::StoreError;
use crate::domain::keys::{Keys, Partition};
use crate::redis::call::RedisCall;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use std::sync::LazyLock;
use std::time::Duration;

/// Commands that read the holds of sinks.
pub(super) const READ_PERMISSIONS: &[&str] = &["HMGET {sink} 0"];
/// Sets holds of sinks.
pub(super) static HOLD: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../lua/sink_hold.lua")));

/// The offsets in Hashes with a field for each partition.
///
/// # Errors
/// The store is unavailable.
pub(super) async fn load(
    store: &Store,
    partitions: &[Partition],
    key: impl Fn(Keys, Partition) -> String,
) -> Result<Vec<Option<u64>>, StoreError> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let keys = store.keys();
    let mut pipe = redis::pipe();
    for chunk in partitions.chunks(keys.partitions_per_hash()) {
        pipe.cmd("HMGET").arg(key(keys, chunk[0])).arg(chunk);
    }
    let stored: Vec<Vec<Option<u64>>> = pipe.query_async(&mut store.reads()).await?;
    Ok(stored.into_iter().flatten().collect())
}

/// The first offsets that a sink has not read. Empty if no sink uses the data.
///
/// # Errors
/// The store is unavailable.
pub async fn of_sinks(
    store: &Store,
    partitions: &[Partition],
) -> Result<Vec<Option<u64>>, StoreError> {
    match store.layout().sinks {
        true => {
            load(store, partitions, |keys, partition| {
                keys.sink_hold(partition)
            })
            .await
        }
        false => Ok(Vec::new()),
    }
}

/// Sets the first offsets that a sink has not read. All holds in the same Hash expire after `lifetime`, in seconds.
///
/// # Errors
/// The store is unavailable. Some holds may have been set.
pub async fn hold_for_sink(
    store: &Store,
    offsets: &[(Partition, u64)],
    lifetime: Duration,
) -> Result<(), StoreError> {
    if offsets.is_empty() {
        return Ok(());
    }
    let keys = store.keys();
    for chunk in offsets.chunks(keys.partitions_per_hash()) {
        let mut call = RedisCall::script(&HOLD, &[keys.sink_hold(chunk[0].0)]);
        call.cmd.arg(lifetime.as_secs().max(1)).arg(chunk);
        call.send(store).await?;
    }
    Ok(())
}
