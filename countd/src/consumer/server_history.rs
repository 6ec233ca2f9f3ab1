//! The history of the writes of a server. A server that restarts without its last writes, and a replica that becomes the master without the
//! last ones of the old master, have another history. A consumer that holds entries in memory commits them only to the history from which it
//! read them: elsewhere other entries can have their offsets, and would never be counted.

use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::redis::call::{RedisCall, send_reads};
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::sync::{Arc, LazyLock};

/// The function that returns the history.
pub const SERVER_HISTORY: &str = include_str!("../lua/server_history.lua");

static READ: LazyLock<LoadedScript> = LazyLock::new(|| {
    LoadedScript::reading(&[SERVER_HISTORY, include_str!("../lua/history_read.lua")].join("\n"))
});

/// The permissions to load histories.
pub fn required_permissions() -> Permissions {
    READ.required_permissions()
}

/// The history of each server that has one of these partitions, in their order. Costs a script for each, in one round trip.
///
/// # Errors
/// A server is unavailable, or does not say.
pub async fn load(store: &Store, partitions: &[Partition]) -> Result<Vec<Arc<str>>, StoreError> {
    let keys = store.keys();
    let calls = partitions.iter();
    let calls = calls.map(|partition| RedisCall::script(&READ, &[keys.position(*partition)]));
    let calls: Vec<RedisCall> = calls.collect();
    let decode = |reply: Result<redis::Value, redis::RedisError>| {
        let history = String::from_redis_value(reply?)
            .map_err(|error| StoreError::Unexpected(format!("the history: {error}")))?;
        Ok(Arc::from(history))
    };
    let replies = send_reads(store, &calls).await?;
    replies.into_iter().map(decode).collect()
}
