//! Compares the counters of entities with their facts and totals: by plain reads, and exactly.

use super::cards::CardReads;
use super::context::Context;
use super::keys::KeyPage;
use crate::domain::error::StoreError;
use crate::domain::event::CheckMode;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::facts::{Card, FactStores};
use crate::maintenance::report::Report;
use crate::query::fields::{CountersToRead, read_fields, read_page};
use crate::redis::call::RedisCall;
use crate::redis::day::DayNumbers;
use crate::repair::{
    CheckSettings, CheckedTable, Found, Planner, Rebuilder, check_exactly, planned,
};
use redis::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Commands that this file sends for metrics with counts by day.
pub(super) const DAY_PERMISSIONS: &[&str] = &["HGET {day_counts} f"];
/// Those with tables.
pub(super) const DAY_TABLE_PERMISSIONS: &[&str] = &["CTAB.MGET {totals} 0"];
/// The number of sweeps in which the days of all entities are added up.
const DAY_PARTS: u64 = 16;
/// The maximum number of entities that are compared at once.
pub const PAGE: usize = 500;

/// Compares counters, and collects what it finds.
pub struct Comparer {
    context: Context,
    settings: CheckSettings,
    /// The counters of each type.
    pub planner: Planner,
    /// What was found, except what commits find.
    pub report: Report,
    /// The last check that was appended to each log.
    pub appended: BTreeMap<Partition, u64>,
    /// The counters whose checks were appended.
    pub waiting: BTreeSet<(Entity, Name)>,
    rebuilder: Rebuilder,
    /// The number of the sweep, which decides whose days are added up.
    sweep: u64,
}

impl Comparer {
    /// A comparer for the current layout.
    pub fn new(context: &Context, settings: CheckSettings) -> Comparer {
        let Context { store, catalog } = context;
        let shards = catalog.config.facts.shards;
        let facts = FactStores::new(store.keys(), store.current_backend(), shards);
        Comparer {
            // Entities that no sweep has found.
            sweep: settings.round / catalog.config.reconcile.sample.max(1),
            planner: Planner::new(&context.catalog, &context.store),
            context: context.clone(),
            settings,
            report: Report::default(),
            appended: BTreeMap::new(),
            waiting: BTreeSet::new(),
            rebuilder: Rebuilder::new(catalog.clone(), store.clone(), facts),
        }
    }

    /// The number of the round; 0 outside of one.
    pub fn round(&self) -> u64 {
        self.settings.round
    }

    /// Compares the entities of the sweep with this number from now on.
    pub fn follow_sweep(&mut self, number: u64) {
        self.sweep = number;
    }

    /// Rebuilds counters whose key holds another type or is too short. They cannot be compared.
    async fn rebuild(&self, damaged: impl IntoIterator<Item = &Entity>) {
        if self.settings.mode == CheckMode::Report {
            return;
        }
        for entity in damaged {
            self.rebuilder.entity(entity, "-").await;
        }
    }

    /// Compares entities by plain reads in one pipeline, and those that differ exactly. A counter that changes between two reads differs,
    /// too.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn compare(&mut self, entities: &[Entity]) -> Result<(), StoreError> {
        let planned = planned(&mut self.planner, entities).await?;
        let store = &self.context.store;
        let (mut counters, mut cards) = (Vec::new(), CardReads::default());
        let mut totals = Vec::new();
        for (entity, plan) in &planned {
            counters.push(CountersToRead {
                at: self.planner.locator().entity(&plan.schema, entity),
                len: plan.len,
                min_len: 0,
            });
            for metric in &plan.metrics {
                if let Some(source) = self.planner.source(metric, entity) {
                    cards.add(store, source);
                }
                let days = self.planner.days(metric, entity);
                totals.extend(days.map(|days| RedisCall::command(days.total_command(entity))));
            }
        }
        if planned.is_empty() {
            return Ok(());
        }
        let mut calls = cards.requests(store.backend());
        let of_cards = calls.len();
        calls.extend(totals);
        let page = read_page(store, &counters, &calls).await?;
        let mut replies = page.replies.into_iter();
        let cards = cards.decode(store, replies.by_ref().take(of_cards)).await?;
        let mut cards = cards.into_iter();
        let (mut suspects, mut damaged) = (Vec::new(), Vec::new());
        for ((entity, plan), fields) in planned.iter().zip(page.fields) {
            let mut is_suspect = self.sums_days(entity);
            for metric in &plan.metrics {
                let facts = match metric.has_facts() {
                    true => Some(cards.next().unwrap_or(Card::WrongType)),
                    false => None,
                };
                let total = match self.planner.days(metric, entity) {
                    Some(days) => Some(total(replies.next(), &days)?),
                    None => None,
                };
                let counter = match &fields {
                    Ok(fields) => fields.get(metric.idx).copied(),
                    Err(_) => None,
                };
                let is_equal = |card: Card| card == counter.map_or(Card::WrongType, Card::Known);
                match (facts, total) {
                    _ if fields.is_err() => self.report.add_unchecked(&metric.name),
                    (Some(Card::WrongType), _) => self.report.add_unchecked(&metric.name),
                    (facts, total) if facts.is_none_or(is_equal) && total.is_none_or(is_equal) => {
                        self.report.add_equal(&metric.name);
                    }
                    _ => is_suspect = true,
                }
            }
            if is_suspect {
                suspects.push((*entity).clone());
            } else if matches!(fields, Err(StoreError::WrongType(_))) {
                damaged.push(*entity);
            }
        }
        self.rebuild(damaged).await;
        self.check(&suspects).await?;
        Ok(())
    }

    /// The entities of a page of keys that have to be compared: those with an object, and those whose counters are all 0 or cannot be read.
    /// The other ones are compared where their counters are: in a row of a table, or when their object is visited.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn entities_to_compare(&mut self, page: KeyPage) -> Result<Vec<Entity>, StoreError> {
        let (mut entities, others) = (page.with_object, page.others);
        let planned = planned(&mut self.planner, &others).await?;
        let counters = planned.iter().map(|(entity, plan)| CountersToRead {
            at: self.planner.locator().entity(&plan.schema, entity),
            len: plan.len,
            min_len: 0,
        });
        let counters: Vec<CountersToRead> = counters.collect();
        let found = read_fields(&self.context.store, &counters).await?;
        for ((entity, _), fields) in planned.into_iter().zip(found) {
            if fields.map_or(true, |fields| fields.iter().all(|count| *count == 0)) {
                entities.push(entity.clone());
            }
        }
        Ok(entities)
    }

    /// Compares entities exactly. Counters that the consumer changes are compared when it reaches the entries that this appends. Returns the
    /// tables of the counters that were compared here, in the order of the comparisons.
    ///
    /// # Errors
    /// The store is unavailable, or a log rejects the entries.
    pub async fn check(
        &mut self,
        entities: &[Entity],
    ) -> Result<Vec<(Entity, CheckedTable)>, StoreError> {
        let Context { store, catalog } = &self.context;
        let context = (store, catalog);
        let checks = check_exactly(context, &mut self.planner, &self.settings, entities).await?;
        for (metric, found) in checks.found {
            self.report.add(&metric, found);
        }
        self.appended.extend(checks.appended);
        self.waiting.extend(checks.waiting);
        self.rebuild(&checks.damaged).await;
        Ok(checks.tables)
    }

    /// Whether the sums of the days of an entity are compared in this sweep, which costs more than comparing the total.
    fn sums_days(&self, entity: &Entity) -> bool {
        let config = &self.context.catalog.config;
        let has_days = config.metrics.daily().next().is_some();
        let parts = config.reconcile.sample.clamp(1, DAY_PARTS);
        has_days && is_in_part(&entity.eid, self.sweep, parts)
    }

    /// Adds what a commit has found.
    pub fn add_found(&mut self, metric: &Name, found: Found) {
        self.report.add(metric, found);
    }
}

/// Whether an entity is in the part of the entities that belongs to a sweep. As many sweeps in a row as there are parts have each entity once.
fn is_in_part(eid: &Id, sweep: u64, parts: u64) -> bool {
    let hash = xxhash_rust::xxh3::xxh3_64(eid.as_str().as_bytes());
    (hash % parts + sweep % parts).is_multiple_of(parts)
}

/// A total of an entity. The exact comparison replaces a key of another type.
fn total(reply: Option<Result<Value, StoreError>>, days: &DayNumbers) -> Result<Card, StoreError> {
    match reply {
        Some(Ok(reply)) => Ok(Card::Known(days.decode_total(reply)?)),
        Some(Err(StoreError::WrongType(_))) | None => Ok(Card::Large),
        Some(Err(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_in_a_row_have_each_entity_once() {
        for parts in [1, 3, DAY_PARTS] {
            for first in [0, 7, u64::MAX - DAY_PARTS] {
                for number in 0..100 {
                    let eid = Id::new(number.to_string()).expect("an ID");
                    let sweeps =
                        (first..first + parts).filter(|sweep| is_in_part(&eid, *sweep, parts));
                    assert_eq!(sweeps.count(), 1, "{number} from {first} on, {parts} parts");
                }
            }
        }
    }
}
