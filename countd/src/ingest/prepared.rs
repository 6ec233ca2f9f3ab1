//! Actions as Redis commands, and the decoding of their replies.

use super::action::ActionOutcome;
use super::grouped::GroupedAction;
use super::requests::Request;
use super::rounds::Change;
use super::windows::WindowedAction;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::domain::split::SplitState;
use crate::facts;
use crate::log::kafka::OutgoingRecord;
use crate::redis::call::{GuardedReply, RedisCall};
use crate::storage::authors::registered_author;
use redis::{Cmd, FromRedisValue, RedisError, Value};
use std::sync::Arc;

/// A validated action with its Redis command.
pub struct PreparedAction {
    pub(super) call: RedisCall,
    pub(super) reply_kind: ReplyKind,
    /// What it changes.
    pub(super) change: Change,
    /// The partition whose log receives the event.
    pub(super) partition: Partition,
    /// The author that the command registers.
    pub(super) registers: Option<(Entity, Id)>,
    /// The entity whose counter the command changes.
    pub(super) counted: Option<Box<CountedEntity>>,
    /// The hash of the request, if it has an idempotency key.
    pub(super) hash: Option<u64>,
    /// The action, if it counts once in a window of time.
    pub(super) windowed: Option<Box<WindowedAction>>,
    /// The action, if it can be executed together with others.
    pub(super) grouped: Option<Box<GroupedAction>>,
    /// The command that has to be executed before. It may fail: then the action fails, too, or repairs the key.
    pub(super) creates: Option<Box<Cmd>>,
    /// What else is needed if its entity is split. The command is that of the base.
    pub(super) split: Option<Box<SplitAction>>,
    /// The request, if the entity can be split: the action is prepared again when that has happened meanwhile.
    pub(super) request: Option<Arc<Request>>,
    /// The record of its event, if the action is nothing but a record in the topic. `call` is not sent then.
    pub(super) record: Option<Box<OutgoingRecord>>,
}

/// What an action on a split entity needs beside the command at the base.
pub(super) struct SplitAction {
    pub base: Entity,
    pub metric: Name,
    pub state: Arc<SplitState>,
    /// The same action at the shard of the user.
    pub at_shard: PreparedAction,
}

/// An entity whose counter a command changes.
pub(super) struct CountedEntity {
    /// The entity, or a shard of it.
    pub entity: Entity,
    /// Whether it is the base of a split entity.
    pub is_base: bool,
    /// The trace ID of the request.
    pub trace_id: String,
}

/// The form of the command's reply.
#[derive(Clone, Copy)]
pub(super) enum ReplyKind {
    /// The reply of a fact store.
    Fact {
        /// Whether the entity's counter changes in the same step.
        has_counter: bool,
    },
    /// The ID of the appended entry.
    Appended,
    /// The counter after the action.
    Counted,
    /// Whether the action was counted in its window of time, and the counter.
    Windowed {
        /// Whether the metric is counted immediately.
        has_counter: bool,
    },
}

impl ReplyKind {
    /// Whether the reply says that the fact did not change.
    pub(super) fn is_unchanged_fact(self, reply: &Value) -> bool {
        let changed = || facts::decode_change(reply.clone());
        matches!(self, ReplyKind::Fact { .. }) && matches!(changed(), Ok((false, _)))
    }

    /// The count that is returned for a missing counter: removing a fact does not create it.
    fn missing_count(self) -> Option<u64> {
        let has_counter = match self {
            ReplyKind::Fact { has_counter } | ReplyKind::Windowed { has_counter } => has_counter,
            ReplyKind::Appended | ReplyKind::Counted => false,
        };
        has_counter.then_some(0)
    }

    /// The outcome that the reply describes. `hash` is the hash of the request, if it has an idempotency key.
    pub(super) fn outcome(self, reply: Value, hash: Option<u64>) -> Result<ActionOutcome, Problem> {
        let reply = match GuardedReply::decode(reply, hash)? {
            GuardedReply::Executed(reply) => reply,
            GuardedReply::Replayed { changed, count } => {
                return Ok(ActionOutcome {
                    changed,
                    count: count.or_else(|| self.missing_count()),
                    replayed: true,
                });
            }
            GuardedReply::ReplayedUnknown => {
                return Ok(ActionOutcome {
                    changed: false,
                    count: None,
                    replayed: true,
                });
            }
            GuardedReply::Reused => return Err(Problem::KeyReused),
        };
        let (changed, count) = match self {
            ReplyKind::Fact { .. } | ReplyKind::Windowed { .. } => {
                let (changed, count) = facts::decode_change(reply)?;
                (changed, count.or_else(|| self.missing_count()))
            }
            ReplyKind::Appended => (true, None),
            ReplyKind::Counted => (true, Some(counter_value(reply)?)),
        };
        Ok(ActionOutcome {
            changed,
            count,
            replayed: false,
        })
    }
}

/// The problem that an error of the command describes.
pub(super) fn problem(error: RedisError) -> Problem {
    match registered_author(&error) {
        Some(author) => Problem::AuthorMismatch(author),
        None if error.code() == Some(facts::AT_SHARD) => Problem::AtShard,
        None => error.into(),
    }
}

/// Parses the reply of a script that returns a counter.
pub(super) fn counter_value(reply: Value) -> Result<u64, StoreError> {
    u64::from_redis_value(reply).map_err(|error| StoreError::Unexpected(error.to_string()))
}
