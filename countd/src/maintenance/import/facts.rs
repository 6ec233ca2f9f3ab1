//! Applies and verifies facts. They take the path of actions, so counters and users' counters follow.

use super::applied::Applied;
use super::error::ImportError;
use super::record::{FactRecord, Item, Origin, Record};
use crate::domain::config::Nature;
use crate::domain::error::{ErrorCode, Problem};
use crate::domain::event::now_ms;
use crate::domain::ids::Name;
use crate::domain::text::brief;
use crate::facts::{Fact, FactStores};
use crate::ingest::actions::{Action, Actions, PreparedAction};
use crate::redis::call::{RedisCall, scripts};
use crate::redis::store::Store;
use crate::repair::Rebuilder;
use crate::storage::authors::Authors;
use crate::storage::catalog::Catalog;
use crate::storage::hot::HotTracker;
use futures_util::future::join_all;

/// The number of actions of a pipeline.
const PIPELINE: usize = 1024;

/// Applies and verifies facts.
pub struct FactImport {
    store: Store,
    catalog: Catalog,
    facts: FactStores,
    actions: Actions,
    trace_id: String,
}

/// Whether a problem concerns only its record.
fn concerns_record(problem: &Problem) -> bool {
    let general = [
        ErrorCode::Unavailable,
        ErrorCode::Internal,
        ErrorCode::Damaged,
        ErrorCode::Schema,
        ErrorCode::NotCounting,
        ErrorCode::Merging,
    ];
    !general.contains(&problem.code())
}

impl FactImport {
    /// Uses the fact stores of `store`. `name` is the trace ID of the events.
    pub fn new(catalog: Catalog, store: Store, name: &Name) -> FactImport {
        let shards = catalog.config.facts.shards;
        let facts = FactStores::new(store.keys(), store.current_backend(), shards);
        let rebuilder = Rebuilder::new(catalog.clone(), store.clone(), facts.clone());
        let hot = HotTracker::disabled(catalog.config.hot);
        FactImport {
            actions: Actions::new(
                catalog.clone(),
                store.clone(),
                facts.clone(),
                Authors::new(store.clone()),
                rebuilder,
                hot,
            ),
            facts,
            catalog,
            store,
            trace_id: format!("import:{name}"),
        }
    }

    /// Validates facts without applying them.
    ///
    /// # Errors
    /// A schema cannot be read.
    pub async fn check(&self, items: &[Item]) -> Result<Applied, ImportError> {
        let mut applied = Applied::default();
        self.prepare(items, &mut applied).await?;
        Ok(applied)
    }

    /// Applies facts. Facts that exist are not changed, so this can be repeated.
    ///
    /// # Errors
    /// Redis failed; some facts may have been applied.
    pub async fn apply(&self, items: &[Item]) -> Result<Applied, ImportError> {
        let mut applied = Applied::default();
        let mut prepared = self.prepare(items, &mut applied).await?;
        let mut pipelines = Vec::new();
        while !prepared.is_empty() {
            let rest = prepared.split_off(prepared.len().min(PIPELINE));
            let part = std::mem::replace(&mut prepared, rest);
            let (origins, actions): (Vec<_>, Vec<_>) = part.into_iter().unzip();
            pipelines.push(async { (origins, self.actions.execute_all(actions).await) });
        }
        for (origins, outcomes) in join_all(pipelines).await {
            for (origin, outcome) in origins.into_iter().zip(outcomes) {
                match outcome {
                    Ok(outcome) => applied.changed += u64::from(outcome.changed),
                    Err(problem) if concerns_record(&problem) => {
                        applied.invalid.push((origin.clone(), brief(&problem)));
                    }
                    Err(problem) => return Err(problem.into()),
                }
            }
        }
        Ok(applied)
    }

    async fn prepare<'a>(
        &self,
        items: &'a [Item],
        applied: &mut Applied,
    ) -> Result<Vec<(&'a Origin, PreparedAction)>, ImportError> {
        let mut prepared = Vec::with_capacity(items.len());
        for Item { origin, record } in items {
            let Record::Fact(fact) = record else {
                continue;
            };
            match self.prepare_one(fact).await {
                Ok(action) => prepared.push((origin, action)),
                Err(problem) if concerns_record(&problem) => {
                    applied.invalid.push((origin.clone(), brief(&problem)));
                }
                Err(problem) => return Err(problem.into()),
            }
        }
        Ok(prepared)
    }

    /// The name of the metric. A metric with the prefix `un`, which removes a fact, is unknown here.
    fn metric(&self, fact: &FactRecord) -> Result<&Name, Problem> {
        let (name, metric) = self.catalog.metric(fact.metric.as_str())?;
        if metric.nature == Nature::Repeatable {
            let problem = format!("{name} is repeatable: it has no facts; import its counts");
            return Err(Problem::Unprocessable(problem));
        }
        Ok(name)
    }

    async fn prepare_one(&self, fact: &FactRecord) -> Result<PreparedAction, Problem> {
        let name = self.metric(fact)?;
        let action = Action {
            metric: None,
            etype: Some(fact.entity.etype.clone()),
            eid: fact.entity.eid.clone(),
            uid: fact.uid.clone(),
            op: None,
            author: fact.author.clone(),
            idempotency_key: None,
        };
        let ts = fact.ts.unwrap_or_else(now_ms);
        self.actions
            .prepare_at(name.as_str(), &action, &self.trace_id, ts)
            .await
    }

    /// The facts of the items that do not exist.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn missing(&self, items: &[Item]) -> Result<Vec<String>, ImportError> {
        let mut calls = Vec::with_capacity(items.len());
        for Item { origin, record } in items {
            let Record::Fact(fact) = record else {
                continue;
            };
            // Invalid records have been skipped.
            let Ok(metric) = self.metric(fact) else {
                continue;
            };
            let (name, config) = self.catalog.metric(metric.as_str())?;
            let facts = self.facts.require(name, config)?;
            if facts.check_uid(&fact.uid).is_err() || !config.applies_to(&fact.entity.etype) {
                continue;
            }
            let call = facts.contains(&Fact {
                metric: name,
                entity: &fact.entity,
                uid: &fact.uid,
            });
            calls.push((origin, fact, name, call));
        }
        let mut missing = Vec::new();
        for part in calls.chunks(PIPELINE) {
            let replies = self.exist(part.iter().map(|(.., call)| call)).await?;
            for ((origin, fact, name, _), exists) in part.iter().zip(replies) {
                if exists == 0 {
                    let FactRecord { entity, uid, .. } = fact;
                    let (etype, eid) = (&entity.etype, &entity.eid);
                    missing.push(format!("{origin}: no {name} of {etype} {eid} by {uid}"));
                }
            }
        }
        Ok(missing)
    }

    async fn exist<'a>(
        &self,
        calls: impl Iterator<Item = &'a RedisCall> + Clone,
    ) -> Result<Vec<u8>, ImportError> {
        let mut pipeline = redis::pipe();
        for script in scripts(calls.clone()) {
            let load = pipeline.cmd("SCRIPT").arg("LOAD");
            load.arg(&script.source).ignore();
        }
        for call in calls {
            pipeline.add_command(call.cmd.clone());
        }
        Ok(pipeline.query_async(&mut self.store.reads()).await?)
    }
}
