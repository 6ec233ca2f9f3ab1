//! Removes facts by actions.

use super::context::Erasure;
use crate::domain::config::Metric;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::op::Op;
use crate::facts::{Fact, SplitFacts};
use crate::ingest::actions::Action;
use crate::maintenance::jobs::Lease;
use crate::redis::call::scripts;
use redis::{FromRedisValue, RedisError, Value};
use std::collections::BTreeSet;

/// The number of facts that are removed at once.
const PAGE: usize = 1_000;
/// The number of pages without a change after which the facts are considered damaged.
const MAX_UNCHANGED: usize = 3;

impl Erasure {
    /// Removes all facts of an entity. Returns their number.
    pub(super) async fn remove_facts_of(
        &self,
        lease: &mut Lease,
        entity: &Entity,
    ) -> Result<u64, Problem> {
        let mut removed = 0;
        for (name, metric) in self.catalog.config.metrics.iter() {
            if metric.applies_to(&entity.etype) && metric.fact_kind().is_some() {
                removed += self.remove_facts(lease, entity, (name, metric)).await?;
            }
        }
        Ok(removed)
    }

    async fn remove_facts(
        &self,
        lease: &mut Lease,
        entity: &Entity,
        (name, metric): (&Name, &Metric),
    ) -> Result<u64, Problem> {
        let Some(facts) = self.facts.of(metric) else {
            return Ok(0);
        };
        let (mut removed, mut unchanged, mut from) = (0, 0, None);
        loop {
            lease.keep_alive().await?;
            let unexpected = || StoreError::Unexpected("a cursor of facts".to_owned());
            let call = facts.page(name, entity, from.as_deref(), PAGE);
            let reply = call
                .map_err(|_| unexpected())?
                .send_read(&self.store)
                .await?;
            let page = facts.decode_page(reply, from.as_deref(), PAGE)?;
            let users = page.users.into_iter().map(Id::new);
            let users: Vec<Id> = users.collect::<Result<_, _>>().map_err(|_| unexpected())?;
            if users.is_empty() {
                match page.next {
                    Some(next) => from = Some(next),
                    None => return Ok(removed),
                }
                continue;
            }
            let facts = users.iter().map(|uid| Fact {
                metric: name,
                entity,
                uid,
            });
            let changed = self.remove_each(lease, facts).await?;
            removed += changed;
            // The removed facts are no longer on the first page.
            from = None;
            unchanged = if changed == 0 { unchanged + 1 } else { 0 };
            if unchanged > MAX_UNCHANGED {
                let problem = format!("facts of {name} cannot be removed");
                return Err(StoreError::Unexpected(problem).into());
            }
        }
    }

    /// Removes the facts of a user for these entities. Returns their number.
    pub(super) async fn remove_facts_by(
        &self,
        lease: &mut Lease,
        uid: &Id,
        candidates: &BTreeSet<(Name, Entity)>,
    ) -> Result<u64, Problem> {
        let mut calls = Vec::with_capacity(candidates.len());
        let layout = self.store.layout();
        let splits = SplitFacts::new(self.store.keys(), self.facts.clone());
        for (name, entity) in candidates {
            // What an earlier split has left is no set.
            if layout.is_former_shard(&entity.etype, &entity.eid) {
                continue;
            }
            let Some((name, metric)) = self.catalog.config.metrics.get(name.as_str()) else {
                continue;
            };
            let Some(facts) = self.facts.of(metric) else {
                continue;
            };
            // A store that does not support the ID does not hold it.
            if facts.check_uid(uid).is_ok() {
                let fact = Fact {
                    metric: name,
                    entity,
                    uid,
                };
                let state = layout.split_of(entity);
                let call = match state.filter(|state| state.has(name)) {
                    Some(state) => splits.base_contains(&fact, state),
                    None => facts.contains(&fact),
                };
                calls.push((fact, call));
            }
        }
        if calls.is_empty() {
            return Ok(0);
        }
        let mut pipeline = redis::pipe();
        let scripts = scripts(calls.iter().map(|(_, call)| call));
        for script in &scripts {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&script.source);
        }
        for (_, call) in &calls {
            pipeline.add_command(call.cmd.clone());
        }
        pipeline.ignore_errors();
        let replies: Vec<Result<Value, RedisError>> =
            pipeline.query_async(&mut self.store.reads()).await?;
        let mut found = Vec::new();
        for ((fact, _), reply) in calls.iter().zip(replies.into_iter().skip(scripts.len())) {
            match reply.map_err(StoreError::from) {
                Ok(reply) => {
                    let exists = u8::from_redis_value(reply)
                        .map_err(|error| StoreError::Unexpected(error.to_string()))?;
                    if exists == 1 {
                        found.push(*fact);
                    }
                }
                Err(StoreError::WrongType(_)) => {
                    lease.job.progress.damaged += 1;
                    let Entity { etype, eid } = fact.entity;
                    tracing::warn!(metric = %fact.metric, %etype, %eid, "the facts cannot be read");
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.remove_each(lease, found.into_iter()).await
    }

    /// Removes facts by actions. Returns how many existed.
    async fn remove_each<'a>(
        &self,
        lease: &mut Lease,
        facts: impl Iterator<Item = Fact<'a>>,
    ) -> Result<u64, Problem> {
        let trace_id = format!("erase:{}", lease.job.id);
        let mut prepared = Vec::new();
        for fact in facts {
            let action = Action {
                metric: None,
                etype: Some(fact.entity.etype.clone()),
                eid: fact.entity.eid.clone(),
                uid: fact.uid.clone(),
                op: Some(Op::Remove),
                author: None,
                idempotency_key: None,
            };
            let name = fact.metric.as_str();
            prepared.push(self.actions.prepare(name, &action, &trace_id).await?);
        }
        self.store.check_layout()?;
        let mut removed = 0;
        for outcome in self.actions.execute_all(prepared).await {
            removed += u64::from(outcome?.changed);
        }
        metrics::counter!("countd_facts_erased_total").increment(removed);
        lease.job.progress.facts += removed;
        lease.job.progress.is_dirty |= removed > 0;
        Ok(removed)
    }
}
