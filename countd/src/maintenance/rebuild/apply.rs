//! Adds the differences between counters and what the log says.

use super::error::RebuildError;
use super::observe::Observation;
use super::report::Report;
use crate::domain::changes::ChangedEntities;
use crate::domain::day::{civil, with_dashes};
use crate::domain::error::rejected_by_foreign_last_id;
use crate::domain::event::{Cause, Journal, now_ms};
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::Partition;
use crate::log::renumber;
use crate::redis::call::RedisCall;
use crate::redis::day::totals_of;
use crate::redis::script::{AUDIT, CHANGES, DAY_COUNTS, ScriptTemplate};
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use crate::storage::locator::Locator;
use crate::storage::schema::Schema;
use redis::FromRedisValue;
use std::collections::BTreeSet;

/// Adds differences.
pub(super) static APPLY: ScriptTemplate = ScriptTemplate::writing(&[
    CHANGES,
    AUDIT,
    DAY_COUNTS,
    include_str!("../../lua/day_totals.lua"),
    include_str!("../../lua/rebuild_apply.lua"),
]);

/// A difference of a counter.
struct Difference {
    idx: usize,
    metric: Name,
    value: i64,
}

/// The differences of the counters of a page.
pub struct Differences<'o> {
    observation: &'o Observation,
    /// Entities, by their place in the observation.
    entities: Vec<(usize, Vec<Difference>)>,
}

impl<'o> Differences<'o> {
    /// Compares counters of these metrics with what the log says.
    pub fn of(
        observation: &'o Observation,
        schema: &Schema,
        metrics: &BTreeSet<Name>,
        report: &mut Report,
    ) -> Differences<'o> {
        let mut entities = Vec::new();
        for (place, row) in observation.rows.iter().enumerate() {
            let mut differences = Vec::new();
            for (idx, name) in schema.names().iter().enumerate() {
                if !metrics.contains(name) {
                    continue;
                }
                let (expected, actual) = (row.expected(idx), row.actual(idx));
                report.compare(name, expected - actual);
                if expected != actual {
                    differences.push(Difference {
                        idx,
                        metric: name.clone(),
                        value: expected - actual,
                    });
                }
            }
            if !differences.is_empty() {
                entities.push((place, differences));
            }
        }
        Differences {
            observation,
            entities,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entities.is_empty()
    }

    /// Adds the differences. Returns whether that was possible: otherwise something else may have changed counters, and they have to be
    /// observed again.
    ///
    /// # Errors
    /// The store is unavailable, or rejects the call.
    pub async fn apply(
        &self,
        (store, catalog): (&Store, &Catalog),
        partition: Partition,
        (schema_id, schema): (&Name, &Schema),
        report: &mut Report,
    ) -> Result<bool, RebuildError> {
        let call = self.call((store, catalog), partition, (schema_id, schema))?;
        let reply = match call.send(store).await {
            // Nothing was changed.
            Err(error) if rejected_by_foreign_last_id(&error) => {
                renumber(store, partition).await?;
                return Ok(false);
            }
            reply => reply?,
        };
        let is_applied = bool::from_redis_value(reply).map_err(super::observe::unexpected)?;
        if is_applied {
            let differences = self
                .entities
                .iter()
                .flat_map(|(_, differences)| differences);
            differences.for_each(|difference| report.correct(&difference.metric));
        }
        Ok(is_applied)
    }

    fn call(
        &self,
        (store, catalog): (&Store, &Catalog),
        partition: Partition,
        (schema_id, schema): (&Name, &Schema),
    ) -> Result<RedisCall, RebuildError> {
        let (keys, config, locator) = (store.keys(), &catalog.config, Locator::of(store));
        let (log, audit) = (keys.log(partition), keys.audit(partition));
        let changes = match config.changes.enabled {
            true => keys.changes(partition),
            false => log.clone(),
        };
        let mut all = vec![log, audit, changes];
        let mut changed = ChangedEntities::default();
        let mut arguments: Vec<String> = Vec::new();
        let now = now_ms();
        for (place, differences) in &self.entities {
            let row = &self.observation.rows[*place];
            let at = locator.entity(schema_id, &row.entity);
            if at.moving().is_some() {
                return Err(RebuildError::Moving(row.entity.etype.clone()));
            }
            if config.changes.enabled {
                changed.add(&row.entity);
            }
            all.push(at.key().to_owned());
            arguments.extend([
                row.entity.etype.to_string(),
                row.entity.eid.to_string(),
                Journal::of_changes(&row.entity, Cause::Repair, now),
                at.row().map(|row| row.to_string()).unwrap_or_default(),
                schema.len().to_string(),
                row.state.to_string(),
                differences.len().to_string(),
            ]);
            for difference in differences {
                let of = (store, catalog, &row.entity);
                add_difference(of, difference, &mut all, &mut arguments);
            }
        }
        let mut call = RedisCall::script(APPLY.on(store.backend()), &all);
        let contents = changed.contents();
        let today = with_dashes(civil(config.days.calendar().day_of(now)));
        call.cmd
            .arg(format!("0-{}", self.observation.last))
            .arg(&self.observation.last_audit)
            .arg(config.audit.retain_per_stream(keys))
            .arg(config.changes.retain_per_stream(keys))
            .arg(contents.len())
            .arg(&contents)
            .arg(format!("corrected_{today}"))
            .arg(self.entities.len())
            .arg(&arguments);
        for (field, value) in [
            ("source", "replay"),
            ("traceId", "-"),
            ("ts", &now.to_string()),
        ] {
            call.cmd.arg(field).arg(value);
        }
        Ok(call)
    }
}

fn add_difference(
    (store, catalog, entity): (&Store, &Catalog, &Entity),
    difference: &Difference,
    keys: &mut Vec<String>,
    arguments: &mut Vec<String>,
) {
    let layout = store.keys();
    let metric = catalog.config.metrics.get(difference.metric.as_str());
    let is_daily = metric.is_some_and(|(_, metric)| metric.daily);
    arguments.extend([
        difference.idx.to_string(),
        difference.metric.to_string(),
        difference.value.to_string(),
        u8::from(is_daily).to_string(),
    ]);
    let mut total_row = String::new();
    if is_daily {
        let (totals, row) = totals_of((layout, store.backend()), &difference.metric, entity);
        keys.extend([
            layout.days_of(&difference.metric, entity),
            layout.history_of(&difference.metric, entity),
            totals,
        ]);
        total_row = row.map(|row| row.to_string()).unwrap_or_default();
    }
    arguments.push(total_row);
}
