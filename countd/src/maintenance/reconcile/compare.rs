//! Compares the counters of entities with their facts and totals: by plain reads, and exactly.

use super::context::Context;
use super::plan::{Planner, TypePlan};
use super::report::Report;
use crate::domain::error::StoreError;
use crate::domain::event::{Check, CheckMode};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::facts::{Card, CardSource, cards, decode_cards};
use crate::query::fields::{CountersToRead, read_page};
use crate::redis::call::RedisCall;
use crate::redis::day::DayNumbers;
use crate::redis::script::CounterBackend;
use crate::repair::{
    CheckNow, CheckRequest, CheckedCounter, CounterCheck, Found, append_checks, check_now,
    record_found,
};
use redis::{FromRedisValue, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["RBM.CARD {ids}"];
/// Commands that this file sends for metrics with counts by day.
pub(super) const DAY_PERMISSIONS: &[&str] = &["HGET {day_counts} f"];
/// Those with tables.
pub(super) const DAY_TABLE_PERMISSIONS: &[&str] = &["CTAB.MGET {totals} 0"];
/// The number of sweeps in which the days of all entities are added up.
const DAY_PARTS: u64 = 16;
/// The maximum number of entities that are compared at once.
pub const PAGE: usize = 500;

/// How counters are compared.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What to do with differences.
    pub mode: CheckMode,
    /// The source of corrections, for the audit.
    pub source: Name,
    /// The number of the round; 0 outside of one.
    pub round: u64,
    /// The report to which commits add what they have found.
    pub report: Option<Id>,
}

/// Compares counters, and collects what it finds.
pub struct Comparer {
    context: Context,
    settings: Settings,
    /// The counters of each type.
    pub planner: Planner,
    /// What was found, except what commits find.
    pub report: Report,
    /// The last check that was appended to each log.
    pub appended: BTreeMap<Partition, u64>,
    /// The number of counters whose checks were appended.
    pub waiting: usize,
}

impl Comparer {
    /// A comparer for the current layout.
    pub fn new(context: &Context, settings: Settings) -> Comparer {
        Comparer {
            planner: Planner::new(context),
            context: context.clone(),
            settings,
            report: Report::default(),
            appended: BTreeMap::new(),
            waiting: 0,
        }
    }

    /// The entities that have counters to compare, with the plan of their type.
    async fn planned<'e>(
        &mut self,
        entities: &'e [Entity],
    ) -> Result<Vec<(&'e Entity, Arc<TypePlan>)>, StoreError> {
        let mut planned = Vec::with_capacity(entities.len());
        for entity in entities {
            if let Some(plan) = self.planner.of_type(&entity.etype).await? {
                planned.push((entity, plan));
            }
        }
        Ok(planned)
    }

    /// Compares entities by plain reads in one pipeline, and those that differ exactly. A counter that changes between two reads differs,
    /// too.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn compare(&mut self, entities: &[Entity]) -> Result<(), StoreError> {
        let planned = self.planned(entities).await?;
        let (mut counters, mut calls) = (Vec::new(), Vec::new());
        let backend = self.context.store.backend();
        for (entity, plan) in &planned {
            counters.push(CountersToRead {
                at: self.planner.locator().entity(&plan.schema, entity),
                len: plan.len,
            });
            for metric in &plan.metrics {
                let source = self.planner.source(metric, entity);
                calls.extend(source.map(|source| card_call(backend, &source)));
                let days = self.planner.days(metric, entity);
                calls.extend(days.map(|days| RedisCall::command(days.total_command(entity))));
            }
        }
        if planned.is_empty() {
            return Ok(());
        }
        let page = read_page(&self.context.store, &counters, &calls).await?;
        let mut replies = page.replies.into_iter();
        let mut suspects = Vec::new();
        for ((entity, plan), fields) in planned.iter().zip(page.fields) {
            let mut is_suspect = self.sums_days(entity);
            for metric in &plan.metrics {
                let facts = match metric.has_facts() {
                    true => next_card(&mut replies)?,
                    false => None,
                };
                let total = match self.planner.days(metric, entity) {
                    Some(days) => Some(next_total(&mut replies, &days)?),
                    None => None,
                };
                let counter = match &fields {
                    Ok(fields) => fields.get(metric.idx).copied(),
                    Err(_) => None,
                };
                let is_equal = |card: Card| card == counter.map_or(Card::WrongType, Card::Known);
                match (facts, total) {
                    _ if fields.is_err() => self.report.add_unchecked(&metric.name),
                    (Some(Card::WrongType | Card::Large), _) => {
                        self.report.add_unchecked(&metric.name);
                    }
                    (facts, total) if facts.is_none_or(is_equal) && total.is_none_or(is_equal) => {
                        self.report.add_equal(&metric.name);
                    }
                    _ => is_suspect = true,
                }
            }
            if is_suspect {
                suspects.push((*entity).clone());
            }
        }
        self.check(&suspects).await
    }

    /// Compares entities exactly. Counters that the consumer changes are compared when it reaches the entries that this appends.
    ///
    /// # Errors
    /// The store is unavailable, or a log rejects the entries.
    pub async fn check(&mut self, entities: &[Entity]) -> Result<(), StoreError> {
        let planned = self.planned(entities).await?;
        let (mut now, mut batched) = (Vec::new(), Vec::new());
        for (entity, plan) in &planned {
            let mut check = CounterCheck {
                entity: (*entity).clone(),
                counters: Vec::new(),
                feeds_author: false,
            };
            let mut request = CheckRequest {
                check: self.entry(entity),
                metrics: Vec::new(),
            };
            for metric in &plan.metrics {
                let facts = self.planner.source(metric, entity);
                match facts {
                    Some(facts) if metric.is_batched => {
                        request.metrics.push((metric.name.clone(), facts));
                    }
                    facts => {
                        check.feeds_author |= metric.feeds_author;
                        check.counters.push(CheckedCounter {
                            metric: metric.name.clone(),
                            field: self.planner.field(plan, metric, entity),
                            facts,
                            days: self.planner.days(metric, entity),
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
        self.check_now(&now).await?;
        self.append(&batched).await
    }

    async fn check_now(&mut self, checks: &[CounterCheck]) -> Result<(), StoreError> {
        let Context { store, catalog } = &self.context;
        let settings = CheckNow {
            mode: self.settings.mode,
            source: self.settings.source.as_str(),
            round: self.settings.round,
            trace_id: "-",
        };
        let found = check_now(store, &catalog.config, settings, checks).await?;
        for (check, found) in checks.iter().zip(found) {
            for (counter, found) in check.counters.iter().zip(found) {
                record_found(settings.source, found);
                self.report.add(&counter.metric, found);
            }
        }
        Ok(())
    }

    async fn append(&mut self, requests: &[CheckRequest]) -> Result<(), StoreError> {
        let appended = append_checks(&self.context.store, requests).await?;
        self.appended.extend(appended.last);
        self.waiting += requests.iter().map(|of| of.metrics.len()).sum::<usize>();
        Ok(())
    }

    /// Whether the sums of the days of an entity are compared in this round, which costs more than comparing the total. A sweep compares
    /// those of a part of the entities, and as many sweeps as there are parts those of all.
    fn sums_days(&self, entity: &Entity) -> bool {
        let sample = self.context.catalog.config.reconcile.sample;
        let parts = sample.clamp(1, DAY_PARTS);
        let hash = xxhash_rust::xxh3::xxh3_64(entity.eid.as_str().as_bytes());
        let has_days = self.context.catalog.config.metrics.daily().next().is_some();
        has_days && (hash.wrapping_add(self.settings.round / sample.max(1))).is_multiple_of(parts)
    }

    /// The entry that checks an entity.
    fn entry(&self, entity: &Entity) -> Check {
        Check {
            etype: entity.etype.clone(),
            eid: entity.eid.clone(),
            checks: Vec::new(),
            mode: self.settings.mode,
            report: self.settings.report.clone(),
            lock: None,
            round: self.settings.round,
            source: self.settings.source.clone(),
            trace_id: None,
        }
    }

    /// Adds what a commit has found.
    pub fn add_found(&mut self, metric: &Name, found: Found) {
        self.report.add(metric, found);
    }
}

/// The call that counts the facts of a source.
fn card_call(backend: CounterBackend, source: &CardSource) -> RedisCall {
    match (source.id_set(), backend) {
        (Some(key), CounterBackend::Module) => {
            let mut cmd = redis::cmd("RBM.CARD");
            cmd.arg(key);
            RedisCall::command(cmd)
        }
        _ => cards(backend, std::slice::from_ref(source)),
    }
}

/// The replies of the calls of a page.
type Replies = std::vec::IntoIter<Result<Value, StoreError>>;

/// The next reply, a number of facts.
fn next_card(replies: &mut Replies) -> Result<Option<Card>, StoreError> {
    match replies.next() {
        Some(Ok(reply)) => Ok(Some(decode_card(reply)?)),
        Some(Err(StoreError::WrongType(_))) | None => Ok(Some(Card::WrongType)),
        Some(Err(error)) => Err(error),
    }
}

/// The next reply, a total. The exact comparison replaces a key of another type.
fn next_total(replies: &mut Replies, days: &DayNumbers) -> Result<Card, StoreError> {
    match replies.next() {
        Some(Ok(reply)) => Ok(Card::Known(days.decode_total(reply)?)),
        Some(Err(StoreError::WrongType(_))) | None => Ok(Card::Large),
        Some(Err(error)) => Err(error),
    }
}

fn decode_card(reply: Value) -> Result<Card, StoreError> {
    match reply {
        Value::Int(_) => {
            let count = u64::from_redis_value(reply)
                .map_err(|error| StoreError::Unexpected(format!("RBM.CARD: {error}")))?;
            Ok(Card::Known(count))
        }
        reply => Ok(decode_cards(reply)?.pop().unwrap_or(Card::WrongType)),
    }
}
