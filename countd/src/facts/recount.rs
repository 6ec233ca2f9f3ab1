//! Counts the facts of large bitmaps, which a script cannot count in one step (`recount.lua`).
//!
//! A recount is a Hash beside the facts. Its sum is the number of facts in the chunks that were counted, in every step, since changes of
//! these facts change it. When all chunks were counted, scripts take the sum as the number of facts of their own step, until the Hash expires.
//! So a comparison after a recount is as exact as one that counts the facts itself. A process that ends in the midst loses nothing: any other
//! one continues.

use super::card::{CardSource, MAX_CHUNKS};
use crate::domain::error::StoreError;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, SOURCES, ScriptTemplate};
use crate::redis::store::Store;
use redis::{FromRedisValue, RedisError, Value};

static STEP: ScriptTemplate =
    ScriptTemplate::writing(&[SOURCES, include_str!("../lua/recount.lua")]);
/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["ZCARD {chunks}"];

/// The part of the key of the Hash that takes the place of the number of a chunk.
pub(super) const RECOUNT: &str = "recount";
/// The maximum number of steps: all chunks twice, in case the Hash expires once.
const MAX_STEPS: u32 = 2 * 131_072 / 512;

/// The permissions that [`recount`] requires.
pub fn recount_permissions(backend: CounterBackend) -> Permissions {
    Permissions::of_commands(PERMISSIONS).and(STEP.required_permissions(backend))
}

/// Counts those of these facts that scripts cannot count in one step. Facts that are damaged stay uncounted.
///
/// # Errors
/// The store is unavailable.
pub async fn recount<'s>(
    store: &Store,
    sources: impl IntoIterator<Item = &'s CardSource>,
) -> Result<(), StoreError> {
    let sources = sources.into_iter();
    let bits: Vec<_> = sources.filter_map(CardSource::chunks).collect();
    if bits.is_empty() {
        return Ok(());
    }
    let mut pipeline = redis::pipe();
    for (index, _) in &bits {
        pipeline.cmd("ZCARD").arg(index);
    }
    pipeline.ignore_errors();
    let sizes: Vec<Result<Value, RedisError>> = pipeline.query_async(&mut store.reads()).await?;
    for ((index, chunks), size) in bits.iter().zip(sizes) {
        let size = size.map(|size| u64::from_redis_value(size).unwrap_or(0));
        match size.map_err(StoreError::from) {
            Ok(size) if size <= MAX_CHUNKS => continue,
            Err(StoreError::WrongType(_)) => continue,
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        let keys = [(*index).to_owned(), chunks.key(RECOUNT)];
        let mut step = RedisCall::script(STEP.on(store.backend()), &keys);
        step.cmd.arg(&chunks.prefix).arg(&chunks.suffix);
        for _ in 0..MAX_STEPS {
            match step.send(store).await.map_err(StoreError::from) {
                Ok(Value::Int(0)) => {}
                Ok(_) | Err(StoreError::WrongType(_)) => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
