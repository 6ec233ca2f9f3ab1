//! Retries dead letters.
//!
//! A check may have corrected the counter that an event could not change. The fact itself tells what the counter has to be, so a retried
//! event of a fact leaves the counter of its entity alone, and a check of it follows. Whether timelines list the fact is read again, too.

use crate::domain::config::{Config, Order};
use crate::domain::error::{StoreError, rejected_by_foreign_last_id};
use crate::domain::event::{Check, CheckMode, Event, Reread};
use crate::domain::event_class::schema_id;
use crate::domain::ids::Name;
use crate::facts::{CardSource, FactStores};
use crate::log::dead_letters::{StoredDeadLetter, delete};
use crate::log::{EntryKind, renumber};
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, SOURCES, ScriptTemplate};
use crate::redis::store::Store;
use crate::repair::source::{Source, Sources};
use redis::FromRedisValue;

static RETRY: ScriptTemplate =
    ScriptTemplate::writing(&[SOURCES, include_str!("../lua/dead_letter_retry.lua")]);

/// What the audit names as the source of the corrections.
const SOURCE: &str = "check";

/// The permissions that [`retry`] requires.
pub fn retry_permissions(backend: CounterBackend) -> Permissions {
    RETRY.required_permissions(backend)
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
    let call = call(store, config, dead_letter);
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

fn call(store: &Store, config: &Config, dead_letter: &StoredDeadLetter) -> RedisCall {
    let keys = store.keys();
    let partition = dead_letter.partition;
    let event = event(dead_letter);
    let check = event.as_ref().and_then(|event| check(store, config, event));
    let mut all = vec![keys.dead(partition), keys.log(partition)];
    let source = check.iter().flat_map(|(_, _, source)| source.keys());
    all.extend(source.cloned());
    let mut call = RedisCall::script(RETRY.on(store.backend()), &all);
    call.cmd.arg(&dead_letter.id).arg(&dead_letter.kind);
    match (&event, &check) {
        (Some(event), Some(_)) => {
            let counted = Event {
                counted: true,
                ..event.clone()
            };
            call.cmd.arg(counted.to_json());
        }
        _ => {
            call.cmd.arg(dead_letter.payload());
        }
    }
    match event.and_then(|event| reread(store, config, event)) {
        Some(reread) => {
            call.cmd.arg(EntryKind::Reread.field());
            call.cmd.arg(reread.to_json());
        }
        None => {
            call.cmd.arg("").arg("");
        }
    }
    if let Some((check, metric, source)) = check {
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

/// The check of the counter of an event's entity. `None` if the consumer does not change it, or it does not count facts.
fn check(store: &Store, config: &Config, event: &Event) -> Option<(Check, Name, CardSource)> {
    let (name, metric) = config.metrics.get(event.metric.as_str())?;
    let layout = store.layout();
    let source = Sources::new(config, &layout).of_entity(name);
    let is_of_type = schema_id(event, config) == config.schema_of(&event.entity.etype).flatten();
    let has_fact = matches!(event.delta, 1 | -1) && is_of_type;
    if event.counted || metric.daily || !has_fact || !matches!(source, Source::FactsBatched(_)) {
        return None;
    }
    let stores = FactStores::new(store.keys(), store.backend(), config.facts.shards);
    let source = stores.of(metric)?.card_source(name, &event.entity);
    let check = Check {
        etype: event.entity.etype.clone(),
        eid: event.entity.eid.clone(),
        checks: Vec::new(),
        facts: Vec::new(),
        mode: CheckMode::Exact,
        report: None,
        lock: None,
        round: 0,
        source: Name::new(SOURCE).ok()?,
        trace_id: None,
    };
    Some((check, name.clone(), source))
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
