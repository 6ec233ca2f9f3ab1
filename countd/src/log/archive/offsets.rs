//! How far logs are archived, as Redis knows it. A log is trimmed only up to there.

use super::super::entry::LogEntry;
use super::super::holds;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::inspect::parse_offset;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::sync::LazyLock;

/// Advances archived offsets.
static ADVANCE: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/archive_advance.lua")));

/// Commands that this file sends.
pub const PERMISSIONS: &[&str] = &["HMGET {archived} 0", "HMGET {hold} 0"];

/// The maximum number of partitions per call of the script, which blocks the server.
const MAX_PARTITIONS: usize = 100;
/// The number of bytes of the payload of an entry that are compared.
const MAX_COMPARED: usize = 64 * 1024;

/// A range of a partition that was archived.
pub struct ArchivedRange {
    /// The partition.
    pub partition: Partition,
    /// The first offset.
    pub from: u64,
    /// The offset after the last one.
    pub next: u64,
    /// The last entry, if the range has one.
    pub last: Option<LogEntry>,
}

/// The permissions that [`advance`] requires.
pub fn advance_permissions() -> Permissions {
    ADVANCE.required_permissions()
}

/// How far partitions are archived; `None` for a partition that never was.
///
/// # Errors
/// The store is unavailable.
pub async fn load(store: &Store, partitions: &[Partition]) -> Result<Vec<Option<u64>>, StoreError> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let keys = store.keys();
    let mut pipe = redis::pipe();
    for chunk in partitions.chunks(keys.partitions_per_hash()) {
        pipe.cmd("HMGET").arg(keys.archived(chunk[0])).arg(chunk);
    }
    let stored: Vec<Vec<Option<Vec<u8>>>> = pipe.query_async(&mut store.reads()).await?;
    let stored = stored.into_iter().flatten().zip(partitions);
    stored
        .map(|(stored, partition)| match stored {
            None => Ok(None),
            Some(stored) => match parse_offset(&stored) {
                Some(offset) => Ok(Some(offset)),
                None => Err(StoreError::Unexpected(format!(
                    "field {partition} of {} is not an offset",
                    keys.archived(*partition)
                ))),
            },
        })
        .collect()
}

/// The first offsets that a rebuild needs from the logs of partitions.
///
/// # Errors
/// The store is unavailable.
pub async fn holds(
    store: &Store,
    partitions: &[Partition],
) -> Result<Vec<Option<u64>>, StoreError> {
    holds::load(store, partitions, |keys, partition| {
        keys.archive_hold(partition)
    })
    .await
}

/// Records that ranges are archived. Returns whether each was the next one of its partition, in the same order.
///
/// # Errors
/// The store is unavailable. Some ranges may have been recorded.
pub async fn advance(store: &Store, ranges: &[ArchivedRange]) -> Result<Vec<bool>, StoreError> {
    let keys = store.keys();
    let max = if keys.tagged() { 1 } else { MAX_PARTITIONS };
    let mut advanced = Vec::with_capacity(ranges.len());
    for chunk in ranges.chunks(max) {
        let first = chunk[0].partition;
        let mut all = vec![
            keys.archived(first),
            keys.position(first),
            keys.archive_hold(first),
        ];
        for range in chunk {
            all.extend([keys.log(range.partition), keys.outcomes(range.partition)]);
        }
        let mut call = RedisCall::script(&ADVANCE, &all);
        for range in chunk {
            let cmd = call.cmd.arg(range.partition).arg(range.from);
            cmd.arg(range.next);
            match &range.last {
                None => cmd.arg("").arg(""),
                Some(entry) => {
                    let compared = entry.payload.len().min(MAX_COMPARED);
                    cmd.arg(entry.offset).arg(&entry.payload[..compared])
                }
            };
        }
        let reply = call.send(store).await?;
        let reply = Vec::<bool>::from_redis_value(reply);
        advanced.extend(reply.map_err(|error| StoreError::Unexpected(error.to_string()))?);
    }
    Ok(advanced)
}
