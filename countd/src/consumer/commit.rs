//! Commits a batch in one script: increments, dead letters, outbox, fences and positions.

use super::batch::{Batch, PositionUpdate};
use super::counter_key::UnusableKey;
use super::event_ids::EventIds;
use super::outbox_entries::outbox_entries;
use super::position;
use super::server_history::SERVER_HISTORY;
use crate::domain::config::Config;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::ids::Id;
use crate::domain::keys::Partition;
use crate::redis::call::RedisCall;
use crate::redis::script::{
    AUDIT, AUTHOR, CHANGES, DRIFT, LoadedScript, SUMS_STATE, ScriptTemplate,
};
use crate::redis::store::Store;
use crate::redis::timeline::TIMELINES;
use crate::storage::locator::Locator;
use redis::FromRedisValue;

pub(super) static COMMIT: ScriptTemplate = ScriptTemplate::writing(&[
    AUTHOR,
    TIMELINES,
    SUMS_STATE,
    include_str!("../lua/credits.lua"),
    include_str!("../lua/event_ids.lua"),
    include_str!("../lua/sections.lua"),
    include_str!("../lua/sums.lua"),
    AUDIT,
    DRIFT,
    // Only the sections use these functions. Lua allows 200 local variables outside of blocks.
    concat!(
        "do\n",
        include_str!("../lua/day_counts.lua"),
        include_str!("../lua/day_totals.lua"),
        include_str!("../lua/day_numbers.lua"),
        include_str!("../lua/checks.lua"),
        include_str!("../lua/days.lua"),
        "end\ndo\n",
        include_str!("../lua/rank.lua"),
        include_str!("../lua/ranks.lua"),
        "end",
    ),
    include_str!("../lua/outcomes.lua"),
    include_str!("../lua/verified.lua"),
    SERVER_HISTORY,
    CHANGES,
    include_str!("../lua/commit.lua"),
])
.with_many_counters();

/// The result of a commit. Every outcome but [`Committed`](CommitOutcome::Committed) leaves the data unchanged.
#[derive(Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The batch is committed.
    Committed {
        /// Whether the outbox got credits of authors.
        forwards: bool,
        /// The bytes that announce the changes, with those of credited authors. `None` if they could not be announced.
        announced: Option<u64>,
    },
    /// The stored positions of these partitions are not those from which the batch was read.
    PositionConflict(Vec<Partition>),
    /// The server has another history than the one from which the batch was read: its entries may be lost or replaced.
    OtherHistory,
    /// The envelopes with these ids were counted before.
    DuplicateEnvelopes(Vec<Id>),
    /// The values at these keys cannot be incremented.
    UnusableKeys(Vec<(String, UnusableKey)>),
    /// The counters of these types, which migrations move, are not where the batch has chosen.
    OtherPlaces(Vec<String>),
    /// These tables do not exist, although the batch requires them.
    MissingTables(Vec<String>),
    /// The dead letters cannot be written, for this reason.
    DeadLettersRejected(String),
}

/// Commits a batch if the stored positions are those from which it was read. All its keys must be in one slot.
///
/// # Errors
/// The store is unavailable, or rejects the commit. If the server did not reply, the batch may have been committed; the stored
/// positions show whether it was.
pub async fn commit(
    store: &Store,
    locator: &Locator,
    batch: &Batch,
    config: &Config,
) -> Result<CommitOutcome, StoreError> {
    let Some(first) = batch.positions.keys().next() else {
        return Ok(CommitOutcome::Committed {
            forwards: false,
            announced: Some(0),
        });
    };
    // Entries that were read from different histories are not those of one server.
    let Ok(history) = batch.history() else {
        return Ok(CommitOutcome::OtherHistory);
    };
    let code = match batch.moves.is_empty() {
        true => COMMIT.on(store.backend()),
        false => COMMIT.moving(),
    };
    let reply = commit_call(code, locator, (*first, history), batch, config)
        .send(store)
        .await;
    let reply = match reply {
        Err(error) if error.code() == Some("DEADLETTER") => {
            let reason = error.detail().unwrap_or_default().to_owned();
            return Ok(CommitOutcome::DeadLettersRejected(reason));
        }
        reply => reply?,
    };
    let reply = Vec::<usize>::from_redis_value(reply)
        .map_err(|error| StoreError::Unexpected(format!("the commit's reply: {error}")))?;
    match reply.split_first() {
        Some((0, conflicts)) => {
            let of_topic = batch.positions.iter();
            let of_topic = of_topic.filter_map(|(partition, update)| {
                let topic = update.topic.as_ref();
                topic.map(|_| *partition)
            });
            let partitions = batch.positions.keys().copied().chain(of_topic);
            let partitions: Vec<Partition> = partitions.collect();
            let conflicts = conflicts
                .iter()
                .filter_map(|at| partitions.get(*at).copied());
            Ok(CommitOutcome::PositionConflict(conflicts.collect()))
        }
        Some((1, [forwards, mismatches, announced, of_sections @ ..])) => {
            batch.checks.record(of_sections);
            metrics::counter!("countd_author_mismatches_total").increment(*mismatches as u64);
            Ok(CommitOutcome::Committed {
                forwards: *forwards == 1,
                announced: announced.checked_sub(1).map(|bytes| bytes as u64),
            })
        }
        Some((cause @ (2 | 4), unusable)) => {
            let cause = match cause {
                2 => UnusableKey::WrongType,
                _ => UnusableKey::TooShort,
            };
            let tables = batch.tables.updates(locator.keys());
            let tables = tables.iter().map(|table| &table.key);
            let of_credits = batch.credits.keys(locator);
            let sets = EventIds::of(batch, locator.keys()).set_keys;
            let of_sections = batch.section_keys();
            let keys: Vec<&String> = batch
                .counters
                .keys()
                .chain(tables)
                .chain(&of_credits)
                .chain(&sets)
                .chain(&of_sections)
                .collect();
            let unusable = unusable
                .iter()
                .filter_map(|at| keys.get(*at).map(|key| ((*key).clone(), cause)));
            Ok(CommitOutcome::UnusableKeys(unusable.collect()))
        }
        Some((8, unusable)) => {
            let keys = batch.timelines.keys();
            let keys = unusable.iter().filter_map(|at| keys.get(*at));
            let unusable = keys.map(|key| ((*key).clone(), UnusableKey::WrongType));
            Ok(CommitOutcome::UnusableKeys(unusable.collect()))
        }
        Some((3, duplicates)) => {
            let ids: Vec<&Id> = batch.envelope_ids.keys().collect();
            let duplicates = duplicates
                .iter()
                .filter_map(|at| ids.get(*at).copied().cloned());
            Ok(CommitOutcome::DuplicateEnvelopes(duplicates.collect()))
        }
        Some((5, others)) => {
            let types = others.iter().filter_map(|at| batch.moves.type_at(*at));
            Ok(CommitOutcome::OtherPlaces(types.cloned().collect()))
        }
        Some((cause @ (6 | 7), unusable)) => {
            let cause = match cause {
                6 => UnusableKey::WrongType,
                _ => UnusableKey::TooShort,
            };
            let objects: Vec<&String> = batch.moves.objects().collect();
            let unusable = unusable
                .iter()
                .filter_map(|at| objects.get(*at).map(|key| ((*key).clone(), cause)));
            Ok(CommitOutcome::UnusableKeys(unusable.collect()))
        }
        Some((10, _)) => Ok(CommitOutcome::OtherHistory),
        Some((9, missing)) => {
            let tables = batch.tables.updates(locator.keys());
            let missing = missing
                .iter()
                .filter_map(|at| tables.get(*at).map(|table| table.key.clone()));
            Ok(CommitOutcome::MissingTables(missing.collect()))
        }
        _ => Err(StoreError::Unexpected("the commit's reply".to_owned())),
    }
}

/// The call of the script. `first` is any partition of the batch: without hash tags all share its keys, with hash tags it is the
/// only one. `history` is that of the batch, or empty if any will do.
fn commit_call(
    code: &'static LoadedScript,
    locator: &Locator,
    (first, history): (Partition, &str),
    batch: &Batch,
    config: &Config,
) -> RedisCall {
    let keys = locator.keys();
    let partition_keys = [keys.position(first), keys.dead(first), keys.outbox(first)];
    let tables = batch.tables.updates(keys);
    let event_ids = EventIds::of(batch, keys);
    let of_timelines = batch.timelines.keys();
    let of_credits = batch.credits.keys(locator);
    let of_sections = batch.section_keys();
    let changes = config.changes.enabled.then(|| keys.changes(first));
    let phases = keys.storage_phases(first);
    let of_moves = (!batch.moves.is_empty()).then_some(&phases).into_iter();
    let all_keys: Vec<&String> = partition_keys
        .iter()
        .chain(batch.counters.keys())
        .chain(tables.iter().map(|table| &table.key))
        .chain(&event_ids.keys)
        .chain(of_timelines.iter().copied())
        .chain(&of_credits)
        .chain(&event_ids.set_keys)
        .chain(&of_sections)
        .chain(&changes)
        .chain(of_moves.chain(batch.moves.keys()))
        .collect();
    let mut script = RedisCall::script(code, &all_keys);
    let call = &mut script.cmd;
    call.arg(now_ms())
        .arg(config.dedup.event_window_seconds)
        .arg(batch.counters.len())
        .arg(tables.len())
        .arg(event_ids.keys.len())
        .arg(of_timelines.len())
        .arg(history);
    let topic_updates = || {
        let updates = batch.positions.iter();
        updates.filter_map(|(partition, update)| Some((*partition, update.topic?)))
    };
    call.arg(batch.positions.len() + topic_updates().count());
    for (partition, update) in &batch.positions {
        call.arg(*partition).arg(update.from).arg(update.next);
    }
    for (partition, topic) in topic_updates() {
        call.arg(position::topic_field(partition))
            .arg(topic.from)
            .arg(topic.next);
    }
    let fence_count = |update: &PositionUpdate| update.fences.len();
    call.arg(batch.positions.values().map(fence_count).sum::<usize>());
    for (partition, update) in &batch.positions {
        for (source, fence) in &update.fences {
            call.arg(position::fence_field(*partition, *source))
                .arg(*fence);
        }
    }
    for update in batch.counters.values() {
        call.arg(update.length.len).arg(update.length.min_len);
        call.arg(update.deltas.len() * 2);
        for (idx, delta) in &update.deltas {
            call.arg(*idx).arg(*delta);
        }
    }
    for table in &tables {
        call.arg(table.len)
            .arg(u8::from(table.is_required))
            .arg(table.deltas.len() * 3);
        for (id, idx, delta) in &table.deltas {
            call.arg(*id).arg(*idx).arg(*delta);
        }
    }
    call.arg(batch.dead_letters.len());
    for dead in &batch.dead_letters {
        call.arg(&dead.reason)
            .arg(dead.kind.field())
            .arg(&dead.payload)
            .arg(dead.partition)
            .arg(dead.offset)
            .arg(dead.full_len);
    }
    let outbox = outbox_entries(batch);
    call.arg(outbox.len());
    for entry in &outbox {
        entry.add_arguments(call);
    }
    batch.timelines.add_arguments(call);
    batch.credits.add_arguments(locator, &batch.moves, call);
    call.arg(u8::from(changes.is_some())).arg(of_sections.len());
    let mut count = 2 + event_ids.add_arguments(&config.dedup, call);
    for section in batch.sections() {
        count += section.add_arguments(config, keys, call);
    }
    if changes.is_some() {
        let contents = batch.changes.contents();
        call.arg(config.changes.retain_per_stream(keys))
            .arg(&contents);
        count += 1 + contents.len();
    }
    call.arg(count);
    if !batch.moves.is_empty() {
        batch.moves.add_arguments(call);
    }
    script
}

/// Updates the metrics for a committed batch, and logs its dead letters.
pub fn record_commit(batch: &Batch) {
    metrics::counter!("countd_events_applied_total").increment(batch.applied);
    metrics::counter!("countd_events_duplicated_total").increment(batch.duplicates);
    metrics::counter!("countd_events_dead_total").increment(batch.dead_letters.len() as u64);
    metrics::counter!("countd_commits_total").increment(1);
    metrics::counter!("countd_hot_commits_total").increment(batch.counts_hot.into());
    let counter_writes = batch.counters.len() + batch.tables.len() + batch.credits.group_count();
    metrics::counter!("countd_counter_writes_total").increment(counter_writes as u64);
    let entries = batch.entry_count();
    if entries > 0 {
        metrics::histogram!("countd_batch_events").record(entries as f64);
    }
    metrics::counter!("countd_commit_commands_total").increment(batch.write_count() as u64);
    if let Some(oldest_ts) = batch.oldest_ts {
        let age_ms = now_ms().saturating_sub(oldest_ts);
        metrics::histogram!("countd_event_age_seconds").record(age_ms as f64 / 1000.0);
    }
    // One line for each batch: a flood of poison messages must not flood the log.
    if let Some(first) = batch.dead_letters.first() {
        tracing::warn!(
            partition = first.partition,
            count = batch.dead_letters.len(),
            offset = first.offset,
            reason = first.reason,
            "dead letters"
        );
    }
}
