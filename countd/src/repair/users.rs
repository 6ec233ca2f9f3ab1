//! Compares counters of users with the facts that are kept for them, and corrects them (`check_users.lua`).

use super::check_now::{Found, Outcome, record_found};
use super::source::{Sources, UserSource};
use crate::domain::config::{BUILT_IN_COUNTERS, Config, UserCounter};
use crate::domain::error::StoreError;
use crate::domain::event::{CheckMode, now_ms};
use crate::domain::ids::{Id, Name};
use crate::domain::keys::{Keys, Partition, StoragePhase};
use crate::facts::CardSource;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUDIT, CHANGES, CounterBackend, DRIFT, SOURCES, ScriptTemplate};
use crate::redis::store::Store;
use crate::storage::locator::Locator;
use redis::{FromRedisValue, Value};
use std::collections::{BTreeMap, BTreeSet};

static CHECK: ScriptTemplate = ScriptTemplate::writing(&[
    SOURCES,
    AUDIT,
    DRIFT,
    CHANGES,
    include_str!("../lua/check_users.lua"),
]);

/// The maximum number of users and of keys per call. The script blocks the server.
const USERS_PER_CALL: usize = 50;
const KEYS_PER_CALL: usize = 2_000;
/// The maximum number of differences that are noted on all slots together, and on each slot. A note takes 100 to 220 bytes of Redis: the IDs of
/// users have at most 64.
const MAX_NOTES: u64 = 200_000;
const MIN_NOTES_OF_SLOT: u64 = 1_000;

/// The permissions that [`check_users`] requires.
pub fn check_users_permissions(backend: CounterBackend) -> Permissions {
    CHECK.required_permissions(backend)
}

/// The sweeps that compare facts with timelines: the number of the last one that has begun, and of the last one that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweeps {
    /// The last one that has begun.
    pub begun: u64,
    /// The last one that has ended.
    pub ended: u64,
}

/// A counter of users that counts facts kept for them.
#[derive(Clone, Debug)]
pub struct ReverseCounter {
    /// The counter.
    pub counter: UserCounter,
    /// The facts: metrics, and types of their entities.
    pub facts: BTreeSet<(Name, Name)>,
}

impl ReverseCounter {
    /// Where scripts find the facts of a user.
    pub fn source(&self, store: &Store, uid: &Id) -> CardSource {
        let keys = store.keys();
        let facts = self.facts.iter();
        CardSource::timelines(facts.map(|(metric, etype)| keys.reverse(metric, etype, uid)))
    }
}

/// The counters of users that count facts kept for them. `found` are types of entities that have facts of metrics, though they may not be configured
/// any more.
pub fn reverse_counters(
    store: &Store,
    config: &Config,
    found: &BTreeSet<(Name, Name)>,
) -> Vec<ReverseCounter> {
    let layout = store.layout();
    let sources = Sources::new(config, &layout);
    let names = config.users.names();
    let counters = names.iter().filter_map(|name| config.users.counter(name));
    counters
        .filter_map(|counter| {
            let UserSource::Reverse(metrics) = sources.of_user(&counter) else {
                return None;
            };
            let mut facts = BTreeSet::new();
            for name in metrics {
                let metric = config.metrics.get(name.as_str());
                let types = metric.and_then(|(_, metric)| metric.entities.as_ref());
                let configured: Vec<&Name> = match types {
                    Some(types) => types.iter().collect(),
                    None => config.entities.keys().collect(),
                };
                let of_metric = found.iter().filter(|(metric, _)| *metric == name);
                facts.extend(of_metric.cloned());
                facts.extend(configured.into_iter().map(|of| (name.clone(), of.clone())));
            }
            Some(ReverseCounter { counter, facts })
        })
        .collect()
}

/// How counters of users are compared.
#[derive(Clone, Copy, Debug)]
pub struct CheckUsers<'a> {
    /// What to do with differences.
    pub mode: CheckMode,
    /// The round; 0 outside of one.
    pub round: u64,
    /// The trace ID; `-` without one.
    pub trace_id: &'a str,
    /// The sweeps that have ended.
    pub sweeps: Sweeps,
    /// The number of counters in the schema of users.
    pub user_len: usize,
}

/// What was found of a counter of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundOfUser {
    /// The user.
    pub uid: Id,
    /// The counter.
    pub counter: Name,
    /// What was found.
    pub found: Found,
    /// Whether the difference is corrected after the next sweep, if it is still there and there is room for a note.
    pub waits: bool,
    /// Whether there is no room for a note. The difference waits until others are corrected.
    pub lacks_room: bool,
}

/// What the script answers for a difference that cannot be noted.
const NO_ROOM: u64 = 2;

/// What the audit names as the source of corrections of counters of users.
pub const SOURCE: &str = "user";

/// Compares the counters of users. Returns what was found; nothing if they cannot be compared now.
///
/// # Errors
/// The store is unavailable. Some counters may have been corrected.
pub async fn check_users(
    store: &Store,
    config: &Config,
    settings: CheckUsers<'_>,
    counters: &[ReverseCounter],
    uids: &BTreeSet<Id>,
) -> Result<Vec<FoundOfUser>, StoreError> {
    let mut found = Vec::new();
    // Until the comparison ends, a process with other settings waits.
    let _held = store.hold_layout().await;
    if counters.is_empty() || Locator::of(store).storage_of_users() == StoragePhase::Moving {
        return Ok(found);
    }
    if store.layout().counting != config.counting() {
        return Err(StoreError::OtherSettings);
    }
    let mut by_partition: BTreeMap<Partition, Vec<&Id>> = BTreeMap::new();
    for uid in uids {
        // Without hash tags all keys are in reach of a script.
        let slot = match store.keys().tagged() {
            true => store.keys().of_user(uid),
            false => 0,
        };
        by_partition.entry(slot).or_default().push(uid);
    }
    let timelines: usize = counters.iter().map(|counter| counter.facts.len()).sum();
    let per_call = (KEYS_PER_CALL / (4 * timelines + 1)).clamp(1, USERS_PER_CALL);
    for (partition, uids) in by_partition {
        for uids in uids.chunks(per_call) {
            let call = call(store, config, settings, counters, (partition, uids));
            let reply = call.send(store).await?;
            if reply == Value::Nil {
                return Ok(found);
            }
            let numbers = Vec::<u64>::from_redis_value(reply)
                .map_err(|error| StoreError::Unexpected(format!("compared users: {error}")))?;
            let of_users = uids.iter().flat_map(|uid| {
                let names = counters.iter().map(|counter| counter.counter.name());
                names.map(move |name| (uid, name))
            });
            for ((uid, name), numbers) in of_users.zip(numbers.chunks_exact(4)) {
                let of_counter = Found {
                    before: numbers[0],
                    expected: numbers[1],
                    difference: numbers[0].abs_diff(numbers[1]),
                    outcome: Outcome::of_code(numbers[2]),
                };
                record_found(SOURCE, of_counter);
                if of_counter.outcome == Outcome::Corrected {
                    // The audit names the user.
                    tracing::warn!(counter = %name, "a counter of a user was corrected");
                }
                found.push(FoundOfUser {
                    uid: (*uid).clone(),
                    counter: name.clone(),
                    found: of_counter,
                    waits: numbers[3] > 0,
                    lacks_room: numbers[3] == NO_ROOM,
                });
            }
        }
    }
    Ok(found)
}

/// The maximum number of differences that are noted in a slot.
fn max_notes(keys: &Keys) -> u64 {
    let slots = if keys.tagged() { keys.partitions() } else { 1 };
    (MAX_NOTES / u64::from(slots)).max(MIN_NOTES_OF_SLOT)
}

fn call(
    store: &Store,
    config: &Config,
    settings: CheckUsers<'_>,
    counters: &[ReverseCounter],
    (partition, uids): (Partition, &[&Id]),
) -> RedisCall {
    let (layout, locator) = (store.keys(), Locator::of(store));
    let changes = config.changes.enabled.then(|| layout.changes(partition));
    let mut keys = vec![
        layout.storage_phases(partition),
        layout.user_notes(partition),
        layout.audit(partition),
    ];
    keys.extend(changes.clone());
    let places: Vec<_> = uids.iter().map(|uid| locator.user(uid)).collect();
    for (uid, place) in uids.iter().zip(&places) {
        keys.push(place.key().to_owned());
        for counter in counters {
            keys.extend_from_slice(counter.source(store, uid).keys());
        }
    }
    let mut call = RedisCall::script(CHECK.on(store.backend()), &keys);
    let cmd = &mut call.cmd;
    cmd.arg(locator.storage_of_users().name())
        .arg(settings.mode.name())
        .arg(config.reconcile.min_difference)
        .arg(config.reconcile.min_percent)
        .arg(config.audit.retain_per_stream(layout))
        .arg(now_ms());
    match changes {
        Some(_) => cmd.arg(config.changes.retain_per_stream(layout)),
        None => cmd.arg(""),
    };
    cmd.arg(SOURCE)
        .arg(settings.round)
        .arg(settings.trace_id)
        .arg(settings.sweeps.begun)
        .arg(settings.sweeps.ended)
        .arg(settings.user_len)
        .arg(BUILT_IN_COUNTERS.len())
        .arg(max_notes(&layout))
        .arg(counters.len());
    for ReverseCounter { counter, .. } in counters {
        cmd.arg(counter.index()).arg(counter.name().as_str());
    }
    for (uid, place) in uids.iter().zip(&places) {
        let row = place.row().map(|row| row.to_string());
        cmd.arg(uid.as_str()).arg(row.unwrap_or_default());
        for counter in counters {
            counter.source(store, uid).add_arguments(cmd);
        }
    }
    call
}
