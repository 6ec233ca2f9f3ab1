//! `countd restore`: brings data from a snapshot of Redis up to date with the event archive.
//!
//! The restore remembers the last offset of each log, from which it knows what is in the snapshot. It can be interrupted at any point, and
//! then continues. Until it is done, no other process of countd uses the data.

mod drain;
mod error;

pub use error::RestoreError;

use crate::consumer::replay::{self, Replay};
use crate::domain::config::Config;
use crate::domain::keys::Partition;
use crate::domain::progress::{Progress, Update};
use crate::log::archive::{Archive, Coverage, accept_loss, adopt_for_restore, guard_permissions};
use crate::log::inspect::inspect;
use crate::redis::call::RedisCall;
use crate::redis::layout::StoredLayout;
use crate::redis::permissions::Permissions;
use crate::redis::processes::{HEARTBEAT_INTERVAL, ProcessMember};
use crate::redis::script::{CounterBackend, LoadedScript};
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

static EXTEND: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/log_extend.lua")));

/// How long the heartbeats in a snapshot may seem to be live.
const HEARTBEATS_EXPIRE: Duration = Duration::from_secs(8);
/// The field of the state that exists once the last offsets are recorded.
const STARTED: &str = "started";

/// Commands that this part sends.
const PERMISSIONS: &[&str] = &[
    "HGETALL {restore}",
    "HSET {restore} f v",
    "UNLINK {restore}",
    "UNLINK {settled}",
    "UNLINK {outcomes}",
    "XADD {restored} 0-* f v",
    "HSET {archived} 0 1",
    "XINFO STREAM {out}",
    "EXISTS {out}",
];

/// The permissions that a restore requires, in addition to those of all other parts.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    Permissions::of_commands(PERMISSIONS)
        .and(Permissions::of_commands(drain::PERMISSIONS))
        .and(EXTEND.required_permissions())
        .and(guard_permissions())
        .and(replay::required_permissions(backend))
}

/// How many numbers of an outbox are skipped.
const SKIPPED: u64 = 1_000_000;

/// The result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RestoreReport {
    /// The number of entries that were replayed.
    pub replayed: u64,
    /// The number of chunks of the archive.
    pub chunks: usize,
}

/// Restores data from a snapshot. Nothing else may use the data meanwhile.
///
/// # Errors
/// Nothing is lost: the restore can be repeated.
pub async fn restore(
    store: &Store,
    config: &Arc<Config>,
    dir: &Path,
    progress: &dyn Progress,
) -> Result<RestoreReport, RestoreError> {
    let mut member = ProcessMember::new(store.clone());
    progress.update(&Update::waiting("waiting until no other process is live"));
    wait_until_alone(&mut member).await?;
    adopt_for_restore(store, dir).await?;
    let path = dir.to_owned();
    let archive = tokio::task::spawn_blocking(move || Archive::open(&path));
    let archive = Arc::new(archive.await.map_err(RestoreError::panicked)??);
    let keys = store.keys();
    StoredLayout::record_restoring(&mut store.commands(), &keys, true).await?;
    store.refresh_layout().await?;
    if keys.tagged() {
        skip_outbox_numbers(store).await?;
    }
    let saved = saved_ends(store).await?;
    let catalog = Catalog::new(Arc::clone(config), store.clone());
    let mut replay = Replay::new(catalog, store.clone(), saved).await?;
    for (partition, coverage) in &archive.coverage {
        let next = replay.next(*partition);
        if coverage.end() > next {
            coverage.check_from(*partition, next)?;
        }
        extend(store, *partition, coverage).await?;
    }
    let chunks = archive.len();
    let mut differences = BTreeMap::new();
    for at in 0..chunks {
        let source = Arc::clone(&archive);
        let records = tokio::task::spawn_blocking(move || source.read(at));
        let records = records.await.map_err(RestoreError::panicked)??;
        replay.add_differences(&records, &mut differences);
        replay.replay(records).await?;
        // The process must stay alone.
        if at % 64 == 0 {
            member.heartbeat().await?;
        }
        let update = Update::new("applying", at as u64 + 1, "chunks");
        progress.update(&update.of(chunks as u64));
    }
    record_archived(store, &archive).await?;
    // Authors that were set, and in a cluster increments of users, are in the logs and outboxes now.
    drain::count_rest(store, config, progress).await?;
    replay.settle(&differences, progress).await?;
    finish(store).await?;
    // The data is as new as the archive.
    accept_loss(store).await?;
    member.leave().await?;
    Ok(RestoreReport {
        replayed: replay.replayed,
        chunks,
    })
}

/// Waits until no other process uses the data. The snapshot may have heartbeats of processes that have stopped.
async fn wait_until_alone(member: &mut ProcessMember) -> Result<(), RestoreError> {
    let mut waited = Duration::ZERO;
    loop {
        let live = member.heartbeat().await?;
        let others = live.iter().filter(|process| process.id != member.id());
        match others.count() {
            0 => return Ok(()),
            count if waited >= HEARTBEATS_EXPIRE => return Err(RestoreError::InUse(count)),
            _ => {}
        }
        tokio::time::sleep(HEARTBEAT_INTERVAL).await;
        waited += HEARTBEAT_INTERVAL;
    }
}

/// The last offset of each log in the snapshot, which the first attempt records.
async fn saved_ends(store: &Store) -> Result<BTreeMap<Partition, u64>, RestoreError> {
    let key = store.keys().restore();
    let mut cmd = redis::cmd("HGETALL");
    cmd.arg(key);
    let state: BTreeMap<String, String> = cmd.query_async(&mut store.reads()).await?;
    if state.contains_key(STARTED) {
        let ends = state.iter();
        let ends = ends.filter_map(|(field, end)| Some((field.parse().ok()?, end.parse().ok()?)));
        return Ok(ends.collect());
    }
    let partitions: Vec<Partition> = (0..store.keys().partitions()).collect();
    let inspection = inspect(store, &partitions).await;
    if let Some(error) = inspection.error {
        return Err(error.into());
    }
    let mut ends = BTreeMap::new();
    for (partition, state) in inspection.states {
        match state.end {
            Ok(end) if end.last.0 == 0 => drop(ends.insert(partition, end.last.1)),
            Ok(_) => {
                let problem = "it has foreign IDs: start a consumer on the snapshot once";
                return Err(RestoreError::Log(partition, problem.to_owned()));
            }
            Err(error) => return Err(RestoreError::Log(partition, error)),
        }
    }
    let mut cmd = redis::cmd("HSET");
    cmd.arg(key).arg(STARTED).arg(1);
    for (partition, end) in &ends {
        cmd.arg(partition).arg(end);
    }
    cmd.exec_async(&mut store.commands()).await?;
    Ok(ends)
}

/// Gives what is forwarded from now on numbers that were never used. The snapshots of the nodes of a cluster are of different moments: a
/// target may have counted more than its source has sent.
async fn skip_outbox_numbers(store: &Store) -> Result<(), RestoreError> {
    for partition in 0..store.keys().partitions() {
        let mut call = RedisCall::script(&EXTEND, &[store.keys().outbox(partition)]);
        call.cmd.arg(format!("+{SKIPPED}"));
        call.send(store).await?;
    }
    Ok(())
}

/// Lets a log continue after the last archived offset.
async fn extend(
    store: &Store,
    partition: Partition,
    coverage: &Coverage,
) -> Result<(), RestoreError> {
    let mut call = RedisCall::script(&EXTEND, &[store.keys().log(partition)]);
    call.cmd.arg(coverage.end() - 1);
    call.send(store).await?;
    Ok(())
}

/// Records what is archived, so that it is not archived again.
async fn record_archived(store: &Store, archive: &Archive) -> Result<(), RestoreError> {
    let keys = store.keys();
    for (partition, coverage) in &archive.coverage {
        let mut pipe = redis::pipe();
        pipe.cmd("HSET").arg(keys.archived(*partition));
        pipe.arg(partition).arg(coverage.end()).ignore();
        pipe.cmd("UNLINK").arg(keys.outcomes(*partition)).ignore();
        let () = pipe.query_async(&mut store.commands()).await?;
    }
    Ok(())
}

/// Ends the restore. Without its state, a repeated attempt finds nothing to replay and nothing to settle.
async fn finish(store: &Store) -> Result<(), RestoreError> {
    let keys = store.keys();
    let mut cmd = redis::cmd("UNLINK");
    cmd.arg(keys.restore());
    cmd.exec_async(&mut store.commands()).await?;
    let mut pipe = redis::pipe();
    for partition in 0..keys.partitions() {
        pipe.cmd("UNLINK").arg(keys.settled(partition)).ignore();
    }
    let () = pipe.query_async(&mut store.commands()).await?;
    StoredLayout::record_restoring(&mut store.commands(), &keys, false).await?;
    Ok(())
}
