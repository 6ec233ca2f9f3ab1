//! What users do: facts, counts and events.
//!
//! Each action is one command to Redis, so it is done or not done. A metric that a user has at most once is an `RBM.MARK`
//! or `RBM.UNMARK`: sent again, it changes nothing. One that is repeatable appends its event to the log; sent again, it counts
//! again, unless it has an idempotency key: then the check and the action are one script.

use crate::config::{Count, Metric, Nature};
use crate::event::{Event, now_ms};
use crate::facts::{Change, Counter, Facts, Keyed, Op};
use crate::ids::{Entity, Id, Name};
use crate::log::Kind;
use crate::service::{Problem, Service, shorten};
use crate::store::StoreError;
use redis::{Cmd, FromRedisValue, RedisError, Script, Value};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

const EVENT: Kind = Kind::Event;

const SOURCES: [&str; 2] = [
    include_str!("lua/guarded.lua"),
    include_str!("lua/count_now.lua"),
];
/// Runs a command once for an idempotency key.
static GUARDED: LazyLock<Script> = LazyLock::new(|| Script::new(SOURCES[0]));
/// Counts and appends.
static COUNT_NOW: LazyLock<Script> = LazyLock::new(|| Script::new(SOURCES[1]));

/// What somebody does to an entity.
#[derive(Clone, Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Action {
    /// What is done, where the path does not say it.
    pub metric: Option<Name>,
    /// The type of the entity. It may be left out where the metric is for one type alone.
    pub etype: Option<Name>,
    /// Its id.
    pub eid: Id,
    /// Who does it.
    pub uid: Id,
    /// Done, which is the default, or taken back.
    pub op: Option<Op>,
    /// Whose entity it is. Only with it are the author's counters kept.
    pub author: Option<Id>,
    /// The same key of the same action within the window is the same action, sent again.
    pub idempotency_key: Option<Id>,
}

/// What became of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Done {
    /// False if it had been done before: nothing changed.
    pub changed: bool,
    /// The entity's counter after it, where it is counted at once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<u64>,
}

/// An action as a command, ready to be sent.
pub struct Prepared {
    cmd: Cmd,
    script: Option<&'static Script>,
    shape: Shape,
}

/// What an action does.
enum Call<'a> {
    /// One command.
    Command(Keyed),
    /// The script that counts and appends.
    Counting(&'a Counter),
}

/// What the reply of an action's command looks like.
#[derive(Clone, Copy)]
enum Shape {
    /// That of `RBM.MARK`.
    Fact,
    /// The id of an entry.
    Appended,
    /// The counter after it.
    Counted,
}

impl Service {
    /// Checks an action and makes its command. `metric` is a name, an alias, or one of those with `un` before it: then the
    /// action is taken back.
    ///
    /// # Errors
    /// It does not fit the metric or the entity, or the schema cannot be read.
    pub async fn prepare(
        &self,
        metric: &str,
        action: &Action,
        trace_id: &str,
    ) -> Result<Prepared, Problem> {
        let (name, metric, op) = self.verb(metric, action.op)?;
        let entity = Entity {
            etype: etype(name, metric, action)?,
            eid: action.eid.clone(),
        };
        let schema = self.schema_id(&entity.etype)?;
        if !metric.applies_to(&entity.etype) {
            return Err(Problem::Unfit(format!("{} has no {name}", entity.etype)));
        }
        let counter = match metric.count {
            Count::Never => None,
            Count::Now => Some(self.counter(&entity, name).await?),
            Count::Batched => {
                // The consumer would find no field to count in.
                self.field(&entity, name.as_str()).await?;
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
    fn verb(&self, word: &str, op: Option<Op>) -> Result<(&Name, &Metric, Op), Problem> {
        let unknown = match self.metric(word) {
            Ok((name, metric)) => return Ok((name, metric, op.unwrap_or(Op::Add))),
            Err(unknown) => unknown,
        };
        let (name, metric) = match word.strip_prefix("un") {
            Some(word) => self.metric(word).map_err(|_| unknown)?,
            None => return Err(unknown),
        };
        if op.is_some() {
            return Err(Problem::Malformed(format!(
                "op: {} says it already",
                shorten(word)
            )));
        }
        Ok((name, metric, Op::Remove))
    }

    async fn counter(&self, entity: &Entity, metric: &Name) -> Result<Counter, Problem> {
        let (schema, idx, len) = self.field(entity, metric.as_str()).await?;
        let key = self.store.keys().counters(schema, entity);
        Ok(Counter { key, idx, len })
    }

    fn command(
        &self,
        (metric, op): (&Metric, Op),
        action: &Action,
        event: &Event,
        counter: Option<&Counter>,
    ) -> Result<Prepared, Problem> {
        let keys = self.store.keys();
        let log = keys.log(keys.of_entity(&event.entity));
        let json = event.to_json();
        let (call, shape) = match metric.nature {
            Nature::Once => {
                self.facts().fits(&action.uid)?;
                let change = self.facts().change(&Change {
                    metric: &event.metric,
                    entity: &event.entity,
                    uid: &action.uid,
                    op,
                    counter,
                    event: (&log, &json),
                });
                (Call::Command(change), Shape::Fact)
            }
            Nature::Repeatable => match counter {
                None if action.idempotency_key.is_none() => {
                    let mut cmd = redis::cmd("XADD");
                    cmd.arg(&log).arg("0-*").arg(EVENT.field()).arg(&json);
                    return Ok(Prepared {
                        cmd,
                        script: None,
                        shape: Shape::Appended,
                    });
                }
                None => (Call::Command(appending(&log, &json)), Shape::Appended),
                Some(counter) => (Call::Counting(counter), Shape::Counted),
            },
        };
        let window = self.config.dedup.window_seconds;
        let dedup = action.idempotency_key.as_ref().map(|key| {
            keys.dedup(
                &event.metric,
                &event.entity,
                op.name(),
                &action.uid,
                key.as_str(),
            )
        });
        Ok(match (call, dedup) {
            (Call::Command(call), None) => Prepared {
                cmd: call.cmd(),
                script: None,
                shape,
            },
            (Call::Command(call), Some(dedup)) => {
                let mut cmd = redis::cmd("EVALSHA");
                cmd.arg(GUARDED.get_hash())
                    .arg(call.keys.len() + 1)
                    .arg(dedup);
                cmd.arg(call.keys).arg(window).arg(call.words);
                Prepared {
                    cmd,
                    script: Some(&*GUARDED),
                    shape,
                }
            }
            (Call::Counting(counter), dedup) => {
                let mut cmd = redis::cmd("EVALSHA");
                cmd.arg(COUNT_NOW.get_hash())
                    .arg(if dedup.is_some() { 3 } else { 2 });
                cmd.arg(&counter.key).arg(&log).arg(dedup);
                cmd.arg(counter.idx)
                    .arg(counter.len)
                    .arg(op.delta())
                    .arg(&json)
                    .arg(window);
                Prepared {
                    cmd,
                    script: Some(&*COUNT_NOW),
                    shape,
                }
            }
        })
    }

    /// Does one action.
    ///
    /// # Errors
    /// The store could not do it. Unless it said so itself, it may have been done.
    pub async fn act(&self, prepared: &Prepared) -> Result<Done, Problem> {
        let reply = match prepared.script {
            Some(script) => self.store.run_script(script, &prepared.cmd).await?,
            None => {
                let mut connection = self.store.commands();
                prepared.cmd.query_async(&mut connection).await?
            }
        };
        self.done(prepared.shape, reply)
    }

    /// Does many actions, in this order, in one round trip.
    pub async fn act_all(&self, prepared: Vec<Prepared>) -> Vec<Result<Done, Problem>> {
        if prepared.is_empty() {
            return Vec::new();
        }
        let shapes: Vec<Shape> = prepared.iter().map(|action| action.shape).collect();
        let mut pipe = redis::pipe();
        // The scripts go ahead: one that the server does not know would otherwise be done after the actions behind it.
        let scripts: &[&str] = match prepared.iter().any(|action| action.script.is_some()) {
            true => &SOURCES,
            false => &[],
        };
        for source in scripts {
            pipe.cmd("SCRIPT").arg("LOAD").arg(source);
        }
        for action in prepared {
            pipe.add_command(action.cmd);
        }
        pipe.ignore_errors();
        let sent: Result<Vec<Result<Value, RedisError>>, RedisError> =
            pipe.query_async(&mut self.store.commands()).await;
        let replies = match sent {
            Ok(replies) => replies.into_iter().skip(scripts.len()).collect(),
            Err(why) => vec![Err(why); shapes.len()],
        };
        let replies = shapes.into_iter().zip(replies);
        replies
            .map(|(shape, reply)| self.done(shape, reply?))
            .collect()
    }

    fn done(&self, shape: Shape, reply: Value) -> Result<Done, Problem> {
        if reply == Value::Nil {
            return Ok(Done {
                changed: false,
                count: None,
            });
        }
        let (changed, count) = match shape {
            Shape::Fact => self.facts().changed(reply)?,
            Shape::Appended => (true, None),
            Shape::Counted => {
                let count = u64::from_redis_value(reply);
                let count = count.map_err(|why| StoreError::Unexpected(why.to_string()))?;
                (true, Some(count))
            }
        };
        Ok(Done { changed, count })
    }

    /// Sets a repeatable metric's counter to 0 and returns what it was, in one step: unread messages that are read now.
    /// Events of it that are still in the log count afterwards.
    ///
    /// # Errors
    /// The metric has facts, or no counter, or the store could not do it.
    pub async fn reset(&self, metric: &str, entity: &Entity) -> Result<u64, Problem> {
        let (name, metric) = self.metric(metric)?;
        if metric.nature == Nature::Once || !metric.applies_to(&entity.etype) {
            let problem = format!("{name} of {} cannot be reset", entity.etype);
            return Err(Problem::Unfit(problem));
        }
        let counter = self.counter(entity, name).await?;
        let sent: Result<Option<u64>, RedisError> = redis::cmd("CINT.GETSET")
            .arg(&counter.key)
            .arg(counter.idx)
            .arg(0)
            .query_async(&mut self.store.commands())
            .await;
        match sent {
            Ok(old) => Ok(old.unwrap_or(0)),
            // An object from before the schema was extended: the field is 0 by being missing.
            Err(why) if why.detail() == Some("index out of range") => Ok(0),
            Err(why) => Err(why.into()),
        }
    }
}

/// The type of the entity that an action is done to.
fn etype(name: &Name, metric: &Metric, action: &Action) -> Result<Name, Problem> {
    match (&action.etype, metric.entities.as_deref()) {
        (Some(etype), _) => Ok(etype.clone()),
        (None, Some([only])) => Ok(only.clone()),
        _ => Err(Problem::Malformed(format!(
            "etype: missing, and {name} is for several"
        ))),
    }
}

fn appending(log: &str, event: &str) -> Keyed {
    Keyed {
        keys: vec![log.to_owned()],
        words: ["XADD", log, "0-*", EVENT.field(), event]
            .map(str::to_owned)
            .to_vec(),
    }
}
