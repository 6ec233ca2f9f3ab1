//! Compares the counter, the total and the days of an entity, and corrects the wrong numbers.

use super::state::{DaysState, read_states};
use crate::domain::changes::ChangedEntities;
use crate::domain::day::{civil, with_dashes};
use crate::domain::error::{Problem, StoreError, rejected_by_foreign_last_id};
use crate::domain::event::{NewAuthor, now_ms};
use crate::domain::ids::Entity;
use crate::domain::keys::StoragePhase;
use crate::facts::{CounterField, counter_call};
use crate::log::renumber;
use crate::redis::day::totals_of;
use crate::redis::layout::Authors;
use crate::redis::script::{AUDIT, AUTHOR, CHANGES, DAY_COUNTS, ScriptTemplate};
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use crate::storage::locator::Locator;
use redis::FromRedisValue;

pub(super) static CHECK: ScriptTemplate = ScriptTemplate::writing(&[
    AUTHOR,
    CHANGES,
    AUDIT,
    DAY_COUNTS,
    include_str!("../../lua/day_totals.lua"),
    include_str!("../../lua/check_days.lua"),
]);

/// The number of entries that an audit keeps, about.
const RETAIN: usize = 10_000;

/// How the numbers are checked.
#[derive(Clone, Debug)]
pub struct DaysCheck<'a> {
    /// What the numbers must be, for a metric with facts: their number, if it cannot change meanwhile. `None` if two numbers that agree
    /// decide.
    pub expected: Option<u64>,
    /// The smallest difference that is corrected, at least 1.
    pub min_difference: u64,
    /// The trace ID of the check, for the audit.
    pub trace_id: &'a str,
}

/// The numbers of an entity before a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedDays {
    /// The counter.
    pub counter: i64,
    /// The total.
    pub total: i64,
    /// The sum of the days.
    pub days: i64,
    /// What all of them must be.
    pub target: i64,
    /// How many of them were corrected.
    pub corrected: u8,
    /// Whether all three differed.
    pub is_ambiguous: bool,
}

/// Checks the numbers of an entity in one step. `None` if the metric has no days, what was counted before is not recorded yet, or a
/// migration moves the counters of the type.
///
/// All processes must count the metric by day: otherwise counters are ahead of their days, and would be set back.
///
/// # Errors
/// The entity has no such counter, a key is damaged, or Redis failed.
pub async fn check_days(
    store: &Store,
    catalog: &Catalog,
    (metric, entity): (&str, &Entity),
    check: &DaysCheck<'_>,
) -> Result<Option<CheckedDays>, Problem> {
    let (metric, settings) = catalog.metric(metric)?;
    let locator = Locator::of(store);
    let is_moving = locator.storage_of(&entity.etype) == StoragePhase::Moving;
    let states = read_states(store).await?;
    if !settings.daily || is_moving || !matches!(states.get(metric), Some(DaysState::On(_))) {
        return Ok(None);
    }
    let (schema_id, idx, schema) = catalog.field(entity, metric.as_str()).await?;
    let counter = CounterField {
        at: locator.entity(schema_id, entity),
        idx,
        len: schema.len(),
        min_len: schema.min_len(),
        verify: false,
    };
    let (keys, config) = (store.keys(), &catalog.config);
    let partition = keys.of_entity(entity);
    let (totals, row) = totals_of((keys, store.backend()), metric, entity);
    let mut all = vec![
        counter.at.key().to_owned(),
        keys.days_of(metric, entity),
        keys.history_of(metric, entity),
        totals,
        keys.audit(partition),
    ];
    let is_credited =
        store.layout().authors != Authors::Event && settings.author_counters().next().is_some();
    let mut entry = String::new();
    if is_credited {
        all.push(keys.log(partition));
        entry = NewAuthor::unchanged(entity).to_json();
    }
    let mut changed = ChangedEntities::default();
    if config.changes.enabled {
        all.push(keys.changes(partition));
        changed.add(entity);
    }
    let now = now_ms();
    let today = with_dashes(civil(config.days.calendar().day_of(now)));
    let script = (&CHECK, store.backend());
    let call = counter_call(script, &all, (Some(&counter), 0, None), |cmd| {
        cmd.arg(&counter.script_args());
        cmd.arg(row.map(|row| row.to_string()).unwrap_or_default());
        cmd.arg(entity.eid.as_str());
        let expected = check.expected.map(|expected| expected.to_string());
        cmd.arg(expected.unwrap_or_default());
        cmd.arg(check.min_difference.max(1));
        cmd.arg(format!("corrected_{today}")).arg(entry);
        cmd.arg(RETAIN).arg(config.changes.retain_per_stream(keys));
        cmd.arg(changed.contents().concat());
        for (field, value) in [
            ("source", "days"),
            ("etype", entity.etype.as_str()),
            ("eid", entity.eid.as_str()),
            ("metric", metric.as_str()),
            ("traceId", check.trace_id),
            ("ts", &now.to_string()),
        ] {
            cmd.arg(field).arg(value);
        }
    });
    let reply = match call.send(store).await {
        // A rejected append has no effect.
        Err(error) if rejected_by_foreign_last_id(&error) => {
            renumber(store, partition).await?;
            call.send(store).await
        }
        reply => reply,
    };
    let numbers = <[i64; 6]>::from_redis_value(reply?)
        .map_err(|error| StoreError::Unexpected(format!("the check of days: {error}")))?;
    let [counter, total, days, target, corrected, is_ambiguous] = numbers;
    metrics::counter!("countd_days_corrected_total").increment(corrected.unsigned_abs());
    Ok(Some(CheckedDays {
        counter,
        total,
        days,
        target,
        corrected: u8::try_from(corrected).unwrap_or(u8::MAX),
        is_ambiguous: is_ambiguous == 1,
    }))
}
