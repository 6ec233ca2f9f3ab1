//! Fills the sorted sets of rankings.

use super::remove;
use crate::domain::config::TypeRanking;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::rank::{RANK, add_ranking};
use crate::redis::script::{CounterBackend, DAY_COUNTS, ScriptTemplate};
use crate::redis::store::Store;
use redis::FromRedisValue;
use redis::Value;
use std::time::{Duration, Instant};

static STEP: ScriptTemplate =
    ScriptTemplate::writing(&[RANK, include_str!("../../lua/rank_step.lua")]);
static FILL: ScriptTemplate =
    ScriptTemplate::writing(&[DAY_COUNTS, RANK, include_str!("../../lua/rank_fill.lua")]);

/// The number of entities of a call, which blocks the server.
const ENTITIES: usize = 100;
/// A pass pauses for a multiple of the time that a call took, so that it uses a fraction of a server.
const PAUSE_FACTOR: u32 = 2;
/// The maximum pause.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The days of rankings, as numbers of days since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankDays {
    pub today: u64,
    /// The first day that stays, if today's sorted set is complete.
    pub keep_from: u64,
}

/// The permissions to fill rankings.
pub(super) fn required_permissions(backend: CounterBackend) -> Permissions {
    let fill = FILL.required_permissions(backend);
    STEP.required_permissions(backend)
        .and(fill)
        .and(Permissions::of_commands(remove::PERMISSIONS))
}

/// Prepares the days of a ranking in a group of partitions, and fills what is incomplete. Returns whether it is complete.
pub(super) async fn step(
    store: &Store,
    (of, group): (&TypeRanking<'_>, Partition),
    days: RankDays,
) -> Result<bool, StoreError> {
    let keys = store.keys();
    let state = keys.rank_state(of.name, of.etype, group);
    let last = match keys.tagged() {
        true => group,
        false => keys.partitions() - 1,
    };
    let mut call = RedisCall::script(STEP.on(store.backend()), &[&state]);
    add_ranking(&mut call.cmd, (keys, group), of);
    call.cmd.arg(days.today).arg(days.keep_from);
    // A pass takes a while: it begins before entities are missing.
    call.cmd.arg(2 * of.ranking.top()).arg(group);
    let (next, refills) = decode::<(i64, u64)>(call.send(store).await?)?;
    metrics::counter!("countd_rank_refills_total").increment(refills);
    let Ok(first) = Partition::try_from(next) else {
        return Ok(true);
    };
    remove::record_name(store, of).await?;
    for partition in first..=last {
        let next = (partition < last).then_some(partition + 1);
        if !fill_partition(store, (of, group), partition, next).await? {
            return Ok(false);
        }
    }
    Ok(false)
}

/// Computes the scores of the entities of a partition. Returns false if the pass was overtaken by another process.
async fn fill_partition(
    store: &Store,
    (of, group): (&TypeRanking<'_>, Partition),
    partition: Partition,
    next: Option<Partition>,
) -> Result<bool, StoreError> {
    let (keys, backend) = (store.keys(), store.backend());
    let (mut all, mut kinds) = (vec![keys.rank_state(of.name, of.etype, group)], Vec::new());
    for (metric, _) in &of.weights {
        // An adoption moves totals from the Hash to the table.
        all.push(keys.totals_hash(metric, of.etype, partition));
        kinds.push("fields");
        if backend.has_tables() {
            all.push(keys.totals_table(metric, of.etype, partition));
            kinds.push("rows");
        }
    }
    let (mut place, mut cursor) = (1_u64, "0".to_owned());
    loop {
        // There may be totals in tables now, which this pass does not look at.
        if store.backend() != backend {
            return Ok(false);
        }
        let begin = Instant::now();
        let mut call = RedisCall::script(FILL.on(backend), &all);
        add_ranking(&mut call.cmd, (keys, partition), of);
        let next = next.map(|next| next.to_string()).unwrap_or_default();
        call.cmd.arg(partition).arg(next).arg(ENTITIES);
        call.cmd.arg(place).arg(&cursor).arg(&kinds);
        let reply = decode::<(u64, String, u64)>(call.send(store).await?)?;
        metrics::counter!("countd_rank_filled_total").increment(reply.2);
        if reply.0 == 0 {
            return Ok(true);
        }
        (place, cursor) = (reply.0, reply.1);
        tokio::time::sleep((begin.elapsed() * PAUSE_FACTOR).min(MAX_PAUSE)).await;
    }
}

fn decode<T: FromRedisValue>(reply: Value) -> Result<T, StoreError> {
    T::from_redis_value(reply)
        .map_err(|error| StoreError::Unexpected(format!("filling a ranking: {error}")))
}
