//! Compares the counters of entities with their facts, totals and days exactly, whatever happens meanwhile.
//!
//! A counter that changes with its fact, or with its counts by day, is compared in one script. For a counter that the consumer changes, the number of facts is
//! appended to the log, and the commit that reaches the entry compares.

use super::append::{CheckRequest, append_checks};
use super::check_now::{
    CheckNow, CheckedCounter, CheckedTable, CounterCheck, Found, Outcome, check_now, record_found,
};
use super::plan::{Planner, TypePlan};
use crate::domain::error::StoreError;
use crate::domain::event::{Check, CheckMode};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How counters are compared.
#[derive(Clone, Debug)]
pub struct CheckSettings {
    /// What to do with differences.
    pub mode: CheckMode,
    /// The source of corrections, for the audit.
    pub source: Name,
    /// The number of the round; 0 outside of one.
    pub round: u64,
    /// The report to which commits add what they have found.
    pub report: Option<Id>,
}

/// What an exact comparison has found, and what it has left to the consumers.
#[derive(Debug, Default)]
pub struct ExactChecks {
    /// What was found of the counters that were compared in this step.
    pub found: Vec<(Name, Found)>,
    /// The tables of the entities of which counters were compared in this step, in the order of the comparisons of each table.
    pub tables: Vec<(Entity, CheckedTable)>,
    /// The entities of which no counter could be compared.
    pub damaged: Vec<Entity>,
    /// The last check that was appended to each log.
    pub appended: BTreeMap<Partition, u64>,
    /// The counters whose checks were appended.
    pub waiting: Vec<(Entity, Name)>,
}

impl CheckSettings {
    /// The entry that checks an entity.
    fn entry(&self, entity: &Entity) -> Check {
        Check {
            mode: self.mode,
            report: self.report.clone(),
            round: self.round,
            ..Check::exact(entity, self.source.clone())
        }
    }
}

/// The entities that have counters to compare, with the plan of their type.
///
/// # Errors
/// The schemas cannot be read.
pub async fn planned<'e>(
    planner: &mut Planner,
    entities: &'e [Entity],
) -> Result<Vec<(&'e Entity, Arc<TypePlan>)>, StoreError> {
    let mut planned = Vec::with_capacity(entities.len());
    for entity in entities {
        if let Some(plan) = planner.of_type(&entity.etype).await? {
            planned.push((entity, plan));
        }
    }
    Ok(planned)
}

/// Compares the counters of entities with their facts exactly. All processes must change counters of facts in the same step
/// ([`settle`](super::settle)).
///
/// # Errors
/// The store is unavailable, or a log rejects the entries. Some counters may have been corrected: a repeated check has no effect.
pub async fn check_exactly(
    (store, catalog): (&Store, &Catalog),
    planner: &mut Planner,
    settings: &CheckSettings,
    entities: &[Entity],
) -> Result<ExactChecks, StoreError> {
    // Until the comparison ends, a process with other settings waits.
    let _held = store.hold_layout().await;
    if store.layout().counting != catalog.config.counting() {
        return Err(StoreError::OtherSettings);
    }
    planner.follow_layout();
    let (mut now, mut batched) = (Vec::new(), Vec::new());
    for (entity, plan) in planned(planner, entities).await? {
        let mut check = CounterCheck {
            entity: entity.clone(),
            counters: Vec::new(),
            feeds_author: false,
        };
        let mut request = CheckRequest {
            check: settings.entry(entity),
            metrics: Vec::new(),
        };
        for metric in &plan.metrics {
            match planner.source(metric, entity) {
                Some(facts) if metric.is_batched => {
                    request.metrics.push((metric.name.clone(), facts));
                }
                facts => {
                    check.feeds_author |= metric.feeds_author;
                    check.counters.push(CheckedCounter {
                        metric: metric.name.clone(),
                        field: planner.field(&plan, metric, entity),
                        facts,
                        days: planner.days(metric, entity),
                    });
                }
            }
        }
        if !check.counters.is_empty() {
            now.push(check);
        }
        if !request.metrics.is_empty() {
            batched.push(request);
        }
    }
    let mut checks = ExactChecks::default();
    let source = settings.source.as_str();
    let how = CheckNow {
        mode: settings.mode,
        source,
        round: settings.round,
        trace_id: "-",
    };
    let found = check_now(store, &catalog.config, how, &now).await?;
    for (check, of_entity) in now.iter().zip(found) {
        let found = of_entity.counters;
        checks.tables.push((check.entity.clone(), of_entity.table));
        if found.iter().all(|of| of.outcome == Outcome::Unchecked) {
            checks.damaged.push(check.entity.clone());
        }
        for (counter, found) in check.counters.iter().zip(found) {
            record_found(source, found);
            checks.found.push((counter.metric.clone(), found));
        }
    }
    for CheckRequest { check, metrics } in &batched {
        let metrics = metrics.iter();
        let waiting = metrics.map(|(metric, _)| (check.entity(), metric.clone()));
        checks.waiting.extend(waiting);
    }
    checks.appended = append_checks(store, &batched).await?.last;
    Ok(checks)
}
