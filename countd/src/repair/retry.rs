//! Retries dead letters.
//!
//! A check may have corrected the counter that an event could not change. The fact itself tells what the counter has to be, so a retried
//! event of a fact leaves the counter of its entity alone, and a check of it follows. An event that counts by day changes the counter, since
//! only the event tells its day, and the check that follows takes back what an earlier one has added. Whether timelines list the fact is read
//! again, too.
//!
//! A counter of a user that was corrected since then includes the event: the audit tells. It is not changed again.
//!
//! A retried event of an action that was counted at once names its first entry: rebuilds and restores count the action there.

use crate::domain::config::{Config, Order, Role, USER};
use crate::domain::error::{StoreError, rejected_by_foreign_last_id};
use crate::domain::event::{Check, Derived, Event, Reread};
use crate::domain::event_class::schema_id;
use crate::domain::ids::{Id, Name};
use crate::facts::{CardSource, FactStores, recount, recount_permissions};
use crate::log::dead_letters::{StoredDeadLetter, delete};
use crate::log::{EntryKind, renumber};
use crate::redis::call::RedisCall;
use crate::redis::day_states::{self, complete_days};
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, SOURCES, ScriptTemplate};
use crate::redis::store::Store;
use crate::repair::source::{Source, Sources, UserSource};
use redis::FromRedisValue;
use std::collections::{BTreeMap, BTreeSet, HashMap};

static RETRY: ScriptTemplate =
    ScriptTemplate::writing(&[SOURCES, include_str!("../lua/dead_letter_retry.lua")]);

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["XRANGE {audit} - + COUNT 1", "XLEN {audit}"];
/// The maximum number of entries of the audit that are read.
const MAX_AUDIT: usize = 10_000;
/// What the audit names as the source of the corrections.
const SOURCE: &str = "check";

/// The check that follows a retried event.
struct FollowingCheck {
    check: Check,
    /// The metric, and where its facts are.
    metric: Name,
    source: CardSource,
    /// Whether the event leaves the counter alone.
    replaces_event: bool,
}

/// The permissions that [`retry`] requires.
pub fn retry_permissions(backend: CounterBackend) -> Permissions {
    RETRY
        .required_permissions(backend)
        .and(recount_permissions(backend))
        .and(Permissions::of_commands(PERMISSIONS))
        .and(Permissions::of_commands(day_states::PERMISSIONS))
}

/// Moves a dead letter back to the end of its log, atomically. A check is only removed: what it expects was counted earlier. Returns false
/// if it no longer exists or cannot be retried.
///
/// # Errors
/// The store is unavailable, or rejects the command. After a connection error it may have been moved.
pub async fn retry(
    store: &Store,
    config: &Config,
    dead_letter: &StoredDeadLetter,
) -> Result<bool, StoreError> {
    if EntryKind::of(dead_letter.kind.as_bytes()) == EntryKind::Check {
        return delete(store, dead_letter).await;
    }
    if !dead_letter.can_be_retried() {
        return Ok(false);
    }
    let corrected = corrected_counters(store, config, dead_letter).await?;
    let check = match event(dead_letter) {
        Some(event) => check(store, config, &event).await?,
        None => None,
    };
    recount(store, check.iter().map(|check| &check.source)).await?;
    let call = call(store, config, (dead_letter, check), &corrected);
    let reply = match call.send(store).await {
        // Nothing was changed.
        Err(error) if rejected_by_foreign_last_id(&error) => {
            renumber(store, dead_letter.partition).await?;
            call.send(store).await
        }
        reply => reply,
    };
    let moved = u8::from_redis_value(reply?)
        .map_err(|error| StoreError::Unexpected(format!("a retried dead letter: {error}")))?;
    Ok(moved == 1)
}

/// The users' counters that the events of a dead letter change.
fn user_counters(config: &Config, dead_letter: &StoredDeadLetter) -> BTreeSet<(Id, Name)> {
    match EntryKind::of(dead_letter.kind.as_bytes()) {
        EntryKind::Derived => {
            let derived: Option<Derived> = serde_json::from_slice(dead_letter.payload()).ok();
            let adds = derived.into_iter().flat_map(|derived| derived.adds);
            adds.map(|(uid, counter, _)| (uid, counter)).collect()
        }
        _ => {
            let Some(event) = event(dead_letter) else {
                return BTreeSet::new();
            };
            let metric = config.metrics.get(event.metric.as_str());
            let feeds = metric.into_iter().flat_map(|(_, metric)| &metric.users);
            let counters = feeds.filter_map(|feed| match feed.of {
                Role::Actor => Some((event.uid.clone(), feed.counter.clone())),
                Role::Target => Some((event.entity.eid.clone(), feed.counter.clone())),
                Role::Author => None,
            });
            counters.collect()
        }
    }
}

/// The users' counters of a dead letter that were corrected after it was written. If the audit has too many entries since then, or does not go
/// back to it, these are all that are verified.
async fn corrected_counters(
    store: &Store,
    config: &Config,
    dead_letter: &StoredDeadLetter,
) -> Result<BTreeSet<(Id, Name)>, StoreError> {
    let (keys, layout) = (store.keys(), store.layout());
    let sources = Sources::new(config, &layout);
    let mut counters = user_counters(config, dead_letter);
    counters.retain(|(_, counter)| {
        let counter = config.users.counter(counter);
        counter.is_some_and(|counter| sources.of_user(&counter) != UserSource::None)
    });
    let mut corrected = BTreeSet::new();
    let mut by_audit: BTreeMap<String, Vec<&(Id, Name)>> = BTreeMap::new();
    for counter in &counters {
        let audit = keys.audit(keys.of_user(&counter.0));
        by_audit.entry(audit).or_default().push(counter);
    }
    for (audit, counters) in by_audit {
        type Entries = Vec<(String, HashMap<String, String>)>;
        let mut pipeline = redis::pipe();
        let since = pipeline.cmd("XRANGE").arg(&audit).arg(&dead_letter.id);
        since.arg(&["+", "COUNT"]).arg(MAX_AUDIT);
        pipeline
            .cmd("XRANGE")
            .arg(&audit)
            .arg(&["-", "+", "COUNT", "1"]);
        pipeline.cmd("XLEN").arg(&audit);
        let (since, first, length): (Entries, Entries, u64) =
            pipeline.query_async(&mut store.commands()).await?;
        let milliseconds = |id: &str| -> u64 {
            let text = id.split('-').next().unwrap_or_default();
            text.parse().unwrap_or(0)
        };
        let is_trimmed = length >= config.audit.retain_per_stream(keys)
            && first
                .first()
                .is_some_and(|(id, _)| milliseconds(id) > milliseconds(&dead_letter.id));
        if since.len() >= MAX_AUDIT || is_trimmed {
            corrected.extend(counters.into_iter().cloned());
            continue;
        }
        for counter in counters {
            let is_of = |fields: &HashMap<String, String>| {
                let is = |name: &str, value: &str| fields.get(name).is_some_and(|of| of == value);
                let by_check = ["user", "credits", "rebuild"]
                    .iter()
                    .any(|of| is("source", of));
                let of_user = is("etype", USER) && is("eid", counter.0.as_str());
                by_check
                    && of_user
                    && is("metric", counter.1.as_str())
                    && !fields.contains_key("note")
            };
            if since.iter().any(|(_, fields)| is_of(fields)) {
                corrected.insert(counter.clone());
            }
        }
    }
    Ok(corrected)
}

/// The payload of a retried entry, without what corrected counters include.
fn payload(
    dead_letter: &StoredDeadLetter,
    event: Option<&Event>,
    is_checked: bool,
    corrected: &BTreeSet<(Id, Name)>,
) -> Vec<u8> {
    match event {
        Some(event) if event.counted || is_checked || !corrected.is_empty() => {
            let first = event.counted.then_some(dead_letter.offset);
            let retried = Event {
                counted: event.counted || is_checked,
                corrected: corrected
                    .iter()
                    .map(|(_, counter)| counter.clone())
                    .collect(),
                retried: event.retried.or(first),
                ..event.clone()
            };
            retried.to_json().into()
        }
        _ if corrected.is_empty() => dead_letter.payload().to_vec(),
        _ => match serde_json::from_slice::<Derived>(dead_letter.payload()) {
            Ok(mut derived) => {
                let adds = derived.adds.into_iter();
                let left = adds.filter(|(uid, counter, _)| {
                    !corrected.contains(&(uid.clone(), counter.clone()))
                });
                derived.adds = left.collect();
                let is_empty = derived.adds.is_empty() && derived.revs.is_empty();
                match is_empty && derived.sums.is_empty() && derived.checks.is_empty() {
                    // A derived event has at least one list.
                    true => br#"{"adds":[]}"#.to_vec(),
                    // Strings and numbers can always be serialized.
                    false => serde_json::to_vec(&derived).unwrap_or_default(),
                }
            }
            Err(_) => dead_letter.payload().to_vec(),
        },
    }
}

fn call(
    store: &Store,
    config: &Config,
    (dead_letter, check): (&StoredDeadLetter, Option<FollowingCheck>),
    corrected: &BTreeSet<(Id, Name)>,
) -> RedisCall {
    let keys = store.keys();
    let partition = dead_letter.partition;
    let event = event(dead_letter);
    let mut all = vec![keys.dead(partition), keys.log(partition)];
    let source = check.iter().flat_map(|check| check.source.keys());
    all.extend(source.cloned());
    let mut call = RedisCall::script(RETRY.on(store.backend()), &all);
    call.cmd.arg(&dead_letter.id).arg(&dead_letter.kind);
    call.cmd.arg(payload(
        dead_letter,
        event.as_ref(),
        check.as_ref().is_some_and(|check| check.replaces_event),
        corrected,
    ));
    match event.and_then(|event| reread(store, config, event)) {
        Some(reread) => {
            call.cmd.arg(EntryKind::Reread.field());
            call.cmd.arg(reread.to_json());
        }
        None => {
            call.cmd.arg("").arg("");
        }
    }
    if let Some(FollowingCheck {
        check,
        metric,
        source,
        ..
    }) = check
    {
        call.cmd.arg(check.to_json_head()).arg(metric.as_str());
        source.add_arguments(&mut call.cmd);
    }
    call
}

/// The event of a dead letter that is not an envelope.
fn event(dead_letter: &StoredDeadLetter) -> Option<Event> {
    match EntryKind::of(dead_letter.kind.as_bytes()) {
        EntryKind::Event => serde_json::from_slice(dead_letter.payload()).ok(),
        _ => None,
    }
}

/// The check of the counter of an event's entity. `None` if the consumer does not change it, it does not count facts, or it cannot be checked:
/// what was counted before its metric had counts by day is not known by day yet.
async fn check(
    store: &Store,
    config: &Config,
    event: &Event,
) -> Result<Option<FollowingCheck>, StoreError> {
    let Some((name, metric)) = config.metrics.get(event.metric.as_str()) else {
        return Ok(None);
    };
    let layout = store.layout();
    let counted_by = Sources::new(config, &layout).of_entity(name);
    let etype = &event.entity.etype;
    let counted_in = schema_id(event, config).map(|schema| layout.columns_of(etype, schema));
    let is_of_type = counted_in == config.schema_of(etype).flatten();
    let has_fact = matches!(event.delta, 1 | -1) && is_of_type;
    if event.counted || !has_fact || !matches!(counted_by, Source::FactsBatched(_)) {
        return Ok(None);
    }
    if metric.daily && !complete_days(store).await?.contains(name) {
        return Ok(None);
    }
    let stores = FactStores::new(store.keys(), store.current_backend(), config.facts.shards);
    let (Some(facts), Ok(source)) = (stores.of(metric), Name::new(SOURCE)) else {
        return Ok(None);
    };
    Ok(Some(FollowingCheck {
        check: Check::exact(&event.entity, source),
        metric: name.clone(),
        source: facts.card_source(name, &event.entity),
        replaces_event: !metric.daily,
    }))
}

/// The fact to read again after an event is retried, if a timeline lists it: that of its user, or that of its entity. Later changes of the
/// fact may have been counted meanwhile.
fn reread(store: &Store, config: &Config, event: Event) -> Option<Reread> {
    let is_reverse = store.layout().is_reverse(&event.metric);
    let settings = config.metrics.get(event.metric.as_str());
    let is_ordered = settings.is_some_and(|(_, metric)| metric.order == Order::Time);
    (is_reverse || is_ordered).then(|| Reread {
        metric: event.metric,
        etype: event.entity.etype,
        eid: event.entity.eid,
        uids: vec![event.uid],
    })
}
