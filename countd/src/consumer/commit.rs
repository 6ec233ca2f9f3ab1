//! The one step that counts a batch: the increments, the dead letters, the outbox, the fences and the position together.

use super::tally::Batch;
use crate::config::UserCounter;
use crate::event::now_ms;
use crate::ids::Id;
use crate::keys::Partition;
use crate::scripts::Parts;
use crate::store::{Store, StoreError};
use std::collections::HashSet;

static COMMIT: Parts = Parts::writing(&[include_str!("../lua/commit.lua")]);

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is counted.
    Counted,
    /// Nothing happened: somebody else has moved the position.
    Moved,
    /// Nothing happened: the envelopes with these ids were counted before.
    Seen(HashSet<Id>),
    /// Nothing happened: these keys hold something else than counters.
    Refused(HashSet<String>),
}

/// Counts a batch if the position is where `expected` says. `remember`: for how many seconds envelopes are known by their ids.
///
/// # Errors
/// The store did not answer, or refused. Unless it answered, the batch may have been counted: the position tells.
pub async fn commit(
    store: &Store,
    partition: Partition,
    expected: u64,
    batch: &Batch,
    remember: u64,
) -> Result<Outcome, StoreError> {
    let keys = store.keys();
    let commit = &COMMIT.on(store.backing()).script;
    let mut call = commit.key(keys.position(partition));
    call.key(keys.dead(partition)).key(keys.outbox(partition));
    call.arg(expected)
        .arg(batch.next)
        .arg(partition)
        .arg(now_ms());
    call.arg(remember).arg(batch.ids.len());
    call.arg(batch.fences.len());
    for (source, fence) in &batch.fences {
        call.arg(*source).arg(*fence);
    }
    call.arg(batch.dead.len());
    for dead in &batch.dead {
        call.arg(&dead.reason)
            .arg(dead.kind.field())
            .arg(&dead.payload)
            .arg(dead.offset);
    }
    let outbox: Vec<(Partition, String)> = outbox(batch);
    call.arg(outbox.len());
    for (to, adds) in &outbox {
        call.arg(*to).arg(adds);
    }
    for (key, changes) in &batch.counters {
        call.key(key).arg(changes.len).arg(changes.deltas.len() * 2);
        for (idx, delta) in &changes.deltas {
            call.arg(*idx).arg(*delta);
        }
    }
    for id in &batch.ids {
        call.key(keys.counted(partition, id));
    }
    let reply: Vec<usize> = call.invoke_async(&mut store.commands()).await?;
    match reply.split_first() {
        Some((0, [])) => Ok(Outcome::Moved),
        Some((1, [])) => Ok(Outcome::Counted),
        Some((2, refused)) => {
            let names: Vec<&String> = batch.counters.keys().collect();
            let refused = refused
                .iter()
                .filter_map(|at| names.get(*at).map(|name| (*name).clone()));
            Ok(Outcome::Refused(refused.collect()))
        }
        Some((3, seen)) if !seen.is_empty() => {
            let ids: Vec<&Id> = batch.ids.iter().collect();
            let seen = seen.iter().filter_map(|at| ids.get(*at).copied().cloned());
            Ok(Outcome::Seen(seen.collect()))
        }
        _ => Err(StoreError::Unexpected("the commit's reply".to_owned())),
    }
}

impl Batch {
    /// How many commands that write its script runs.
    pub fn commands(&self) -> usize {
        let outbox = self
            .outbox
            .values()
            .filter(|users| users.values().any(|delta| *delta != 0));
        1 + self.fences.len()
            + self.dead.len()
            + outbox.count()
            + self.counters.len()
            + self.ids.len()
    }
}

/// What goes to each partition, as JSON. What adds up to nothing does not go.
fn outbox(batch: &Batch) -> Vec<(Partition, String)> {
    let mut entries = Vec::with_capacity(batch.outbox.len());
    for (to, users) in &batch.outbox {
        let news = users.iter().filter(|(_, delta)| **delta != 0);
        let adds: Vec<(&Id, UserCounter, i64)> = news
            .map(|((uid, counter), delta)| (uid, *counter, *delta))
            .collect();
        if !adds.is_empty() {
            // Texts and numbers: nothing that JSON could not hold.
            entries.push((*to, serde_json::to_string(&adds).unwrap_or_default()));
        }
    }
    entries
}

/// Whether a batch leaves something in the outbox.
pub fn fills_outbox(batch: &Batch) -> bool {
    batch
        .outbox
        .values()
        .flat_map(|users| users.values())
        .any(|delta| *delta != 0)
}
