//! Removes a user from the latest users of entities.

use super::context::Erasure;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::Id;
use crate::maintenance::jobs::Lease;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, LoadedScript};
use redis::{FromRedisValue, RedisError, Value};
use std::sync::LazyLock;

/// Removes a user from a table.
static REMOVE: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/latest_remove.lua")));

/// The permissions to remove users. Only data of the module has tables.
pub(super) fn required_permissions(backend: CounterBackend) -> Permissions {
    let sets = Permissions::of_commands(&["ZREM {latest} m"]);
    match backend.has_tables() {
        true => sets.and(REMOVE.required_permissions()),
        false => sets,
    }
}

impl Erasure {
    /// Removes a user from tables and sorted sets of latest users. Those of metrics that are no longer ordered by time do not follow
    /// the facts.
    pub(super) async fn remove_latest_user(
        &self,
        lease: &mut Lease,
        uid: &Id,
        keys: &[(Vec<u8>, bool)],
    ) -> Result<(), Problem> {
        let has_rows = self.store.backend().has_tables() && uid.number().is_some();
        let keys: Vec<_> = keys
            .iter()
            .filter(|(_, is_table)| !is_table || has_rows)
            .collect();
        if keys.is_empty() {
            return Ok(());
        }
        let mut pipeline = redis::pipe();
        pipeline.cmd("SCRIPT").arg("LOAD").arg(&REMOVE.source);
        for (key, is_table) in &keys {
            match is_table {
                true => {
                    let eval = pipeline.cmd("EVALSHA").arg(REMOVE.script.get_hash());
                    eval.arg(1).arg(key).arg(uid.as_str());
                }
                false => {
                    pipeline.cmd("ZREM").arg(key).arg(uid.as_str());
                }
            }
        }
        pipeline.ignore_errors();
        let replies: Vec<Result<Value, RedisError>> =
            pipeline.query_async(&mut self.store.commands()).await?;
        for ((key, _), reply) in keys.into_iter().zip(replies.into_iter().skip(1)) {
            match reply.map_err(StoreError::from) {
                Ok(reply) => {
                    let removed = u64::from_redis_value(reply)
                        .map_err(|error| StoreError::Unexpected(error.to_string()))?;
                    lease.job.progress.is_dirty |= removed > 0;
                }
                Err(StoreError::WrongType(_)) => {
                    lease.job.progress.damaged += 1;
                    let key = String::from_utf8_lossy(key);
                    tracing::warn!(key = %key, "the latest users cannot be read");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
