//! The commands of actions, which record facts, update counters and append events.
//!
//! Each action is one Redis command, so it is executed completely or not at all. An action on a *once* metric is an `RBM.MARK` or
//! `RBM.UNMARK`, or a script for the other fact stores; a repeat changes nothing. An action on a repeatable metric appends its
//! event to the log; a repeat counts again unless it has an idempotency key. With a key, the check and the action are one script.
//! Concurrent actions on one entity may be one `RBM.MMARK` (`group_execution`).

use super::action::Action;
use super::actions::{Actions, RESET};
use super::grouped::GroupedAction;
use super::prepared::{CountedEntity, PreparedAction, ReplyKind};
use super::records::record_of;
use super::rounds::Change;
use super::split_totals::SplitTotals;
use super::windows::WindowedAction;
use crate::domain::config::{FactKind, Metric};
use crate::domain::error::Problem;
use crate::domain::event::{Event, now_ms};
use crate::domain::ids::{Entity, Name};
use crate::domain::op::Op;
use crate::domain::split::SplitState;
use crate::facts::{CounterField, Fact, FactChange, SplitFacts, counter_call};
use crate::log::EntryKind;
use crate::redis::call::{IdempotencyGuard, RedisCall};
use crate::redis::day::CountedDay;
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUTHOR, CounterBackend, ScriptTemplate};
use crate::storage::authors::Authors;
use redis::Cmd;

/// Updates a counter and appends the event.
static COUNT_NOW: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, include_str!("../lua/count_now.lua")]).with_days();
/// The commands of actions that are not scripts or commands of fact stores.
const PERMISSIONS: &[&str] = &["XADD {log} 0-* f v"];
/// The commands that create counters.
const CREATE_PERMISSIONS: &[&str] = &[
    "CINT.BATCHINCR {counters} LEN 1 0 1",
    "CTAB.BATCHINCR {tables} 0 LEN 1 0 1",
];

impl Actions {
    /// The permissions that actions require, in addition to the permissions of fact stores.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        let created: &[&str] = match backend {
            CounterBackend::Module => CREATE_PERMISSIONS,
            _ => &[],
        };
        RedisCall::guarded_permissions(PERMISSIONS)
            .and(Permissions::of_commands(created))
            .and(COUNT_NOW.required_permissions(backend))
            .and(RESET.required_permissions(backend))
            .and(Authors::required_permissions(backend))
            .and(Authors::split_permissions(backend))
            .and(SplitTotals::required_permissions(backend))
            .and(WindowedAction::required_permissions(backend))
    }

    /// Builds the command of an action at an entity that is whole, or at a shard.
    pub(super) fn build_at(
        &self,
        (metric, op): (&Metric, Op),
        action: &Action,
        event: &Event,
        counter: Option<&CounterField>,
    ) -> Result<PreparedAction, Problem> {
        let creates = counter.and_then(|counter| self.create_call(metric, counter));
        let prepared = self.build((metric, op), action, event, (counter, None))?;
        Ok(PreparedAction {
            creates: creates.map(Box::new),
            ..prepared
        })
    }

    /// The command that creates a counter of 0 if it is missing, if it has to precede the action: `RBM.MARK` creates one with the number of
    /// facts, unless it verifies the counter.
    fn create_call(&self, metric: &Metric, counter: &CounterField) -> Option<Cmd> {
        let is_mark = metric.fact_kind() == Some(FactKind::Rbm)
            && self.store.backend() == CounterBackend::Module;
        if !is_mark || counter.verify || counter.at.moving().is_some() {
            return None;
        }
        let [row, idx, len, _] = counter.script_args();
        let mut cmd = match row.as_str() {
            "" => redis::cmd("CINT.BATCHINCR"),
            _ => redis::cmd("CTAB.BATCHINCR"),
        };
        cmd.arg(counter.at.key());
        if !row.is_empty() {
            cmd.arg(row);
        }
        cmd.arg("LEN").arg(len).arg(idx).arg(0);
        Some(cmd)
    }

    /// Builds the command of an action. `split` is the state of the entity, if it is the base of a split one.
    pub(super) fn build(
        &self,
        (metric, op): (&Metric, Op),
        action: &Action,
        event: &Event,
        (counter, split): (Option<&CounterField>, Option<&SplitState>),
    ) -> Result<PreparedAction, Problem> {
        let keys = self.store.keys();
        let partition = keys.of_entity(&event.entity);
        let log = keys.log(partition);
        let json = event.to_json();
        let guard = self.action_guard(action, event, op);
        let hash = guard.as_ref().map(|guard| guard.hash);
        let named = event.author.as_ref();
        let named = named.and_then(|author| self.authors.to_register(&event.entity, author));
        let registered = named.as_ref().and(event.author.as_ref());
        let counted = counter.map(|_| {
            Box::new(CountedEntity {
                entity: event.entity.clone(),
                is_base: split.is_some(),
                trace_id: event.trace_id.as_deref().unwrap_or_default().to_owned(),
            })
        });
        let registers = registered.map(|author| (event.entity.clone(), author.clone()));
        let change = Change::new(event, op, metric.fact_kind().is_some());
        let prepared = |call: RedisCall, reply_kind: ReplyKind| PreparedAction {
            call,
            change,
            reply_kind,
            partition,
            registers,
            counted,
            hash,
            windowed: None,
            grouped: None,
            creates: None,
            split: None,
            request: None,
            record: None,
        };
        let has_counter = counter.is_some();
        if let Some(facts) = self.facts.of(metric) {
            facts.check_uid(&action.uid)?;
            let day = counter.and_then(|_| self.day(metric, event));
            let fact_change = FactChange {
                fact: Fact {
                    metric: &event.metric,
                    entity: &event.entity,
                    uid: &action.uid,
                },
                op,
                ts: event.ts,
                counter,
                day: day.as_ref(),
                event: (&log, &json),
                guard: guard.as_ref(),
                author: named.as_ref(),
            };
            let call = match split {
                Some(state) => {
                    SplitFacts::new(keys, self.facts.clone()).change(&fact_change, state)
                }
                None => facts.change(&fact_change),
            };
            let is_plain = guard.is_none() && named.is_none() && day.is_none() && split.is_none();
            let grouped = counter.filter(|_| is_plain && facts.changes_groups());
            let grouped = grouped.and_then(|counter| GroupedAction::of(op, event, counter));
            return Ok(PreparedAction {
                grouped: grouped.map(Box::new),
                ..prepared(call, ReplyKind::Fact { has_counter })
            });
        }
        if let (Some(seconds), Op::Add) = (metric.window_seconds, op) {
            let windowed = WindowedAction {
                seconds,
                key: keys.windows(&event.metric, &event.entity, &event.uid),
                log,
                event: json,
                counter: counter.cloned(),
                day: counter.and_then(|_| self.day(metric, event)),
                guard,
                author: named,
            };
            let call = windowed.call(self.store.backend(), event.ts / 1_000);
            return Ok(PreparedAction {
                windowed: Some(Box::new(windowed)),
                ..prepared(call, ReplyKind::Windowed { has_counter })
            });
        }
        let guard = guard.as_ref();
        let Some(counter) = counter else {
            let topic = self.topic.as_ref();
            let topic = topic.filter(|_| guard.is_none() && named.is_none());
            let record =
                topic.map(|topic| Box::new(record_of(topic, event, partition, json.clone())));
            let command = ["XADD", &log, "0-*", EntryKind::Event.field(), &json];
            let backend = self.store.backend();
            let call = match &named {
                Some(named) => {
                    let command = (&command[..], &[log.as_str()][..]);
                    named.call(backend, command, guard, (None, None))
                }
                None => RedisCall::guarded(&command, &[&log], guard),
            };
            return Ok(PreparedAction {
                record,
                ..prepared(call, ReplyKind::Appended)
            });
        };
        let mut keys = vec![counter.at.key(), &log];
        keys.extend(guard.map(|guard| guard.key.as_str()));
        keys.extend(
            named
                .iter()
                .flat_map(|named| named.keys().iter().map(String::as_str)),
        );
        let script = (&COUNT_NOW, self.store.backend());
        let day = self.day(metric, event);
        let call = counter_call(script, &keys, (Some(counter), 0, day.as_ref()), |cmd| {
            cmd.arg(&counter.script_args()).arg(op.delta()).arg(&json);
            let guard = guard.map(IdempotencyGuard::argument);
            cmd.arg(guard.unwrap_or_default());
            if let Some(named) = &named {
                named.add_arguments(cmd);
            }
        });
        Ok(prepared(call, ReplyKind::Counted))
    }

    /// The day in which an event counts, if the metric has counts by day.
    fn day(&self, metric: &Metric, event: &Event) -> Option<CountedDay> {
        let subject = (&event.metric, &event.entity);
        metric.daily.then(|| self.counted_day(subject, event.ts))
    }

    /// The day in which a change of a counter with counts by day counts. `ts` is the time of the change.
    pub(super) fn counted_day(&self, subject: (&Name, &Entity), ts: u64) -> CountedDay {
        let layout = (self.store.keys(), self.store.backend());
        let calendar = self.catalog.config.days.calendar();
        CountedDay::new(layout, &calendar, subject, (ts, now_ms()))
    }
}
