//! Executes groups of actions: one command, with one event.

use super::action::ActionOutcome;
use super::actions::Actions;
use super::grouped::GroupKey;
use super::groups::{Arrival, Outcome, Waiting};
use super::prepared::{PreparedAction, problem};
use crate::domain::error::{Problem, StoreError};
use crate::domain::event::GroupEvent;
use crate::domain::ids::Id;
use crate::domain::op::Op;
use crate::facts::{FactGroup, decode_group};
use crate::redis::call::RedisCall;
use crate::trace::{self, Span};
use futures_util::future::join_all;
use std::pin::pin;
use tokio::runtime::Handle;

/// A guard for the action or group in flight. Dropping it, also on cancellation or panic, executes the queued actions.
struct Turn<'a> {
    key: GroupKey,
    actions: &'a Actions,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let waiting = self.actions.groups.next(&self.key);
        // Without a runtime the process ends. The senders are dropped.
        let (false, Ok(runtime)) = (waiting.is_empty(), Handle::try_current()) else {
            return;
        };
        let (key, actions) = (self.key.clone(), self.actions.clone());
        // A task of its own: clients may leave.
        runtime.spawn(async move {
            let _turn = Turn {
                key,
                actions: &actions,
            };
            // Its actions are parts of several traces.
            let span = Span::root("action group");
            let execution = pin!(actions.execute_waiting(waiting));
            trace::scope(span.as_ref(), execution).await;
        });
    }
}

impl Actions {
    /// Executes one action, possibly together with others.
    ///
    /// # Errors
    /// Redis failed. Unless it replied with an error, the action may have been executed.
    pub async fn execute(&self, action: PreparedAction) -> Outcome {
        let request = action.request.clone();
        let outcome = match action.split {
            Some(_) => self.execute_split(action).await,
            None => self.execute_whole(action).await,
        };
        self.repeated(request, outcome).await
    }

    /// Executes one action at an entity that is whole, or at a shard.
    pub(super) async fn execute_whole(&self, action: PreparedAction) -> Outcome {
        let Some(grouped) = &action.grouped else {
            return self.execute_alone(&action).await;
        };
        let key = grouped.key.clone();
        match self.groups.arrive(&key, action) {
            Arrival::First(action) => {
                let _turn = Turn { key, actions: self };
                self.execute_alone(&action).await
            }
            Arrival::Waits(outcome) => outcome.await.unwrap_or_else(|_| Err(ended())),
        }
    }

    /// Executes the actions of a group, and sends their outcomes.
    async fn execute_waiting(&self, waiting: Vec<Waiting>) {
        let (actions, senders): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .map(|waiting| (waiting.action, waiting.sender))
            .unzip();
        let outcomes = self.execute_group(&actions).await;
        for (sender, outcome) in senders.into_iter().zip(outcomes) {
            // The client may have left.
            let _ = sender.send(outcome);
        }
    }

    /// Executes the actions of a group, of which all are grouped and have the same key.
    async fn execute_group(&self, actions: &[PreparedAction]) -> Vec<Outcome> {
        let Some((call, op)) = self.group_call(actions) else {
            return self.execute_each(actions).await;
        };
        let counted = actions.iter().filter_map(|action| action.counted.as_ref());
        let _changing = self.hot.changing(counted.map(|counted| &counted.entity));
        if let Some(action) = actions.last() {
            self.create(action).await;
        }
        let reply = match call.send_confirmed(&self.store).await {
            Ok(reply) => reply,
            Err(error) if StoreError::from(error.clone()).is_server_reply() => {
                // None was executed. Alone, each gets its own error, or what it needs is repaired.
                return self.execute_each(actions).await;
            }
            Err(error) => {
                let failed = actions.iter().map(|_| Err(problem(error.clone())));
                return failed.collect();
            }
        };
        match decode_group(reply) {
            Ok((changed, count)) if changed.len() == actions.len() => {
                outcomes(op, &changed, count).into_iter().map(Ok).collect()
            }
            Ok(_) => actions.iter().map(|_| Err(unexpected_reply())).collect(),
            Err(error) => {
                let failed = actions.iter().map(|_| {
                    let text = error.to_string();
                    Err(StoreError::Unexpected(text).into())
                });
                failed.collect()
            }
        }
    }

    /// The call that executes several actions together, and their direction.
    fn group_call(&self, actions: &[PreparedAction]) -> Option<(RedisCall, Op)> {
        let grouped = actions
            .iter()
            .map(|action| action.grouped.as_deref())
            .collect::<Option<Vec<_>>>()?;
        // The last one to arrive has seen the latest location of the counter.
        let (last, true) = (grouped.last()?, grouped.len() > 1) else {
            return None;
        };
        let GroupKey {
            metric, entity, op, ..
        } = &last.key;
        let (_, settings) = self.catalog.metric(metric.as_str()).ok()?;
        let uids: Vec<&Id> = grouped.iter().map(|action| &action.event.uid).collect();
        let json = GroupEvent::like(&last.event).to_json();
        let keys = self.store.keys();
        let log = keys.log(keys.of_entity(entity));
        let call = self.facts.of(settings)?.change_group(&FactGroup {
            metric,
            entity,
            uids: &uids,
            op: *op,
            counter: &last.counter,
            event: (&log, &json),
        })?;
        Some((call, *op))
    }

    async fn execute_each(&self, actions: &[PreparedAction]) -> Vec<Outcome> {
        join_all(actions.iter().map(|action| self.execute_alone(action))).await
    }
}

/// The outcomes of actions that were executed together, as if they were executed one after the other. `count` is the counter after all
/// of them.
fn outcomes(op: Op, changed: &[bool], count: Option<u64>) -> Vec<ActionOutcome> {
    // Removing facts does not create the counter.
    let mut count = count.unwrap_or(0);
    let backwards = changed.iter().rev().map(|&changed| {
        let outcome = ActionOutcome {
            changed,
            count: Some(count),
            replayed: false,
        };
        if changed {
            count = count.saturating_add_signed(-op.delta());
        }
        outcome
    });
    let mut outcomes: Vec<ActionOutcome> = backwards.collect();
    outcomes.reverse();
    outcomes
}

fn unexpected_reply() -> Problem {
    StoreError::Unexpected("the number of changed facts".to_owned()).into()
}

/// The process ends before the group of an action is executed.
fn ended() -> Problem {
    StoreError::Unexpected("the process ends".to_owned()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_those_of_actions_one_after_the_other() {
        let counts = |op, changed: &[bool], count| {
            let outcomes = outcomes(op, changed, count).into_iter();
            let outcomes = outcomes.map(|outcome| (outcome.changed, outcome.count));
            outcomes.collect::<Vec<_>>()
        };
        assert_eq!(
            counts(Op::Add, &[true, false, true], Some(7)),
            [(true, Some(6)), (false, Some(6)), (true, Some(7))]
        );
        assert_eq!(
            counts(Op::Remove, &[false, true, true], Some(0)),
            [(false, Some(2)), (true, Some(1)), (true, Some(0))]
        );
        assert_eq!(
            counts(Op::Remove, &[false, false], None),
            [(false, Some(0)), (false, Some(0))]
        );
    }
}
