//! Folding: the Sets of days that are over go where old facts are kept, some users at a time. Each step moves its users as a
//! whole or not at all, and a day is crossed out in the step that empties its Set; so it may stop anywhere, be done by several at
//! once, and users may come and go meanwhile.

use super::daily::name;
use super::{Daily, day};
use crate::domain::config::Config;
use crate::domain::config::FactKind;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::redis::call::RedisCall;
use crate::redis::script::ScriptTemplate;
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

static FOLD: ScriptTemplate = ScriptTemplate::writing(&[include_str!("../lua/fold.lua")]);

/// How many users a step moves: it holds up everybody else while it runs.
const USERS: usize = 1_000;
/// How many days are asked for at once.
const PAGE: usize = 100;

/// Folds what is old in this consumer's share of the partitions, now and then, until `stop` turns true.
pub async fn run(
    store: Store,
    config: Arc<Config>,
    share: watch::Receiver<Arc<Vec<Partition>>>,
    mut stop: watch::Receiver<bool>,
) {
    let mut metrics = config.metrics.iter();
    if !metrics.any(|(_, metric)| metric.fact_kind() == Some(FactKind::Daily)) {
        return;
    }
    let pause = Duration::from_secs(config.facts.compaction_interval_seconds);
    let rounds = async {
        loop {
            tokio::time::sleep(pause).await;
            let mine = Arc::clone(&share.borrow());
            if let Err(why) = fold(&store, config.facts.days, &mine).await {
                tracing::warn!(error = %why, "old days are folded later");
            }
        }
    };
    tokio::select! {
        () = rounds => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

async fn fold(store: &Store, days: u16, partitions: &[Partition]) -> Result<(), StoreError> {
    let until = day::before(now_ms(), days);
    for partition in partitions {
        // What cannot be folded now does not hold up what is behind it.
        let mut left = 0;
        loop {
            let page: Vec<String> = redis::cmd("ZRANGEBYSCORE")
                .arg(store.keys().days(*partition))
                .arg("-inf")
                .arg(until)
                .arg("LIMIT")
                .arg(left)
                .arg(PAGE)
                .query_async(&mut store.commands())
                .await?;
            if page.is_empty() {
                break;
            }
            for old in &page {
                match fold_day(store, old).await {
                    Ok(()) => {}
                    Err(why @ StoreError::Unavailable(_)) => return Err(why),
                    Err(why) => {
                        tracing::warn!(day = %old, error = %why, "a day cannot be folded");
                        left += 1;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Folds what is left of a day: `{yyyymmdd}:{metric}:{etype}:{eid}`.
async fn fold_day(store: &Store, old: &str) -> Result<(), StoreError> {
    let (keys, backend) = (store.keys(), store.backend());
    let (day, metric, entity) = parse(old)
        .ok_or_else(|| StoreError::Unexpected("a day that countd did not write".to_owned()))?;
    let keys = Daily { keys, backend }.keys_of(&metric, &entity, day);
    let mut call = RedisCall::script(FOLD.on(backend), &keys);
    call.cmd.arg(day).arg(name(&metric, &entity)).arg(USERS);
    loop {
        let reply = call.send(store).await?;
        let (moved, is_gone) = <(u64, bool)>::from_redis_value(reply)
            .map_err(|why| StoreError::Unexpected(format!("a fold: {why}")))?;
        metrics::counter!("countd_facts_compacted_total").increment(moved);
        if is_gone {
            return Ok(());
        }
    }
}

fn parse(old: &str) -> Option<(u64, Name, Entity)> {
    let mut parts = old.split(':');
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
    fn days_come_back_as_they_were_written() {
        let (day, metric, entity) = parse("20261231:like:note:a.7").expect("a day");
        assert_eq!(
            format!("{day}:{}", name(&metric, &entity)),
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
