//! The one step that counts a batch: the increments, the dead letters, the outbox, the fences and the positions together.

use super::batch::UnusableKey;
use super::batch::{Batch, PositionUpdate};
use super::position;
use crate::domain::config::UserCounter;
use crate::domain::error::StoreError;
use crate::domain::event::{MAX_ADDS, now_ms};
use crate::domain::ids::Id;
use crate::domain::keys::{Keys, Partition};
use crate::redis::call::RedisCall;
use crate::redis::script::{LoadedScript, ScriptTemplate};
use crate::redis::store::Store;
use redis::FromRedisValue;

pub(super) static COMMIT: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../lua/commit.lua")]);

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It is counted.
    Committed,
    /// Nothing observe_timestamp: somebody else has moved the positions of these partitions.
    PositionConflict(Vec<Partition>),
    /// Nothing observe_timestamp: the envelopes with these ids were counted before.
    DuplicateEnvelopes(Vec<Id>),
    /// Nothing observe_timestamp: these keys hold something that cannot be counted in.
    UnusableKeys(Vec<(String, UnusableKey)>),
    /// Nothing observe_timestamp: its dead letters cannot be written, and why.
    NoDeadLetters(String),
}

/// Counts a batch if the positions of its partitions are where it was read from. All of its keys can be part of one step.
/// `remember`: for how many seconds envelopes are known by their ids.
///
/// # Errors
/// The store did not answer, or refused. Unless it answered, the batch may have been counted: the positions tell.
pub async fn commit(
    store: &Store,
    batch: &Batch,
    remember: u64,
) -> Result<CommitOutcome, StoreError> {
    let Some(first) = batch.moves.keys().next() else {
        return Ok(CommitOutcome::Committed);
    };
    let code = COMMIT.on(store.backend());
    let sent = call(code, store.keys(), *first, (batch, remember))
        .send(store)
        .await;
    let reply = match sent {
        Err(why) if why.code() == Some("DEADLETTER") => {
            let why = why.detail().unwrap_or_default().to_owned();
            return Ok(CommitOutcome::NoDeadLetters(why));
        }
        sent => sent?,
    };
    let reply = Vec::<usize>::from_redis_value(reply)
        .map_err(|why| StoreError::Unexpected(format!("the commit's reply: {why}")))?;
    match reply.split_first() {
        Some((0, moved)) => {
            let partitions: Vec<Partition> = batch.moves.keys().copied().collect();
            let moved = moved.iter().filter_map(|at| partitions.get(*at).copied());
            Ok(CommitOutcome::PositionConflict(moved.collect()))
        }
        Some((1, [])) => Ok(CommitOutcome::Committed),
        Some((why @ (2 | 4), refused)) => {
            let misfit = match why {
                2 => UnusableKey::Type,
                _ => UnusableKey::Short,
            };
            let names: Vec<&String> = batch.counters.keys().collect();
            let refused = refused
                .iter()
                .filter_map(|at| names.get(*at).map(|name| ((*name).clone(), misfit)));
            Ok(CommitOutcome::UnusableKeys(refused.collect()))
        }
        Some((3, seen)) => {
            let ids: Vec<&Id> = batch.ids.keys().collect();
            let seen = seen.iter().filter_map(|at| ids.get(*at).copied().cloned());
            Ok(CommitOutcome::DuplicateEnvelopes(seen.collect()))
        }
        _ => Err(StoreError::Unexpected("the commit's reply".to_owned())),
    }
}

/// The script's call. `first` is any partition of the batch: all have the keys of this one, or it is the only one.
fn call(
    code: &'static LoadedScript,
    keys: Keys,
    first: Partition,
    (batch, remember): (&Batch, u64),
) -> RedisCall {
    let own = [keys.position(first), keys.dead(first), keys.outbox(first)];
    let ids = batch.ids.iter();
    let ids: Vec<String> = ids
        .map(|(id, partition)| keys.counted(*partition, id))
        .collect();
    let all: Vec<&String> = own
        .iter()
        .chain(batch.counters.keys())
        .chain(&ids)
        .collect();
    let mut script = RedisCall::script(code, &all);
    let call = &mut script.cmd;
    call.arg(now_ms()).arg(remember).arg(ids.len());
    call.arg(batch.moves.len());
    for (partition, step) in &batch.moves {
        call.arg(*partition).arg(step.from).arg(step.next);
    }
    let fences = |step: &PositionUpdate| step.fences.len();
    call.arg(batch.moves.values().map(fences).sum::<usize>());
    for (partition, step) in &batch.moves {
        for (source, fence) in &step.fences {
            call.arg(position::fence_field(*partition, *source))
                .arg(*fence);
        }
    }
    for changes in batch.counters.values() {
        call.arg(changes.length.len).arg(changes.length.least);
        call.arg(changes.deltas.len() * 2);
        for (idx, delta) in &changes.deltas {
            call.arg(*idx).arg(*delta);
        }
    }
    call.arg(batch.dead.len());
    for dead in &batch.dead {
        call.arg(&dead.reason)
            .arg(dead.kind.field())
            .arg(&dead.payload)
            .arg(dead.partition)
            .arg(dead.offset)
            .arg(dead.bytes);
    }
    let outbox: Vec<(Partition, String)> = outbox(batch);
    call.arg(outbox.len());
    for (to, adds) in &outbox {
        call.arg(*to).arg(adds);
    }
    script
}

/// What goes to each partition, as JSON. What adds up to nothing does not go.
fn outbox(batch: &Batch) -> Vec<(Partition, String)> {
    let mut entries = Vec::with_capacity(batch.outbox.len());
    for (to, users) in &batch.outbox {
        let news = users.iter().filter(|(_, delta)| **delta != 0);
        let adds: Vec<(&Id, UserCounter, i64)> = news
            .map(|((uid, counter), delta)| (uid, *counter, *delta))
            .collect();
        // Texts and numbers: nothing that JSON could not hold.
        let chunks = adds.chunks(MAX_ADDS).map(serde_json::to_string);
        entries.extend(chunks.map(|adds| (*to, adds.unwrap_or_default())));
    }
    entries
}
