//! Actions on split entities: each is executed at the base, or at the shard of its user.

use super::action::{Action, ActionOutcome};
use super::actions::Actions;
use super::groups::Outcome;
use super::prepared::{PreparedAction, SplitAction};
use super::requests::Request;
use crate::domain::config::Metric;
use crate::domain::error::{Problem, StoreError};
use crate::domain::event::Event;
use crate::domain::ids::{Entity, Name};
use crate::domain::op::Op;
use crate::domain::split::{Shard, SplitPhase, SplitState, base_of, is_shard};
use futures_util::future::join_all;
use std::collections::HashMap;
use std::sync::Arc;

/// How often an action is prepared again because its entity was split or merged.
const MAX_CHANGES: usize = 3;

/// Whether a key held another type, as facts do after their entity was split or merged.
fn is_wrong_type(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Problem::Store(StoreError::WrongType(_))))
}

impl Actions {
    /// The state of an entity, if it is split.
    pub(super) fn split_of(&self, entity: &Entity) -> Option<Arc<SplitState>> {
        self.store.layout().split_of(entity).cloned()
    }

    /// Whether the facts of an entity or of a shard are at other keys than an action has used, because the entity was split or merged.
    pub(super) async fn has_moved(&self, entity: &Entity) -> bool {
        if self.store.refresh_layout().await.is_err() {
            return false;
        }
        let state = self.split_of(&base_of(entity));
        match is_shard(entity) {
            true => state.is_none_or(|state| state.phase == SplitPhase::Merging),
            false => state.is_some(),
        }
    }

    /// Prepares an action on a split entity at both places.
    pub(super) async fn prepare_split(
        &self,
        (metric, op): (&Metric, Op),
        action: &Action,
        event: Event,
        state: Arc<SplitState>,
    ) -> Result<PreparedAction, Problem> {
        let counter = self.counter(&event.entity, &event.metric).await?;
        let at_base = self.build(
            (metric, op),
            action,
            &event,
            (Some(&counter), Some(&*state)),
        )?;
        let shard = state.shard_of(&action.uid).of(&event.entity);
        let counter = self.counter(&shard, &event.metric).await?;
        let (base, metric_name) = (event.entity.clone(), event.metric.clone());
        let event = Event {
            entity: shard,
            ..event
        };
        let at_shard = self.build_at((metric, op), action, &event, Some(&counter))?;
        Ok(PreparedAction {
            split: Some(Box::new(SplitAction {
                base,
                metric: metric_name,
                state,
                at_shard,
            })),
            ..at_base
        })
    }

    /// Executes an action on a split entity.
    pub(super) async fn execute_split(&self, mut action: PreparedAction) -> Outcome {
        let Some(split) = action.split.take() else {
            return self.execute_whole(action).await;
        };
        let SplitAction {
            base,
            metric,
            state,
            at_shard,
        } = *split;
        let _changing = self.hot.changing([&base]);
        let uid = action.request.as_ref().map(|request| &request.action.uid);
        // The base may have the answer to an earlier attempt.
        let is_at_shard = action.hash.is_none()
            && uid.is_some_and(|uid| {
                self.homes
                    .is_at_shard((&self.store, &self.facts), (&base, &metric), &state, uid)
            });
        if !is_at_shard {
            match self.execute_alone(&action).await {
                Err(Problem::AtShard) => {}
                Err(problem) => return Err(split_problem(problem, &base)),
                Ok(outcome) => {
                    return Ok(self
                        .with_total(outcome, (&base, &metric), &state, None)
                        .await);
                }
            }
        }
        let shard = uid.map(|uid| state.shard_of(uid));
        let outcome = self.execute_whole(at_shard).await?;
        Ok(self
            .with_total(outcome, (&base, &metric), &state, shard)
            .await)
    }

    /// Prepares and executes an action again, if it has failed because its entity was split or merged.
    pub(super) async fn repeated(
        &self,
        request: Option<Arc<Request>>,
        outcome: Outcome,
    ) -> Outcome {
        let (Some(request), true) = (request, is_wrong_type(&outcome)) else {
            return outcome;
        };
        let (mut outcome, mut epoch) = (outcome, request.epoch);
        for _ in 0..MAX_CHANGES {
            let refreshed = self.store.refresh_layout().await;
            if !is_wrong_type(&outcome) || !refreshed.is_ok_and(|now| now != epoch) {
                break;
            }
            epoch = self.store.layout().epoch;
            let Request {
                metric,
                action,
                trace_id,
                ts,
                ..
            } = &*request;
            let action = self.prepare_at(metric.as_str(), action, trace_id, *ts);
            outcome = self.execute_split(action.await?).await;
        }
        outcome
    }

    /// Executes actions of a batch on split entities: those that concern the same fact in order, others at once.
    pub(super) async fn execute_splits(
        &self,
        actions: Vec<(usize, PreparedAction)>,
    ) -> Vec<(usize, Outcome)> {
        let mut by_fact: HashMap<u64, Vec<(usize, PreparedAction)>> = HashMap::new();
        for (place, action) in actions {
            let of_fact = by_fact.entry(action.change.of()).or_default();
            of_fact.push((place, action));
        }
        let each = by_fact.into_values().map(async |actions| {
            let mut outcomes: Vec<(usize, Outcome)> = Vec::with_capacity(actions.len());
            let mut failed: Option<String> = None;
            for (place, action) in actions {
                let outcome = match &failed {
                    // The earlier one may have been executed, or may be sent again.
                    Some(reason) => {
                        Err(Problem::Store(StoreError::Unavailable(unavailable(reason))))
                    }
                    None => self.execute_split(action).await,
                };
                if failed.is_none() {
                    failed = match &outcome {
                        Err(Problem::Store(StoreError::Unavailable(error))) => {
                            Some(error.to_string())
                        }
                        Err(problem @ Problem::Merging(_)) => Some(problem.to_string()),
                        _ => None,
                    };
                }
                outcomes.push((place, outcome));
            }
            outcomes
        });
        join_all(each).await.into_iter().flatten().collect()
    }

    /// The outcome with the count of the whole entity. `shard` is where the action was executed; `None` for the base. The answer to an earlier
    /// attempt gets the count that the entity has now: the stored one is that of one place, or of the entity before it was split.
    async fn with_total(
        &self,
        outcome: ActionOutcome,
        of: (&Entity, &Name),
        state: &SplitState,
        shard: Option<Shard>,
    ) -> ActionOutcome {
        let Some(count) = outcome.count else {
            return outcome;
        };
        let place = shard.map_or(0, |shard| usize::from(shard.number) + 1);
        let known = (!outcome.replayed).then_some((place, count));
        let total = self.total(of, state, known).await;
        ActionOutcome {
            // The action was executed, whether or not the other counters can be read now.
            count: total.ok(),
            ..outcome
        }
    }
}

/// The problem of an action at the base of a split entity.
fn split_problem(problem: Problem, base: &Entity) -> Problem {
    match &problem {
        Problem::Store(StoreError::Rejected(error))
            if error.code() == Some(crate::facts::MERGING) =>
        {
            Problem::Merging(base.clone())
        }
        _ => problem,
    }
}

fn unavailable(reason: &str) -> redis::RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, reason.to_owned()).into()
}
