//! Records what was counted before days were kept, so that a counter is the sum of its days.

use super::super::settle::settle;
use super::pass::KeyPass;
use crate::domain::day::{civil, parse, with_dashes};
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::{Keys, Partition, StoragePhase};
use crate::redis::call::RedisCall;
use crate::redis::day_states::{DaysState, read_states, write_state};
use crate::redis::script::{DAY_COUNTS, DAY_NUMBERS, ScriptTemplate};
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use redis::FromRedisValue;
use std::sync::Arc;
use std::time::Duration;

pub(super) static FILL: ScriptTemplate = ScriptTemplate::writing(&[
    DAY_COUNTS,
    DAY_NUMBERS,
    include_str!("../../lua/days_fill.lua"),
]);

/// The pattern of the keys of tables and objects.
const COUNTERS: &str = "[ct][na][tb]:*";
/// How long to wait until events of other settings are counted. It is tried again after that.
const SETTLE: Duration = Duration::from_secs(5);
/// The number of rows of a script call, which blocks the server.
const ROWS: usize = 200;

/// A metric to be filled.
struct Filled<'a> {
    metric: &'a Name,
    /// The field for the counts.
    field: String,
}

/// The counters at a key.
enum Counters<'a> {
    /// A table of entities of a type.
    Rows(Name, Partition),
    /// The object of an entity.
    Object(&'a Entity),
}

/// Fills all metrics for which it has not been done. Returns false if it has to be repeated.
pub(super) async fn fill(store: &Store, catalog: &Catalog) -> Result<bool, StoreError> {
    let config = &catalog.config;
    let states = read_states(store).await?;
    for (metric, state) in &states {
        let is_daily = config.metrics.daily().any(|(name, _)| name == metric);
        if !is_daily && *state != DaysState::Off {
            write_state(store, metric, &DaysState::Off).await?;
        }
    }
    let is_filled = |metric: &Name| matches!(states.get(metric), Some(DaysState::On(_)));
    if config.metrics.daily().all(|(name, _)| is_filled(name)) {
        return Ok(true);
    }
    // A process without counts by day changes counters alone, and so do events that such a process has appended.
    if !settle(store, config, SETTLE).await? {
        tracing::info!("days are not filled: processes or uncounted events have other settings");
        return Ok(false);
    }
    let states = read_states(store).await?;
    let today = with_dashes(civil(config.days.calendar().day_of(now_ms())));
    let mut filled = Vec::new();
    for (metric, _) in config.metrics.daily() {
        let date = match states.get(metric) {
            Some(DaysState::On(_)) => continue,
            Some(DaysState::Filling(date)) => date.clone(),
            Some(DaysState::Off) | None => {
                write_state(store, metric, &DaysState::Filling(today.clone())).await?;
                today.clone()
            }
        };
        let day = parse(&date).unwrap_or_default();
        let field = Keys::counted_before(day);
        filled.push((Filled { metric, field }, date));
    }
    // Counters that a migration moves are filled after it.
    let layout = store.layout();
    let mut types = config.entities.keys();
    if types.any(|etype| layout.storage_of(etype) == StoragePhase::Moving) {
        return Ok(false);
    }
    let keys = store.keys();
    let mut entities = 0;
    let mut pass = KeyPass::new(store, COUNTERS)?;
    while let Some(page) = pass.next_page().await? {
        for key in page {
            let object = keys.entity_of_counters(&key);
            let (schema, counters) = match (&object, keys.parse_table(&key)) {
                (Some((schema, entity)), _) => (schema, Counters::Object(entity)),
                (None, Some((schema, etype, partition))) => {
                    (&schema.clone(), Counters::Rows(etype, partition))
                }
                (None, None) => continue,
            };
            for (metric, _) in &filled {
                entities += fill_key(store, catalog, (&key, schema, &counters), metric).await?;
            }
        }
    }
    let refreshed = store.refresh_layout().await;
    refreshed.map_err(|error| StoreError::Unexpected(error.to_string()))?;
    // A process that counts without days waits until the states are written, and interrupts them then.
    let _held = store.hold_layout().await;
    if !pass.is_complete() || !Arc::ptr_eq(&layout, &store.layout()) {
        return Ok(false);
    }
    for (Filled { metric, .. }, date) in filled {
        write_state(store, metric, &DaysState::On(date)).await?;
        tracing::info!(metric = metric.as_str(), "days are kept");
    }
    tracing::info!(entities, "recorded what was counted before days were kept");
    Ok(true)
}

/// Fills a metric of the counters at a key. Returns the number of entities with earlier counts.
async fn fill_key(
    store: &Store,
    catalog: &Catalog,
    (key, schema, counters): (&str, &Name, &Counters<'_>),
    Filled { metric, field }: &Filled<'_>,
) -> Result<u64, StoreError> {
    let (keys, config) = (store.keys(), &catalog.config);
    let (etype, partition) = match counters {
        Counters::Rows(etype, partition) => (etype, *partition),
        Counters::Object(entity) => (&entity.etype, keys.of_entity(entity)),
    };
    let of_type = config.schema_of(etype).flatten();
    let applies = config.metrics.get(metric.as_str());
    let applies = applies.is_some_and(|(_, settings)| settings.applies_to(etype));
    if of_type != Some(schema) || !applies {
        return Ok(0);
    }
    let stored = catalog.schemas.get(schema).await;
    let stored = stored.map_err(|error| StoreError::Unexpected(error.to_string()))?;
    let Some(idx) = stored.index_of(metric.as_str()) else {
        return Ok(0);
    };
    let hash = keys.totals_hash(metric, etype, partition);
    let backend = store.backend();
    let table = match backend.has_tables() {
        true => keys.totals_table(metric, etype, partition),
        false => hash.clone(),
    };
    let history = keys.history_template(metric, etype, partition);
    let (mut cursor, mut filled) = ("0".to_owned(), 0);
    loop {
        let script = FILL.on(backend);
        let mut call = RedisCall::script(script, &[key, &table, &hash]);
        call.cmd.arg(idx).arg(&history.prefix).arg(&history.suffix);
        call.cmd.arg(field);
        match counters {
            Counters::Rows(..) => call.cmd.arg("rows").arg(&cursor).arg(ROWS),
            Counters::Object(entity) => call.cmd.arg("object").arg(entity.eid.as_str()),
        };
        let reply = match call.send(store).await.map_err(StoreError::from) {
            Err(StoreError::WrongType(_)) => {
                tracing::warn!(key, "a damaged key has no counts before days");
                return Ok(filled);
            }
            reply => reply?,
        };
        let (next, count, damaged) = <(String, u64, u64)>::from_redis_value(reply)
            .map_err(|error| StoreError::Unexpected(format!("filling days: {error}")))?;
        filled += count;
        if damaged > 0 {
            // The next comparison of these entities replaces the keys, and adds what is missing.
            tracing::warn!(
                key,
                metric = metric.as_str(),
                damaged,
                "days of another type are not filled"
            );
            metrics::counter!("countd_days_damaged_total").increment(damaged);
        }
        if next == "0" {
            return Ok(filled);
        }
        cursor = next;
    }
}
