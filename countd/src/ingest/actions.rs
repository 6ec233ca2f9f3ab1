//! What users do: facts, counts and events.
//!
//! Each action is one command to Redis, so it is done or not done. A metric that a user has at most once is an `RBM.MARK`
//! or `RBM.UNMARK`, or a script where its facts are kept otherwise: sent again, it changes nothing. One that is repeatable appends
//! its event to the log; sent again, it counts again, unless it has an idempotency key: then the check and the action are one
//! script.

use crate::domain::config::{Count, Metric, Nature};
use crate::domain::error::StoreError;
use crate::domain::error::{Problem, rejected_by_foreign_last_id};
use crate::domain::event::{Event, now_ms};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::domain::op::Op;
use crate::domain::text::shorten;
use crate::facts::{self, CounterField, Fact, FactChange, FactStores};
use crate::log::{EntryKind, renumber, renumber_each};
use crate::redis::call::{IdempotencyGuard, RedisCall, scripts};
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, ScriptTemplate};
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use redis::{Cmd, FromRedisValue, RedisError, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Counts and appends.
static COUNT_NOW: ScriptTemplate = ScriptTemplate::writing(&[include_str!("../lua/count_now.lua")]);
/// Commands that actions send, beside those of facts.
const PERMISSIONS: &[&str] = &["XADD {log} 0-* f v"];
/// Sets a counter to 0.
static RESET: ScriptTemplate = ScriptTemplate::writing(&[include_str!("../lua/counter_reset.lua")]);

/// What somebody does to an entity.
#[derive(Clone, Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Action {
    /// What is done, where the path does not say it.
    #[schema(example = "like")]
    pub metric: Option<Name>,
    /// The type of the entity. It may be left out where the metric is for one type alone.
    pub etype: Option<Name>,
    /// Its id.
    pub eid: Id,
    /// Who does it.
    pub uid: Id,
    /// ActionOutcome, which is the default, or taken back.
    pub op: Option<Op>,
    /// Whose entity it is. Only with it are the author's counters kept.
    pub author: Option<Id>,
    /// The same key of the same action within the window is the same action, sent again.
    pub idempotency_key: Option<Id>,
}

/// What became of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ActionOutcome {
    /// False if it had been done before: nothing changed.
    pub changed: bool,
    /// The entity's counter after it, where it is counted at once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<u64>,
}

/// An action as a command, ready to be sent.
pub struct PreparedAction {
    call: RedisCall,
    shape: ReplyKind,
    /// In whose log its event goes.
    partition: Partition,
}

/// What the reply of an action's command looks like.
#[derive(Clone, Copy)]
enum ReplyKind {
    /// That of a fact; with true, its counter changes in the same step.
    Fact(bool),
    /// The id of an entry.
    Appended,
    /// The counter after it.
    Counted,
}

/// Executes actions. Cheap to clone.
#[derive(Clone)]
pub struct Actions {
    catalog: Catalog,
    store: Store,
    facts: FactStores,
}

impl Actions {
    /// On the metrics of a catalog and the facts of a store.
    pub fn new(catalog: Catalog, store: Store, facts: FactStores) -> Actions {
        Actions {
            catalog,
            store,
            facts,
        }
    }

    /// The permissions that actions require, beside those of facts.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        RedisCall::guarded_permissions(PERMISSIONS)
            .and(COUNT_NOW.required_permissions(backend))
            .and(RESET.required_permissions(backend))
    }

    /// Checks an action and makes its command. `metric` is a name, an alias, or one of those of a *once* metric with `un` before
    /// it, if that is no name itself: then the action is taken back.
    ///
    /// # Errors
    /// It does not fit the metric or the entity, or the schema cannot be read.
    pub async fn prepare(
        &self,
        metric: &str,
        action: &Action,
        trace_id: &str,
    ) -> Result<PreparedAction, Problem> {
        let (name, metric, op) = self.resolve_metric(metric, action.op)?;
        let entity = Entity {
            etype: etype(name, metric, action)?,
            eid: action.eid.clone(),
        };
        let schema = self.catalog.schema_id(&entity.etype)?;
        if !metric.applies_to(&entity.etype) {
            return Err(Problem::Unfit(format!("{} has no {name}", entity.etype)));
        }
        let counter = match metric.count {
            Count::Never => None,
            Count::Now => Some(self.counter(&entity, name).await?),
            Count::Batched => {
                // The consumer would find no field to count in.
                self.catalog.field(&entity, name.as_str()).await?;
                None
            }
        };
        let event = Event {
            schema: schema.cloned(),
            entity,
            metric: name.clone(),
            delta: op.delta(),
            uid: action.uid.clone(),
            author: action.author.clone(),
            trace_id: Some(trace_id.into()),
            ts: now_ms(),
            counted: metric.count == Count::Now,
        };
        self.command((metric, op), action, &event, counter.as_ref())
    }

    /// The metric that a word means, and whether it is done or taken back.
    fn resolve_metric(&self, word: &str, op: Option<Op>) -> Result<(&Name, &Metric, Op), Problem> {
        let unknown = match self.catalog.metric(word) {
            Ok((name, metric)) => return Ok((name, metric, op.unwrap_or(Op::Add))),
            Err(unknown) => unknown,
        };
        let (name, metric) = match word.strip_prefix("un") {
            Some(word) => self.catalog.metric(word).map_err(|_| unknown)?,
            None => return Err(unknown),
        };
        // A counter of unread messages that nobody has configured is not the reads of something.
        if metric.nature == Nature::Repeatable {
            let problem = format!("{name} is repeatable: it is taken back with \"op\": \"remove\"");
            return Err(Problem::Unfit(problem));
        }
        if op.is_some() {
            return Err(Problem::Unfit(format!(
                "op: {} says it already",
                shorten(word)
            )));
        }
        Ok((name, metric, Op::Remove))
    }

    async fn counter(&self, entity: &Entity, metric: &Name) -> Result<CounterField, Problem> {
        let (id, idx, schema) = self.catalog.field(entity, metric.as_str()).await?;
        Ok(CounterField {
            key: self.store.keys().counters(id, entity),
            idx,
            len: schema.len(),
            least: schema.least(),
        })
    }

    fn command(
        &self,
        (metric, op): (&Metric, Op),
        action: &Action,
        event: &Event,
        counter: Option<&CounterField>,
    ) -> Result<PreparedAction, Problem> {
        let keys = self.store.keys();
        let partition = keys.of_entity(&event.entity);
        let log = keys.log(partition);
        let json = event.to_json();
        let guard = self.guard(action, event, op);
        if let Some(facts) = self.facts.of(metric) {
            facts.check_uid(&action.uid)?;
            let call = facts.change(&FactChange {
                fact: Fact {
                    metric: &event.metric,
                    entity: &event.entity,
                    uid: &action.uid,
                },
                op,
                ts: event.ts,
                counter,
                event: (&log, &json),
                guard: guard.as_ref(),
            });
            return Ok(PreparedAction {
                call,
                shape: ReplyKind::Fact(counter.is_some()),
                partition,
            });
        }
        let Some(counter) = counter else {
            let words = ["XADD", &log, "0-*", EntryKind::Event.field(), &json];
            let call = RedisCall::guarded(&words, &[&log], guard.as_ref());
            return Ok(PreparedAction {
                call,
                shape: ReplyKind::Appended,
                partition,
            });
        };
        let mut keys = vec![&counter.key, &log];
        keys.extend(guard.as_ref().map(|guard| &guard.key));
        let mut call = RedisCall::script(COUNT_NOW.on(self.store.backend()), &keys);
        call.cmd.arg(counter.idx).arg(counter.len);
        call.cmd.arg(counter.least).arg(op.delta()).arg(&json);
        call.cmd.arg(guard.map(|guard| guard.seconds));
        Ok(PreparedAction {
            call,
            shape: ReplyKind::Counted,
            partition,
        })
    }

    fn guard(&self, action: &Action, event: &Event, op: Op) -> Option<IdempotencyGuard> {
        let Event {
            metric,
            entity,
            uid,
            ..
        } = event;
        let key = action.idempotency_key.as_ref()?.as_str();
        let key = self.store.keys().dedup(metric, entity, op.name(), uid, key);
        let seconds = self.catalog.config.dedup.window_seconds;
        Some(IdempotencyGuard { key, seconds })
    }

    /// Does one action.
    ///
    /// # Errors
    /// The store could not do it. Unless it said so itself, it may have been done.
    pub async fn execute(&self, prepared: &PreparedAction) -> Result<ActionOutcome, Problem> {
        let PreparedAction {
            call,
            shape,
            partition,
        } = prepared;
        let reply = match call.send(&self.store).await {
            // Nothing of it was done.
            Err(why) if rejected_by_foreign_last_id(&why) => {
                renumber(&self.store, *partition).await?;
                call.send(&self.store).await
            }
            reply => reply,
        };
        done(*shape, reply?)
    }

    /// Does many actions, in this order, in one round trip to each node.
    pub async fn execute_all(
        &self,
        prepared: Vec<PreparedAction>,
    ) -> Vec<Result<ActionOutcome, Problem>> {
        if prepared.is_empty() {
            return Vec::new();
        }
        let parts = prepared.iter();
        let (shapes, partitions): (Vec<ReplyKind>, Vec<Partition>) =
            parts.map(|action| (action.shape, action.partition)).unzip();
        let mut pipe = redis::pipe();
        // The scripts go ahead: one that the server does not know would otherwise be done after the actions behind it.
        let scripts = scripts(prepared.iter().map(|action| &action.call));
        for code in &scripts {
            pipe.cmd("SCRIPT").arg("LOAD").arg(&code.source);
        }
        for action in prepared {
            pipe.add_command(action.call.cmd);
        }
        pipe.ignore_errors();
        let sent: Result<Vec<Result<Value, RedisError>>, RedisError> =
            pipe.query_async(&mut self.store.commands()).await;
        let mut replies = match sent {
            Ok(replies) => replies.into_iter().skip(scripts.len()).collect(),
            Err(why) => vec![Err(why); shapes.len()],
        };
        let sent = pipe.cmd_iter().skip(scripts.len());
        let sent = sent.zip(partitions.into_iter().zip(shapes.iter().copied()));
        self.send_refused(sent, &mut replies).await;
        let replies = shapes.into_iter().zip(replies);
        replies.map(|(shape, reply)| done(shape, reply?)).collect()
    }

    /// Sends those again that a log refused since it ended with an entry of others: nothing of them was done. So are those behind
    /// them that changed no fact: they may have been to take back, or to do again, what was refused.
    async fn send_refused(
        &self,
        sent: impl Iterator<Item = (&Cmd, (Partition, ReplyKind))>,
        replies: &mut [Result<Value, RedisError>],
    ) {
        let (mut partitions, mut refused) = (BTreeSet::new(), Vec::new());
        for (at, (command, (partition, shape))) in sent.enumerate() {
            let again = match &replies[at] {
                Err(why) => rejected_by_foreign_last_id(why),
                Ok(reply) => partitions.contains(&partition) && is_unchanged_fact(shape, reply),
            };
            if again {
                partitions.insert(partition);
                refused.push((at, partition, command));
            }
        }
        // A log that only an operator can repair refuses its own actions, and no others.
        let open = renumber_each(&self.store, partitions).await;
        let (mut pipe, mut places) = (redis::pipe(), Vec::new());
        for (at, partition, command) in refused {
            if open.contains(&partition) {
                pipe.add_command(command.clone());
                places.push(at);
            }
        }
        if places.is_empty() {
            return;
        }
        pipe.ignore_errors();
        let again: Result<Vec<Result<Value, RedisError>>, RedisError> =
            pipe.query_async(&mut self.store.commands()).await;
        let again = again.unwrap_or_else(|why| vec![Err(why); places.len()]);
        for (at, reply) in places.into_iter().zip(again) {
            replies[at] = reply;
        }
    }

    /// Sets a repeatable metric's counter to 0 and returns what it was, in one step: unread messages that are read now.
    /// Events of it that are still in the log count afterwards.
    ///
    /// # Errors
    /// The metric has facts, or no counter, or the store could not do it.
    pub async fn reset(&self, metric: &str, entity: &Entity) -> Result<u64, Problem> {
        let (name, metric) = self.catalog.metric(metric)?;
        if metric.nature == Nature::Once || !metric.applies_to(&entity.etype) {
            let problem = format!("{name} of {} cannot be reset", entity.etype);
            return Err(Problem::Unfit(problem));
        }
        let counter = self.counter(entity, name).await?;
        let mut call = RedisCall::script(RESET.on(self.store.backend()), &[&counter.key]);
        call.cmd.arg(counter.idx).arg(counter.least);
        let was = u64::from_redis_value(call.send(&self.store).await?);
        Ok(was.map_err(|why| StoreError::Unexpected(why.to_string()))?)
    }
}

/// Whether a fact was as it is to be.
fn is_unchanged_fact(shape: ReplyKind, reply: &Value) -> bool {
    let changed = || facts::decode_change(reply.clone());
    matches!(shape, ReplyKind::Fact(_)) && matches!(changed(), Ok((false, _)))
}

fn done(shape: ReplyKind, reply: Value) -> Result<ActionOutcome, Problem> {
    if reply == Value::Nil {
        return Ok(ActionOutcome {
            changed: false,
            count: None,
        });
    }
    let (changed, count) = match shape {
        ReplyKind::Fact(is_counted) => {
            let (changed, count) = facts::decode_change(reply)?;
            // A counter that is missing reads as 0: nothing creates it where a fact is taken back.
            (changed, count.or(is_counted.then_some(0)))
        }
        ReplyKind::Appended => (true, None),
        ReplyKind::Counted => {
            let count = u64::from_redis_value(reply);
            let count = count.map_err(|why| StoreError::Unexpected(why.to_string()))?;
            (true, Some(count))
        }
    };
    Ok(ActionOutcome { changed, count })
}

/// The type of the entity that an action is done to.
fn etype(name: &Name, metric: &Metric, action: &Action) -> Result<Name, Problem> {
    match (&action.etype, metric.entities.as_deref()) {
        (Some(etype), _) => Ok(etype.clone()),
        (None, Some([only])) => Ok(only.clone()),
        _ => Err(Problem::Unfit(format!(
            "etype: missing, and {name} is for several"
        ))),
    }
}
