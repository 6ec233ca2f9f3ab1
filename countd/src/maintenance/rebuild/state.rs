//! The state of a rebuild, and the holds on the logs.

use super::error::{RebuildError, unexpected};
use crate::consumer::server_history;
use crate::domain::ids::Name;
use crate::domain::keys::Partition;
use crate::log::published::Histories;
use crate::redis::call::RedisCall;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

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
    "EXPIRE {hold} 1",
    "UNLINK {hold}",
    "HGET {position} 0",
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
/// What precedes the number of a partition whose rows were compared. The value is the history of the server.
const DONE: &str = "done:";

/// The field beside the positions with the marks of the last baselines.
const MARKS: &str = "baselines";

/// The state of a rebuild.
pub(super) struct State {
    store: Store,
    /// The metrics whose counters are rebuilt. They stay the same, whatever the configuration becomes meanwhile.
    pub metrics: BTreeSet<Name>,
    /// The partitions whose rows were compared, and the history of the server at that time.
    done: BTreeMap<Partition, String>,
    /// The histories of the servers of all partitions before counters are compared.
    histories: Vec<Arc<str>>,
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
                done: BTreeMap::new(),
                histories: Vec::new(),
            });
        }
        let started = fields.get(FROM).map_or("", String::as_str);
        if started != from {
            return Err(RebuildError::Refused(format!(
                "a rebuild from {started} was interrupted: continue it, or discard it with --restart"
            )));
        }
        let metrics = fields.get(METRICS).map_or("", String::as_str).split(',');
        let done = fields.iter().filter_map(|(field, history)| {
            let partition = field.strip_prefix(DONE)?.parse().ok()?;
            Some((partition, history.clone()))
        });
        Ok(State {
            store: store.clone(),
            metrics: metrics.filter_map(|name| Name::new(name).ok()).collect(),
            done: done.collect(),
            histories: Vec::new(),
        })
    }

    /// The state of a run that records nothing.
    pub fn unrecorded(store: &Store, metrics: BTreeSet<Name>) -> State {
        State {
            store: store.clone(),
            metrics,
            done: BTreeMap::new(),
            histories: Vec::new(),
        }
    }

    /// Reads the histories of the servers, before counters are compared. Rows that were compared under another one are compared again: a
    /// server that has lost its last writes may have lost corrections.
    pub async fn begin_to_compare(&mut self) -> Result<(), RebuildError> {
        self.histories = self.load_histories().await?;
        let histories = &self.histories;
        self.done.retain(|partition, history| {
            let current = histories.get(usize::from(*partition));
            current.is_some_and(|current| **current == **history)
        });
        Ok(())
    }

    /// Whether no server has got another history since counters began to be compared.
    pub async fn has_same_histories(&self) -> Result<bool, RebuildError> {
        Ok(self.load_histories().await? == self.histories)
    }

    async fn load_histories(&self) -> Result<Vec<Arc<str>>, RebuildError> {
        let all: Vec<Partition> = (0..self.store.keys().partitions()).collect();
        Ok(server_history::load(&self.store, &all).await?)
    }

    /// Whether the rows of a partition were compared.
    pub fn is_done(&self, partition: Partition) -> bool {
        self.done.contains_key(&partition)
    }

    /// Records that the rows of a partition were compared.
    pub async fn finish(&mut self, partition: Partition) -> Result<(), RebuildError> {
        let history = self.histories.get(usize::from(partition));
        let history = history.map_or("", |history| history).to_owned();
        let mut cmd = redis::cmd("HSET");
        cmd.arg(self.store.keys().rebuild_state());
        cmd.arg(format!("{DONE}{partition}")).arg(&history);
        cmd.exec_async(&mut self.store.commands()).await?;
        self.done.insert(partition, history);
        Ok(())
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

/// Lets logs keep what is not copied to the topic. Returns how far each partition was counted at that moment. A baseline leaves its mark.
pub(super) async fn cut(
    store: &Store,
    mark: Option<&str>,
) -> Result<BTreeMap<Partition, Cut>, RebuildError> {
    let keys = store.keys();
    let mut cuts = BTreeMap::new();
    for group in groups(store) {
        let all = [keys.position(group[0]), keys.archive_hold(group[0])];
        let mut call = RedisCall::script(&CUT, &all);
        call.cmd.arg(HOLD_SECONDS);
        call.cmd.arg(mark.unwrap_or_default()).arg(&group);
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

/// Whether all servers have the mark of a baseline: none has lost what was counted before it.
pub(super) async fn have_mark(store: &Store, mark: &str) -> Result<bool, RebuildError> {
    let keys = store.keys();
    for group in groups(store) {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(keys.position(group[0])).arg(MARKS);
        let marks: Option<String> = cmd.query_async(&mut store.reads()).await?;
        let marks = marks.unwrap_or_default();
        if !marks.split(',').any(|found| found == mark) {
            return Ok(false);
        }
    }
    Ok(true)
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
