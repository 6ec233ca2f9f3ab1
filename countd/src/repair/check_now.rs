//! Compares counters in one step, and corrects them: counters that change with their facts with the numbers of facts, and counters with
//! counts by day with their totals and days.

use super::cost::{COST_PERMISSIONS, Costs, DAY_COST_PERMISSIONS};
use crate::domain::config::Config;
use crate::domain::error::{StoreError, rejected_by_foreign_last_id};
use crate::domain::event::{Cause, CheckMode, Journal, NewAuthor, now_ms};
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::{Keys, Partition};
use crate::facts::{CardSource, CounterField, recount, recount_permissions};
use crate::log::renumber;
use crate::redis::call::RedisCall;
use crate::redis::day::DayNumbers;
use crate::redis::permissions::Permissions;
use crate::redis::script::{
    AUDIT, CHANGES, CounterBackend, DAY_COUNTS, DAY_NUMBERS, DRIFT, SOURCES, ScriptTemplate,
};
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::collections::BTreeMap;

static CHECK_NOW: ScriptTemplate = ScriptTemplate::writing(&[
    SOURCES,
    CHANGES,
    AUDIT,
    DRIFT,
    DAY_COUNTS,
    DAY_NUMBERS,
    include_str!("../lua/check_now.lua"),
]);

/// The maximum number of entities per call. The script blocks the server.
const ENTITIES_PER_CALL: usize = 50;

/// The permissions that [`check_now`] requires.
pub fn check_now_permissions(backend: CounterBackend) -> Permissions {
    CHECK_NOW
        .required_permissions(backend)
        .and(recount_permissions(backend))
        .and(Permissions::of_commands(COST_PERMISSIONS))
        .and(Permissions::of_commands(DAY_COST_PERMISSIONS))
}

/// A counter to compare.
#[derive(Clone, Debug)]
pub struct CheckedCounter {
    /// The metric.
    pub metric: Name,
    /// The counter.
    pub field: CounterField,
    /// Where its facts are, which change with it. Without facts, its total and its days decide.
    pub facts: Option<CardSource>,
    /// Its counts by day, which are corrected with it.
    pub days: Option<DayNumbers>,
}

/// The counters of an entity to compare.
#[derive(Clone, Debug)]
pub struct CounterCheck {
    /// The entity.
    pub entity: Entity,
    /// The counters, all in one place. At least one. Each has facts or days.
    pub counters: Vec<CheckedCounter>,
    /// Whether a metric feeds the author of the entity, whose credit has to follow.
    pub feeds_author: bool,
}

/// How counters are compared.
#[derive(Clone, Copy, Debug)]
pub struct CheckNow<'a> {
    /// What to do with differences.
    pub mode: CheckMode,
    /// The source of corrections, for the audit.
    pub source: &'a str,
    /// The round of the reconciliation; 0 outside of one.
    pub round: u64,
    /// The trace ID of the request; `-` without one.
    pub trace_id: &'a str,
}

/// What a check has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The counter before.
    pub before: u64,
    /// What the counter must be.
    pub expected: u64,
    /// The largest difference: that of the counter, its total or its days.
    pub difference: u64,
    /// The outcome: a code of drift.lua.
    pub outcome: Outcome,
}

/// The table of the counters of an entity, when they were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckedTable {
    /// It existed.
    Exists,
    /// It did not exist, and the correction has created it.
    Created,
    /// It does not exist, or the counters are in an object.
    None,
}

/// What a check has found of an entity.
#[derive(Clone, Debug)]
pub struct FoundOfEntity {
    /// The table of the counters.
    pub table: CheckedTable,
    /// What was found of each counter, in order.
    pub counters: Vec<Found>,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The counter was right.
    Equal,
    /// The counter differs, and was not corrected.
    Differs,
    /// The counter was corrected.
    Corrected,
    /// The counter could not be compared.
    Unchecked,
}

impl Outcome {
    /// The outcome with this code of drift.lua.
    pub fn of_code(code: u64) -> Outcome {
        match code {
            0 => Outcome::Equal,
            1 => Outcome::Differs,
            2 => Outcome::Corrected,
            _ => Outcome::Unchecked,
        }
    }
}

/// Updates the metrics for a compared counter.
pub fn record_difference(source: &str, difference: u64, outcome: Outcome) {
    if outcome == Outcome::Unchecked {
        metrics::counter!("countd_checks_skipped_total").increment(1);
        return;
    }
    let source = source.to_owned();
    metrics::histogram!("countd_counter_difference", "source" => source.clone())
        .record(difference as f64);
    if outcome == Outcome::Corrected {
        metrics::counter!("countd_corrections_total", "source" => source).increment(1);
    }
}

/// Updates the metrics for a counter that was compared.
pub fn record_found(source: &str, found: Found) {
    record_difference(source, found.difference, found.outcome);
}

/// Compares the counters of entities with their facts, totals and days. Returns what was found of each entity, in order. The entities of a
/// partition are compared in this order.
///
/// # Errors
/// The store is unavailable. Some counters may have been corrected.
pub async fn check_now(
    store: &Store,
    config: &Config,
    settings: CheckNow<'_>,
    checks: &[CounterCheck],
) -> Result<Vec<FoundOfEntity>, StoreError> {
    let mut by_partition: BTreeMap<Partition, Vec<usize>> = BTreeMap::new();
    for (index, check) in checks.iter().enumerate() {
        let partition = store.keys().of_entity(&check.entity);
        by_partition.entry(partition).or_default().push(index);
    }
    let nothing = FoundOfEntity {
        table: CheckedTable::None,
        counters: Vec::new(),
    };
    let mut found = vec![nothing; checks.len()];
    for (partition, indexes) in by_partition {
        let mut costs = Costs::default();
        for at in &indexes {
            costs.add_entity();
            for counter in &checks[*at].counters {
                costs.add_counter(counter.facts.as_ref(), counter.days.as_ref());
            }
        }
        for range in costs.calls(store, ENTITIES_PER_CALL).await? {
            let indexes = &indexes[range];
            let of_call: Vec<&CounterCheck> = indexes.iter().map(|at| &checks[*at]).collect();
            let counters = of_call.iter().flat_map(|check| &check.counters);
            recount(store, counters.filter_map(|of| of.facts.as_ref())).await?;
            let call = call(store, config, settings, partition, &of_call);
            let reply = match call.send(store).await {
                // Entities before the rejected append are corrected. They are equal now.
                Err(error) if rejected_by_foreign_last_id(&error) => {
                    renumber(store, partition).await?;
                    call.send(store).await
                }
                reply => reply,
            };
            let numbers = Vec::<u64>::from_redis_value(reply?)
                .map_err(|error| StoreError::Unexpected(format!("compared counters: {error}")))?;
            let mut numbers = numbers.into_iter();
            for at in indexes {
                let table = match numbers.next() {
                    Some(1) => CheckedTable::Exists,
                    Some(2) => CheckedTable::Created,
                    _ => CheckedTable::None,
                };
                let of_entity = numbers.by_ref().take(4 * checks[*at].counters.len());
                let of_entity: Vec<u64> = of_entity.collect();
                let counters = of_entity.chunks_exact(4).map(|found| Found {
                    before: found[0],
                    expected: found[1],
                    difference: found[2],
                    outcome: Outcome::of_code(found[3]),
                });
                let counters = counters.collect();
                found[*at] = FoundOfEntity { table, counters };
            }
        }
    }
    Ok(found)
}

fn call(
    store: &Store,
    config: &Config,
    settings: CheckNow<'_>,
    partition: Partition,
    checks: &[&CounterCheck],
) -> RedisCall {
    let keys = store.keys();
    let changes = config.changes.enabled.then(|| keys.changes(partition));
    let mut all = vec![
        keys.log(partition),
        keys.position(partition),
        keys.audit(partition),
        keys.drift(partition),
    ];
    all.extend(changes.clone());
    for check in checks {
        let counters = check.counters.first();
        all.extend(counters.map(|counter| counter.field.at.key().to_owned()));
        for counter in &check.counters {
            let days = counter.days.iter();
            all.extend(days.flat_map(|days| days.keys().iter().cloned()));
            let facts = counter.facts.iter();
            all.extend(facts.flat_map(|facts| facts.keys().iter().cloned()));
        }
    }
    let mut call = RedisCall::script(CHECK_NOW.on(store.backend()), &all);
    let (cmd, now) = (&mut call.cmd, now_ms());
    cmd.arg(settings.mode.name())
        .arg(config.reconcile.min_difference)
        .arg(config.reconcile.min_percent)
        .arg(config.audit.retain_per_stream(keys))
        .arg(settings.round)
        .arg(settings.source)
        .arg(settings.trace_id)
        .arg(now);
    let today = config.days.calendar().day_of(now);
    cmd.arg(Keys::corrected_on(today));
    match changes {
        Some(_) => cmd.arg(config.changes.retain_per_stream(keys)),
        None => cmd.arg(""),
    };
    for check in checks {
        let Some(CheckedCounter { field, .. }) = check.counters.first() else {
            continue;
        };
        let [row, _, len, min_len] = field.script_args();
        cmd.arg(row).arg(len).arg(min_len);
        cmd.arg(check.entity.etype.as_str())
            .arg(check.entity.eid.as_str());
        cmd.arg(match (store.layout().journals(), check.feeds_author) {
            (true, _) => Journal::of_changes(&check.entity, Cause::Repair, now),
            (false, true) => NewAuthor::unchanged(&check.entity).to_json(),
            (false, false) => String::new(),
        });
        cmd.arg(check.counters.len());
        for counter in &check.counters {
            cmd.arg(counter.field.idx).arg(counter.metric.as_str());
            cmd.arg(u8::from(counter.days.is_some()));
            if let Some(days) = &counter.days {
                cmd.arg(days.row_argument());
            }
            cmd.arg(u8::from(counter.facts.is_some()));
            if let Some(facts) = &counter.facts {
                facts.add_arguments(cmd);
            }
        }
    }
    call
}
