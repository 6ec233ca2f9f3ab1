//! Adds the differences between counters and what the log says.

use super::error::RebuildError;
use super::observe::{Observation, Observer};
use super::report::Report;
use super::since::Since;
use crate::consumer::server_history::SERVER_HISTORY;
use crate::domain::changes::ChangedEntities;
use crate::domain::day::{civil, with_dashes};
use crate::domain::error::rejected_by_foreign_last_id;
use crate::domain::event::{Cause, Journal, now_ms};
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::Partition;
use crate::log::renumber;
use crate::redis::call::RedisCall;
use crate::redis::day::DayNumbers;
use crate::redis::script::{AUDIT, CHANGES, DAY_COUNTS, ScriptTemplate};
use crate::redis::store::Store;
use crate::repair::{Costs, DAY_COST_PERMISSIONS};
use crate::storage::catalog::Catalog;
use crate::storage::locator::Locator;
use crate::storage::schema::Schema;
use redis::{FromRedisValue, Value};
use std::collections::{BTreeSet, HashSet};

/// Adds differences.
pub(super) static APPLY: ScriptTemplate = ScriptTemplate::writing(&[
    CHANGES,
    AUDIT,
    SERVER_HISTORY,
    DAY_COUNTS,
    include_str!("../../lua/day_totals.lua"),
    include_str!("../../lua/rebuild_apply.lua"),
]);

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = DAY_COST_PERMISSIONS;

/// The maximum number of entities per call. The script blocks the server.
const ENTITIES_PER_CALL: usize = 200;
/// How often a call is repeated because the log has grown too much since it was read.
const ATTEMPTS: usize = 200;

/// A difference of a counter.
struct Difference {
    idx: usize,
    metric: Name,
    value: i64,
}

/// The differences of the counters of an entity, and its place in the observation.
type OfEntity = (usize, Vec<Difference>);

/// What became of differences.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// They were added.
    Applied,
    /// Something else may have changed counters of the entities.
    Stale,
    /// The script did not read all that the log has since then.
    Behind,
}

/// The differences of the counters of a page.
pub struct Differences<'o> {
    observation: &'o Observation,
    entities: Vec<OfEntity>,
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

    /// Adds the differences, in calls of bounded cost. Returns the added differences, and whether all were added. If not, counters may have
    /// changed since they were observed, and must be observed again.
    ///
    /// # Errors
    /// The store is unavailable, or rejects the call.
    pub async fn apply(
        &self,
        (store, catalog): (&Store, &Catalog),
        observer: &Observer,
        partition: Partition,
        (schema_id, schema): (&Name, &Schema),
    ) -> Result<(Vec<(Name, i64)>, bool), RebuildError> {
        let mut costs = Costs::default();
        for (place, differences) in &self.entities {
            costs.add_entity();
            for difference in differences {
                let entity = &self.observation.rows[*place].entity;
                let days = difference.days((store, catalog), entity);
                costs.add_counter(None, days.as_ref());
            }
        }
        let entities = self.entities.iter();
        let entities = entities.map(|(place, _)| &self.observation.rows[*place].entity);
        // A call leaves journal entries of its entities.
        let mut left: HashSet<&Entity> = entities.collect();
        let mut since = Since::new(partition, self.observation);
        let mut applied = Vec::new();
        for range in costs.calls(store, ENTITIES_PER_CALL).await? {
            let part = &self.entities[range];
            let mut outcome = Outcome::Behind;
            for _ in 0..ATTEMPTS {
                if since.has_changes((store, observer), &left).await? {
                    return Ok((applied, false));
                }
                let call = self.call((store, catalog), &since, (schema_id, schema), part)?;
                outcome = match call.send(store).await {
                    // Nothing was changed.
                    Err(error) if rejected_by_foreign_last_id(&error) => {
                        renumber(store, partition).await?;
                        Outcome::Stale
                    }
                    reply => Outcome::of(reply?)?,
                };
                if outcome != Outcome::Behind {
                    break;
                }
            }
            if outcome != Outcome::Applied {
                return Ok((applied, false));
            }
            for (place, differences) in part {
                left.remove(&self.observation.rows[*place].entity);
                applied.extend(differences.iter().map(|of| (of.metric.clone(), of.value)));
            }
        }
        Ok((applied, true))
    }

    fn call(
        &self,
        (store, catalog): (&Store, &Catalog),
        since: &Since,
        (schema_id, schema): (&Name, &Schema),
        part: &[OfEntity],
    ) -> Result<RedisCall, RebuildError> {
        let (keys, config, locator) = (store.keys(), &catalog.config, Locator::of(store));
        let partition = since.partition;
        let (log, audit) = (keys.log(partition), keys.audit(partition));
        let changes = match config.changes.enabled {
            true => keys.changes(partition),
            false => log.clone(),
        };
        let mut all = vec![log, audit, changes];
        let mut changed = ChangedEntities::default();
        let mut arguments: Vec<String> = Vec::new();
        let now = now_ms();
        for (place, differences) in part {
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
            .arg(&self.observation.history)
            .arg(format!("0-{}", since.last))
            .arg(&since.last_audit)
            .arg(config.audit.retain_per_stream(keys))
            .arg(config.changes.retain_per_stream(keys))
            .arg(contents.len())
            .arg(&contents)
            .arg(format!("corrected_{today}"))
            .arg(part.len())
            .arg(&arguments);
        for (field, value) in [
            ("source", "replay"),
            ("round", "0"),
            ("traceId", "-"),
            ("ts", &now.to_string()),
        ] {
            call.cmd.arg(field).arg(value);
        }
        Ok(call)
    }
}

impl Outcome {
    /// The outcome in a reply of the script.
    fn of(reply: Value) -> Result<Outcome, RebuildError> {
        match u8::from_redis_value(reply).map_err(super::error::unexpected)? {
            0 => Ok(Outcome::Stale),
            1 => Ok(Outcome::Applied),
            _ => Ok(Outcome::Behind),
        }
    }
}

impl Difference {
    /// The counts by day, if the metric has them.
    fn days(&self, (store, catalog): (&Store, &Catalog), entity: &Entity) -> Option<DayNumbers> {
        let metric = catalog.config.metrics.get(self.metric.as_str());
        let is_daily = metric.is_some_and(|(_, metric)| metric.daily);
        let layout = (store.keys(), store.backend());
        is_daily.then(|| DayNumbers::new(layout, &self.metric, entity))
    }
}

fn add_difference(
    (store, catalog, entity): (&Store, &Catalog, &Entity),
    difference: &Difference,
    keys: &mut Vec<String>,
    arguments: &mut Vec<String>,
) {
    let days = difference.days((store, catalog), entity);
    arguments.extend([
        difference.idx.to_string(),
        difference.metric.to_string(),
        difference.value.to_string(),
        u8::from(days.is_some()).to_string(),
        days.as_ref()
            .map(DayNumbers::row_argument)
            .unwrap_or_default(),
    ]);
    keys.extend(days.iter().flat_map(|days| days.keys().iter().cloned()));
}
