//! Objects that may be too short: the last counters that they have at least are read as 0.

use super::rebuild::Rebuilder;
use crate::domain::error::StoreError;
use crate::domain::ids::Entity;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use redis::{FromRedisValue, RedisError, Value};
use std::time::Instant;

/// Commands that this file sends to data with the module. Without it, a read tells the length.
const PERMISSIONS: &[&str] = &["CINT.LEN {counters}"];

/// An object that may be too short.
#[derive(Clone, Copy, Debug)]
pub struct SuspectObject<'a> {
    /// The entity, or the user.
    pub entity: &'a Entity,
    /// The key of its counters.
    pub key: &'a str,
    /// The minimum number of counters.
    pub min_len: usize,
}

impl Rebuilder {
    /// The permissions that [`too_short`](Rebuilder::too_short) requires.
    pub(super) fn length_permissions(backend: CounterBackend) -> Permissions {
        Permissions::of_commands(match backend {
            CounterBackend::Module => PERMISSIONS,
            // The length of a reply tells that of a counter.
            _ => &[],
        })
    }

    /// Whether objects have fewer counters than the minimum. Objects that are long enough are remembered.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn too_short(&self, objects: &[SuspectObject<'_>]) -> Result<Vec<bool>, StoreError> {
        let (shared, now) = (self.shared(), Instant::now());
        let mut found = vec![false; objects.len()];
        let (mut asked, mut pipeline) = (Vec::new(), redis::pipe());
        for (at, object) in objects.iter().enumerate() {
            if !shared.long_enough.contains(object.entity, now) {
                pipeline.cmd("CINT.LEN").arg(object.key);
                asked.push(at);
            }
        }
        if asked.is_empty() {
            return Ok(found);
        }
        pipeline.ignore_errors();
        let lengths: Vec<Result<Value, RedisError>> =
            pipeline.query_async(&mut shared.store.reads()).await?;
        for (at, length) in asked.into_iter().zip(lengths) {
            // The key may have got another type meanwhile: the next read finds that.
            let length = length
                .ok()
                .and_then(|len| usize::from_redis_value(len).ok());
            let length = length.unwrap_or_default();
            found[at] = length > 0 && length < objects[at].min_len;
            if length >= objects[at].min_len {
                shared.long_enough.add(objects[at].entity, now);
            }
        }
        Ok(found)
    }
}
