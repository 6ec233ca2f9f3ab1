//! How far the streams were copied to the topic: a field of each partition beside its position.

use super::inspect::parse_offset;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::sync::LazyLock;

/// Commands that this file sends.
pub const PERMISSIONS: &[&str] = &["HMGET {position} 0"];

/// Advances published offsets.
static ADVANCE: LazyLock<LoadedScript> = LazyLock::new(|| {
    let files = [
        include_str!("../lua/server_history.lua"),
        include_str!("../lua/published_advance.lua"),
    ];
    LoadedScript::writing(&files.join("\n"))
});

/// The permissions that [`advance`] requires.
pub fn advance_permissions() -> Permissions {
    ADVANCE.required_permissions()
}

fn field(partition: Partition) -> String {
    format!("published:{partition}")
}

/// The offset of the first entry of each partition that was not copied.
///
/// # Errors
/// The store is unavailable, or a field is damaged.
pub async fn load(store: &Store, partitions: &[Partition]) -> Result<Vec<u64>, StoreError> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let keys = store.keys();
    let mut pipe = redis::pipe();
    for chunk in partitions.chunks(keys.partitions_per_hash()) {
        let fields: Vec<String> = chunk.iter().map(|partition| field(*partition)).collect();
        pipe.cmd("HMGET").arg(keys.position(chunk[0])).arg(fields);
    }
    let stored: Vec<Vec<Option<Vec<u8>>>> = pipe.query_async(&mut store.commands()).await?;
    let stored = stored.into_iter().flatten().zip(partitions);
    stored
        .map(|(stored, partition)| match stored {
            None => Ok(1),
            Some(stored) => parse_offset(&stored).ok_or_else(|| {
                let (key, field) = (keys.position(*partition), field(*partition));
                StoreError::Unexpected(format!("field {field} of {key} is not an offset"))
            }),
        })
        .collect()
}

/// Records up to where a partition was copied. Returns false if the server has another history than `history`: the entries that were copied
/// may not be in the stream any more.
///
/// # Errors
/// The store is unavailable.
pub async fn advance(
    store: &Store,
    partition: Partition,
    next: u64,
    history: &str,
) -> Result<bool, StoreError> {
    let mut call = RedisCall::script(&ADVANCE, &[store.keys().position(partition)]);
    call.cmd.arg(history).arg(field(partition)).arg(next);
    let reply = call.send(store).await?;
    bool::from_redis_value(reply)
        .map_err(|error| StoreError::Unexpected(format!("published_advance: {error}")))
}
