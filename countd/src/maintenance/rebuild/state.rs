//! The state of a rebuild, and the holds on the logs.

use super::error::RebuildError;
use super::observe::unexpected;
use crate::domain::ids::Name;
use crate::domain::keys::Partition;
use crate::log::published::Histories;
use crate::redis::call::RedisCall;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

/// Sets holds.
pub(super) static HOLD: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/rebuild_hold.lua")));

/// Sets holds for data with a topic, and reads how far it is counted.
pub(super) static CUT: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/rebuild_cut.lua")));

/// How far a partition was copied and counted at one moment.
pub(super) struct Cut {
    /// The offset of the first entry that was not copied to the topic.
    pub published: u64,
    /// The offset of the next entry to be counted.
    pub position: u64,
    /// The offset in the topic of the next record to be counted.
    pub topic: u64,
    /// The histories of the servers from which entries were copied.
    pub histories: Histories,
    /// The offset of the last erasure.
    pub erased: u64,
}

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "HGETALL {replay}",
    "HSET {replay} f v",
    "HDEL {replay} f",
    "EXPIRE {hold} 1",
    "UNLINK {hold}",
    "HGET {reconcile} f",
    "HINCRBY {reconcile} f 1",
];

/// How long logs keep entries for a rebuild that was killed, in seconds.
const HOLD_SECONDS: u64 = 120;

/// Where the rebuild starts.
const FROM: &str = "from";
/// The metrics whose counters are rebuilt.
const METRICS: &str = "metrics";
/// Exists while the shadows are deleted.
const ENDED: &str = "ended";
/// The number of rebuilds that have ended: a field of the state of reconciliation, since that of a rebuild is deleted.
const REBUILDS: &str = "rebuilds";
/// What precedes the number of a partition whose rows were compared.
const DONE: &str = "done:";

/// The state of a rebuild.
pub(super) struct State {
    store: Store,
    /// The metrics whose counters are rebuilt. They stay the same, whatever the configuration becomes meanwhile.
    pub metrics: BTreeSet<Name>,
    /// The partitions whose rows were compared.
    pub done: BTreeSet<Partition>,
}

impl State {
    /// Begins a rebuild, or continues the one that was interrupted.
    ///
    /// # Errors
    /// The interrupted one starts elsewhere.
    pub async fn begin(
        store: &Store,
        from: &str,
        metrics: &BTreeSet<Name>,
    ) -> Result<State, RebuildError> {
        let fields = fields(store).await?;
        if fields.is_empty() {
            let names: Vec<&str> = metrics.iter().map(Name::as_str).collect();
            let mut cmd = redis::cmd("HSET");
            cmd.arg(store.keys().rebuild_state()).arg(FROM).arg(from);
            cmd.arg(METRICS).arg(names.join(","));
            cmd.exec_async(&mut store.commands()).await?;
            return Ok(State {
                store: store.clone(),
                metrics: metrics.clone(),
                done: BTreeSet::new(),
            });
        }
        let started = fields.get(FROM).map_or("", String::as_str);
        if started != from {
            return Err(RebuildError::Refused(format!(
                "a rebuild from {started} was interrupted: continue it, or discard it with --restart"
            )));
        }
        let metrics = fields.get(METRICS).map_or("", String::as_str).split(',');
        let done = fields
            .keys()
            .filter_map(|field| field.strip_prefix(DONE)?.parse().ok());
        Ok(State {
            store: store.clone(),
            metrics: metrics.filter_map(|name| Name::new(name).ok()).collect(),
            done: done.collect(),
        })
    }

    /// The state of a run that records nothing.
    pub fn unrecorded(store: &Store, metrics: BTreeSet<Name>) -> State {
        State {
            store: store.clone(),
            metrics,
            done: BTreeSet::new(),
        }
    }

    /// Records that the rows of a partition were compared.
    pub async fn finish(&mut self, partition: Partition) -> Result<(), RebuildError> {
        let mut cmd = redis::cmd("HSET");
        cmd.arg(self.store.keys().rebuild_state());
        cmd.arg(format!("{DONE}{partition}")).arg(1);
        cmd.exec_async(&mut self.store.commands()).await?;
        self.done.insert(partition);
        Ok(())
    }

    /// Forgets which rows were compared: Redis has lost its last writes, and with them perhaps corrections.
    pub async fn compare_again(&mut self) -> Result<(), RebuildError> {
        let done = std::mem::take(&mut self.done);
        if done.is_empty() {
            return Ok(());
        }
        let fields = done.iter().map(|partition| format!("{DONE}{partition}"));
        let fields: Vec<String> = fields.collect();
        let mut cmd = redis::cmd("HDEL");
        cmd.arg(self.store.keys().rebuild_state()).arg(fields);
        Ok(cmd.exec_async(&mut self.store.commands()).await?)
    }

    /// Ends the rebuild. `clean_up` follows.
    pub async fn discard(store: &Store) -> Result<(), RebuildError> {
        let mut cmd = redis::cmd("HSET");
        cmd.arg(store.keys().rebuild_state()).arg(ENDED).arg(1);
        Ok(cmd.exec_async(&mut store.commands()).await?)
    }

    /// Whether a rebuild has ended and its keys are left.
    pub async fn has_ended(store: &Store) -> Result<bool, RebuildError> {
        Ok(fields(store).await?.contains_key(ENDED))
    }
}

/// The number of rebuilds that have ended.
///
/// # Errors
/// The store is unavailable.
pub(super) async fn ended_rebuilds(store: &Store) -> Result<u64, RebuildError> {
    let mut cmd = redis::cmd("HGET");
    cmd.arg(store.keys().reconciliation()).arg(REBUILDS);
    let ended: Option<u64> = cmd.query_async(&mut store.commands()).await?;
    Ok(ended.unwrap_or(0))
}

/// Records that a rebuild ends.
///
/// # Errors
/// The store is unavailable.
pub(super) async fn record_end(store: &Store) -> Result<(), RebuildError> {
    let mut cmd = redis::cmd("HINCRBY");
    cmd.arg(store.keys().reconciliation());
    cmd.arg(REBUILDS).arg(1);
    Ok(cmd.exec_async(&mut store.commands()).await?)
}

async fn fields(store: &Store) -> Result<HashMap<String, String>, RebuildError> {
    let mut cmd = redis::cmd("HGETALL");
    cmd.arg(store.keys().rebuild_state());
    Ok(cmd.query_async(&mut store.reads()).await?)
}

/// The partitions that share a Hash: all without hash tags, one with hash tags.
fn groups(store: &Store) -> Vec<Vec<Partition>> {
    let keys = store.keys();
    let all: Vec<Partition> = (0..keys.partitions()).collect();
    let size = if keys.tagged() { 1 } else { all.len().max(1) };
    all.chunks(size).map(<[Partition]>::to_vec).collect()
}

/// Lets logs keep what is not archived. Returns the first such offset of each; `None` if counted entries of a partition are not archived.
pub(super) async fn set_holds(
    store: &Store,
) -> Result<BTreeMap<Partition, Option<u64>>, RebuildError> {
    let keys = store.keys();
    let mut holds = BTreeMap::new();
    for group in groups(store) {
        let all = [
            keys.archived(group[0]),
            keys.position(group[0]),
            keys.archive_hold(group[0]),
        ];
        let mut call = RedisCall::script(&HOLD, &all);
        call.cmd.arg(HOLD_SECONDS).arg(&group);
        let held = Vec::<u64>::from_redis_value(call.send(store).await?).map_err(unexpected)?;
        let held = held
            .into_iter()
            .map(|offset| Some(offset).filter(|offset| *offset > 0));
        holds.extend(group.into_iter().zip(held));
    }
    Ok(holds)
}

/// Lets logs keep what is not copied to the topic. Returns how far each partition was counted at that moment.
pub(super) async fn cut(store: &Store) -> Result<BTreeMap<Partition, Cut>, RebuildError> {
    let keys = store.keys();
    let mut cuts = BTreeMap::new();
    for group in groups(store) {
        let all = [keys.position(group[0]), keys.archive_hold(group[0])];
        let mut call = RedisCall::script(&CUT, &all);
        call.cmd.arg(HOLD_SECONDS).arg(&group);
        let reply = call.send(store).await?;
        let replies = Vec::<(u64, u64, u64, String, u64)>::from_redis_value(reply);
        for (partition, reply) in group.into_iter().zip(replies.map_err(unexpected)?) {
            let (published, position, topic, histories, erased) = reply;
            let histories = Histories::parse(&histories)
                .ok_or_else(|| unexpected(format!("field copies:{partition} is damaged")))?;
            let cut = Cut {
                published,
                position,
                topic,
                histories,
                erased,
            };
            cuts.insert(partition, cut);
        }
    }
    Ok(cuts)
}

/// Keeps the holds.
pub(super) async fn renew_holds(store: &Store) -> Result<(), RebuildError> {
    for group in groups(store) {
        let mut cmd = redis::cmd("EXPIRE");
        cmd.arg(store.keys().archive_hold(group[0]))
            .arg(HOLD_SECONDS);
        cmd.exec_async(&mut store.commands()).await?;
    }
    Ok(())
}

/// Lets logs be trimmed again.
pub(super) async fn release_holds(store: &Store) -> Result<(), RebuildError> {
    for group in groups(store) {
        let mut cmd = redis::cmd("UNLINK");
        cmd.arg(store.keys().archive_hold(group[0]));
        cmd.exec_async(&mut store.commands()).await?;
    }
    Ok(())
}
