//! Compaction moves the users of past days from the days' Sets to the compacted facts.
//!
//! Each call moves some users atomically, and the call that empties a day's Set also removes the day from the indexes. Compaction can
//! therefore be interrupted at any time, several processes can compact one day, and facts can change meanwhile.

use super::daily::{DailyFacts, facts_name};
use crate::domain::config::{Config, FactKind};
use crate::domain::day;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, ScriptTemplate};
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

static COMPACT: ScriptTemplate = ScriptTemplate::writing(&[include_str!("../lua/compact.lua")]);
/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["ZRANGEBYSCORE {partition_days} 0 0"];

/// The maximum number of users per script call. The script blocks the server.
const USERS_PER_CALL: usize = 1_000;
/// The number of days that are read at once.
const PAGE: usize = 100;

/// The permissions that compaction requires.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    Permissions::of_commands(PERMISSIONS).and(COMPACT.required_permissions(backend))
}

/// Compacts past days of the assigned partitions at the configured interval, until `stop` turns true.
pub async fn run(
    store: Store,
    config: Arc<Config>,
    assigned: watch::Receiver<Arc<Vec<Partition>>>,
    mut stop: watch::Receiver<bool>,
) {
    let mut metrics = config.metrics.iter();
    if !metrics.any(|(_, metric)| metric.fact_kind() == Some(FactKind::Daily)) {
        return;
    }
    let interval = Duration::from_secs(config.facts.compaction_interval_seconds);
    let rounds = async {
        loop {
            tokio::time::sleep(interval).await;
            let partitions = Arc::clone(&assigned.borrow());
            if let Err(error) = compact(&store, config.facts.days, &partitions).await {
                tracing::warn!(%error, "past days cannot be compacted now");
            }
        }
    };
    tokio::select! {
        () = rounds => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

async fn compact(store: &Store, days: u16, partitions: &[Partition]) -> Result<(), StoreError> {
    let until = day::before(now_ms(), days);
    for partition in partitions {
        // Days that cannot be compacted are skipped.
        let mut skipped = 0;
        loop {
            let page: Vec<String> = redis::cmd("ZRANGEBYSCORE")
                .arg(store.keys().days(*partition))
                .arg("-inf")
                .arg(until)
                .arg("LIMIT")
                .arg(skipped)
                .arg(PAGE)
                .query_async(&mut store.commands())
                .await?;
            if page.is_empty() {
                break;
            }
            for indexed in &page {
                match compact_day(store, indexed).await {
                    Ok(()) => {}
                    Err(error @ StoreError::Unavailable(_)) => return Err(error),
                    Err(error) => {
                        tracing::warn!(day = %indexed, %error, "a day cannot be compacted");
                        skipped += 1;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Compacts the rest of an entity's day, as the partition's index names it: `{yyyymmdd}:{metric}:{etype}:{eid}`.
async fn compact_day(store: &Store, indexed: &str) -> Result<(), StoreError> {
    let (keys, backend) = (store.keys(), store.backend());
    let (day, metric, entity) = parse(indexed)
        .ok_or_else(|| StoreError::Unexpected("a day that countd did not write".to_owned()))?;
    let keys = DailyFacts { keys, backend }.keys_of(&metric, &entity, day);
    loop {
        let mut call = RedisCall::script(COMPACT.on(store.backend()), &keys);
        call.cmd.arg(day).arg(facts_name(&metric, &entity));
        call.cmd.arg(USERS_PER_CALL);
        let reply = call.send(store).await?;
        let (moved, is_empty) = <(u64, bool)>::from_redis_value(reply)
            .map_err(|error| StoreError::Unexpected(format!("the compaction of a day: {error}")))?;
        metrics::counter!("countd_facts_compacted_total").increment(moved);
        if is_empty {
            return Ok(());
        }
    }
}

fn parse(indexed: &str) -> Option<(u64, Name, Entity)> {
    let mut parts = indexed.split(':');
    let day = parts.next()?.parse().ok()?;
    let metric = Name::new(parts.next()?).ok()?;
    let etype = Name::new(parts.next()?).ok()?;
    let eid = Id::new(parts.next()?).ok()?;
    parts.next().is_none().then_some(())?;
    Some((day, metric, Entity { etype, eid }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_entries_are_parsed() {
        let (day, metric, entity) = parse("20261231:like:note:a.7").expect("a day");
        assert_eq!(
            format!("{day}:{}", facts_name(&metric, &entity)),
            "20261231:like:note:a.7"
        );
        for bad in [
            "",
            "20261231",
            "x:like:note:1",
            "1:like:note",
            "1:like:note:1:2",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
