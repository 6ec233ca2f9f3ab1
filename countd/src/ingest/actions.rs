//! Validates actions and builds their commands, which record facts, update counters and append events.
//!
//! Each action is one Redis command, so it is executed completely or not at all. An action on a *once* metric is an `RBM.MARK` or
//! `RBM.UNMARK`, or a script for the other fact stores; a repeat changes nothing. An action on a repeatable metric appends its
//! event to the log; a repeat counts again unless it has an idempotency key. With a key, the check and the action are one script.
//! Concurrent actions on one entity may be one `RBM.MMARK` (`group_execution`).

pub use super::action::{Action, ActionOutcome};
pub use super::prepared::PreparedAction;

use super::grouped::GroupedAction;
use super::groups::Groups;
use super::homes::Homes;
use super::prepared::{CountedEntity, ReplyKind};
use super::records::record_of;
use super::requests::Request;
use super::rounds::Change;
use super::split_totals::SplitTotals;
use super::windows::WindowedAction;
use crate::domain::config::{Count, FactKind, Metric};
use crate::domain::error::Problem;
use crate::domain::event::{Event, now_ms};
use crate::domain::ids::{Entity, Name};
use crate::domain::op::Op;
use crate::domain::split::{SplitPhase, SplitState};
use crate::facts::{CounterField, Fact, FactChange, FactStores, SplitFacts, counter_call};
use crate::log::EntryKind;
use crate::log::kafka::Topic;
use crate::redis::call::{IdempotencyGuard, RedisCall};
use crate::redis::day::CountedDay;
use crate::redis::permissions::Permissions;
use crate::redis::script::{
    AUTHOR, CHANGES, CounterBackend, JOURNAL, OPTIONAL_KEYS, ScriptTemplate,
};
use crate::redis::store::Store;
use crate::repair::{Rebuilder, Source, Sources};
use crate::storage::authors::Authors;
use crate::storage::catalog::Catalog;
use crate::storage::hot::HotTracker;
use crate::storage::locator::Locator;
use redis::Cmd;

/// Updates a counter and appends the event.
static COUNT_NOW: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, include_str!("../lua/count_now.lua")]).with_days();
/// Sets a counter to 0.
pub(super) static RESET: ScriptTemplate = ScriptTemplate::writing(&[
    CHANGES,
    JOURNAL,
    OPTIONAL_KEYS,
    include_str!("../lua/counter_reset.lua"),
])
.with_days();
/// The commands of actions that are not scripts or commands of fact stores.
const PERMISSIONS: &[&str] = &["XADD {log} 0-* f v"];
/// The commands that create counters.
const CREATE_PERMISSIONS: &[&str] = &[
    "CINT.BATCHINCR {counters} LEN 1 0 1",
    "CTAB.BATCHINCR {tables} 0 LEN 1 0 1",
];

/// Prepares and executes actions. Cheap to clone.
#[derive(Clone)]
pub struct Actions {
    pub(super) catalog: Catalog,
    pub(super) store: Store,
    pub(super) facts: FactStores,
    pub(super) groups: Groups,
    pub(super) authors: Authors,
    pub(super) rebuilder: Rebuilder,
    /// `Config::counting`.
    counting: String,
    pub(super) hot: HotTracker,
    /// The topic, if the log is in Kafka.
    pub(super) topic: Option<Topic>,
    /// The users of split entities whose home is the base.
    pub(super) homes: Homes,
    /// The counters of split entities.
    pub(super) totals: SplitTotals,
}

impl Actions {
    /// Uses the metrics and schemas of `catalog` and the fact stores of `store`. `rebuilder` rebuilds lost counters. `hot` counts the
    /// actions on entities.
    pub fn new(
        catalog: Catalog,
        store: Store,
        facts: FactStores,
        authors: Authors,
        rebuilder: Rebuilder,
        hot: HotTracker,
    ) -> Actions {
        Actions {
            counting: catalog.config.counting(),
            hot,
            rebuilder,
            authors,
            catalog,
            store,
            facts,
            groups: Groups::default(),
            topic: None,
            homes: Homes::default(),
            totals: SplitTotals::default(),
        }
    }

    /// Appends the events of repeatable metrics to a topic, if there is one. Those that change something else in the same step stay in the
    /// streams.
    pub fn with_topic(self, topic: Option<Topic>) -> Actions {
        Actions { topic, ..self }
    }

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

    /// Validates an action and builds its command. `metric` is a name, an alias, or a *once* metric with the prefix `un`, which
    /// removes the fact; a metric with that very name takes precedence.
    ///
    /// # Errors
    /// The action is not possible for the metric or the entity, or the schema cannot be read.
    pub async fn prepare(
        &self,
        metric: &str,
        action: &Action,
        trace_id: &str,
    ) -> Result<PreparedAction, Problem> {
        self.prepare_at(metric, action, trace_id, now_ms()).await
    }

    /// [`prepare`](Self::prepare) for an action at a time, in milliseconds since 1970.
    ///
    /// # Errors
    /// See [`prepare`](Self::prepare).
    pub async fn prepare_at(
        &self,
        metric: &str,
        action: &Action,
        trace_id: &str,
        ts: u64,
    ) -> Result<PreparedAction, Problem> {
        let (name, metric, op) = self.resolve_metric(metric, action.op)?;
        // Before the state of the entity: a later change makes the action fail, and prepares it again.
        let epoch = self.store.layout().epoch;
        let entity = Entity {
            etype: Actions::entity_type(name, metric, action)?,
            eid: action.eid.clone(),
        };
        let schema = self.catalog.schema_id(&entity.etype)?;
        if !metric.applies_to(&entity.etype) {
            let problem = format!("entity type {} has no metric {name}", entity.etype);
            return Err(Problem::Unprocessable(problem));
        }
        let counter = match metric.count {
            Count::Never => None,
            Count::Now => Some(self.counter(&entity, name).await?),
            Count::Batched => {
                // Without the field, the event would become a dead letter.
                self.catalog.field(&entity, name.as_str()).await?;
                None
            }
        };
        let author = self.author(metric, op, action, &entity.etype)?.cloned();
        let split = self.split_of(&entity);
        if let (Some(state), Some(author)) = (&split, &author)
            && self.authors.are_registered()
        {
            self.authors.claim(&entity, state, author).await?;
        }
        let split = split.filter(|state| state.has(name));
        if split
            .as_ref()
            .is_some_and(|state| state.phase == SplitPhase::Merging)
        {
            return Err(Problem::Merging(entity));
        }
        let request = Request::of((name, metric, op), action, (trace_id, ts, epoch));
        if split.is_some() && request.is_none() {
            return Err(Problem::Unprocessable(format!(
                "{name} of this entity is split, but its configuration has changed: merge the entity with the earlier one first (countd hot merge)"
            )));
        }
        self.hot.record_write(&entity);
        let event = Event {
            schema: schema.cloned(),
            entity,
            metric: name.clone(),
            delta: op.delta(),
            uid: action.uid.clone(),
            author,
            trace_id: Some(trace_id.into()),
            ts,
            counted: metric.count == Count::Now,
            corrected: Vec::new(),
            retried: None,
        };
        if let Some(state) = split {
            let prepared = self.prepare_split((metric, op), action, event, state);
            return Ok(PreparedAction {
                request,
                ..prepared.await?
            });
        }
        let prepared = self.build_at((metric, op), action, &event, counter.as_ref())?;
        Ok(PreparedAction {
            request,
            ..prepared
        })
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

    pub(super) async fn counter(
        &self,
        entity: &Entity,
        metric: &Name,
    ) -> Result<CounterField, Problem> {
        let (id, idx, schema) = self.catalog.field(entity, metric.as_str()).await?;
        let locator = Locator::of(&self.store);
        let at = locator.entity(id, entity);
        let sources = Sources::new(&self.catalog.config, locator.layout());
        // Otherwise a counter may be 0 because events of other settings, which count its facts, wait in the log.
        let is_settled = locator.layout().counting == self.counting;
        let verify = at.moving().is_none()
            && is_settled
            && matches!(sources.of_entity(metric), Source::Facts(_));
        Ok(CounterField {
            at,
            idx,
            len: schema.len(),
            min_len: schema.min_len(),
            verify,
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
                trace_id: event.trace_id.as_deref().unwrap_or_default().to_owned(),
            })
        });
        let registers = registered.map(|author| (event.entity.clone(), author.clone()));
        let change = Change::new(event, op, metric.fact_kind().is_some());
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
            let has_counter = counter.is_some();
            return Ok(PreparedAction {
                call,
                change,
                reply_kind: ReplyKind::Fact { has_counter },
                partition,
                registers,
                counted,
                hash,
                windowed: None,
                grouped: grouped.map(Box::new),
                creates: None,
                split: None,
                request: None,
                record: None,
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
            let has_counter = counter.is_some();
            return Ok(PreparedAction {
                call: windowed.call(self.store.backend(), event.ts / 1_000),
                change,
                reply_kind: ReplyKind::Windowed { has_counter },
                partition,
                registers,
                counted,
                hash,
                windowed: Some(Box::new(windowed)),
                grouped: None,
                creates: None,
                split: None,
                request: None,
                record: None,
            });
        }
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
                    named.call(backend, command, guard.as_ref(), (None, None))
                }
                None => RedisCall::guarded(&command, &[&log], guard.as_ref()),
            };
            return Ok(PreparedAction {
                call,
                change,
                reply_kind: ReplyKind::Appended,
                partition,
                registers,
                counted,
                hash,
                windowed: None,
                grouped: None,
                creates: None,
                split: None,
                request: None,
                record,
            });
        };
        let mut keys = vec![counter.at.key(), &log];
        keys.extend(guard.as_ref().map(|guard| guard.key.as_str()));
        keys.extend(
            named
                .iter()
                .flat_map(|named| named.keys().iter().map(String::as_str)),
        );
        let script = (&COUNT_NOW, self.store.backend());
        let day = self.day(metric, event);
        let call = counter_call(script, &keys, (Some(counter), 0, day.as_ref()), |cmd| {
            cmd.arg(&counter.script_args()).arg(op.delta()).arg(&json);
            let guard = guard.as_ref().map(IdempotencyGuard::argument);
            cmd.arg(guard.unwrap_or_default());
            if let Some(named) = &named {
                named.add_arguments(cmd);
            }
        });
        Ok(PreparedAction {
            call,
            change,
            reply_kind: ReplyKind::Counted,
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
        })
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
