//! Archives past days: moves their counts to another Hash, which readers add, and deletes their streams.

use super::pass::KeyPass;
use crate::domain::config::{Config, Reads};
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::keys::KeyTemplate;
use crate::redis::call::RedisCall;
use crate::redis::script::{DAY_COUNTS, ScriptTemplate};
use crate::redis::store::Store;
use redis::FromRedisValue;

pub(super) static ARCHIVE: ScriptTemplate =
    ScriptTemplate::writing(&[DAY_COUNTS, include_str!("../../lua/days_archive.lua")]);

/// Archives the past days of all entities once.
pub(super) async fn archive(store: &Store, config: &Config) -> Result<(), StoreError> {
    let first_kept = config.days.calendar().first_kept(now_ms());
    let layout = store.keys();
    let mut pass = KeyPass::new(store, layout.days_pattern())?;
    while let Some(keys) = pass.next_page().await? {
        let mut calls = Vec::new();
        for key in keys {
            let Some(of) = layout.parse_days(&key).filter(|of| !of.is_history) else {
                continue;
            };
            let metric = config.metrics.get(of.metric.as_str());
            let is_streamed = metric.is_some_and(|(_, metric)| metric.reads == Some(Reads::Stream));
            let streams = match is_streamed {
                true => layout.read_streams(&of.metric, &of.entity),
                false => KeyTemplate {
                    prefix: String::new(),
                    suffix: String::new(),
                },
            };
            let history = layout.history_of(&of.metric, &of.entity);
            let mut call = RedisCall::script(ARCHIVE.on(store.backend()), &[&key, &history]);
            call.cmd.arg(first_kept);
            call.cmd.arg(streams.prefix).arg(streams.suffix);
            calls.push((key, call));
        }
        for (key, call) in calls {
            archive_entity(store, &key, &call).await?;
        }
    }
    Ok(())
}

/// Archives the past days of an entity. A damaged key is skipped.
async fn archive_entity(store: &Store, key: &str, call: &RedisCall) -> Result<(), StoreError> {
    loop {
        let reply = match call.send(store).await.map_err(StoreError::from) {
            Err(error @ StoreError::Unavailable(_)) => return Err(error),
            Err(error) => {
                tracing::warn!(key, %error, "days cannot be archived");
                return Ok(());
            }
            Ok(reply) => reply,
        };
        let (moved, has_more) = <(u64, bool)>::from_redis_value(reply)
            .map_err(|error| StoreError::Unexpected(format!("archiving days: {error}")))?;
        metrics::counter!("countd_days_archived_total").increment(moved);
        if !has_more {
            return Ok(());
        }
    }
}
