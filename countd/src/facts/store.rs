//! The trait of a fact store, and its types.

use super::card::CardSource;
use super::member::MemberSource;
use crate::domain::error::{StoreError, UnsupportedUserId};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::CounterLocation;
use crate::domain::op::Op;
use crate::redis::author::NamedAuthor;
use crate::redis::call::{IdempotencyGuard, PlacedCounters, RedisCall};
use crate::redis::day::CountedDay;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, ScriptTemplate};
use redis::{Cmd, FromRedisValue, Value};

/// The counter that changes with a fact.
#[derive(Clone, Debug)]
pub struct CounterField {
    /// Where the counters are.
    pub at: CounterLocation,
    /// The field of the counter.
    pub idx: usize,
    /// The length to which the object or the table is extended.
    pub len: usize,
    /// The minimum number of fields of an existing object.
    pub min_len: usize,
    /// Whether a change of a fact is refused if the counter is 0 although the entity has facts.
    pub verify: bool,
}

impl CounterField {
    /// The arguments of scripts: row, idx, length and minimum length. The row of an object is empty.
    pub fn script_args(&self) -> [String; 4] {
        [
            self.at.row().map(|id| id.to_string()).unwrap_or_default(),
            self.idx.to_string(),
            self.len.to_string(),
            self.min_len.to_string(),
        ]
    }

    /// The counters, if a migration moves them, with the index of the row in the arguments of a call.
    pub fn moving(&self, row: usize) -> Option<PlacedCounters<'_>> {
        self.at.moving().map(|at| PlacedCounters {
            at,
            row,
            min_len: self.min_len,
        })
    }
}

/// The call of a script that uses a counter, if there is one. The row is the argument with this index. `day` is that of the counter, if
/// it has counts by day. `add_arguments` adds the arguments of the script.
pub fn counter_call(
    script: (&'static ScriptTemplate, CounterBackend),
    keys: &[impl AsRef<str>],
    (counter, row, day): (Option<&CounterField>, usize, Option<&CountedDay>),
    add_arguments: impl FnOnce(&mut Cmd),
) -> RedisCall {
    let counters = counter.and_then(|counter| counter.moving(row));
    RedisCall::counting(script, keys, (counters.as_ref(), day, 0), add_arguments)
}

/// A fact: a user performed a metric on an entity.
#[derive(Clone, Copy)]
pub struct Fact<'a> {
    /// The metric.
    pub metric: &'a Name,
    /// The entity.
    pub entity: &'a Entity,
    /// The user.
    pub uid: &'a Id,
}

/// A fact to add or remove.
pub struct FactChange<'a> {
    /// The fact.
    pub fact: Fact<'a>,
    /// Whether the fact is added or removed.
    pub op: Op,
    /// The time, in milliseconds since 1970.
    pub ts: u64,
    /// The counter that changes in the same step, if the fact changes.
    pub counter: Option<&'a CounterField>,
    /// The day in which the change counts, if the counter has counts by day.
    pub day: Option<&'a CountedDay>,
    /// The log, and the event that is appended to it in the same step, if the fact changes.
    pub event: (&'a str, &'a str),
    /// The idempotency key. If it exists, nothing changes.
    pub guard: Option<&'a IdempotencyGuard>,
    /// The author of the entity, which is registered in the same step. If the entity has another author, nothing changes.
    pub author: Option<&'a NamedAuthor>,
}

/// The same change of the facts of several users, with a counter.
pub struct FactGroup<'a> {
    /// The metric.
    pub metric: &'a Name,
    /// The entity.
    pub entity: &'a Entity,
    /// The users, whose ids must be supported.
    pub uids: &'a [&'a Id],
    /// Whether the facts are added or removed.
    pub op: Op,
    /// The counter that changes in the same step, by the number of facts that change. No migration moves it.
    pub counter: &'a CounterField,
    /// The log, and the JSON of the [`GroupEvent`](crate::domain::event::GroupEvent) that is appended to it in the same step, if a fact
    /// changes.
    pub event: (&'a str, &'a str),
}

/// A cursor that the fact store did not return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCursor;

/// A page of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactPage {
    /// The users.
    pub users: Vec<String>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<String>,
}

/// Stores facts in Redis.
pub trait FactStore: Send + Sync {
    /// Checks that the store supports a user's id.
    ///
    /// # Errors
    /// The id is not supported.
    fn check_uid(&self, uid: &Id) -> Result<(), UnsupportedUserId>;

    /// The call that changes a fact. [`decode_change`] decodes its reply, which is nil if the idempotency key exists. The user's id
    /// must be supported.
    fn change(&self, change: &FactChange<'_>) -> RedisCall;

    /// Whether [`change_group`](Self::change_group) has a call.
    fn changes_groups(&self) -> bool {
        false
    }

    /// The call that changes the facts of several users in one step. [`decode_group`] decodes its reply. `None` if the store has none.
    fn change_group(&self, _group: &FactGroup<'_>) -> Option<RedisCall> {
        None
    }

    /// The call that reads whether a fact exists. Its reply is 0 or 1. The user's id must be supported.
    fn contains(&self, fact: &Fact<'_>) -> RedisCall;

    /// Whether [`page_of`](Self::page_of) reads several facts.
    fn reads_pages(&self) -> bool {
        false
    }

    /// The call that reads whether facts of one user exist, at least one. In a cluster their entities are in one partition. Its reply is
    /// a string with a digit for each fact: 0 or 1.
    fn page_of(&self, facts: &[Fact<'_>]) -> RedisCall {
        self.contains(&facts[0])
    }

    /// The call that reads a page of up to `limit` users, from a cursor on (`None`: from the start).
    ///
    /// # Errors
    /// The cursor is invalid.
    fn page(
        &self,
        metric: &Name,
        entity: &Entity,
        from: Option<&str>,
        limit: usize,
    ) -> Result<RedisCall, InvalidCursor>;

    /// Whether a cursor of [`page`](Self::page) is valid on every server that has the facts. Cursors of `SSCAN` are not.
    fn has_portable_cursors(&self) -> bool {
        false
    }

    /// Decodes the reply of [`page`](Self::page) with the same arguments.
    ///
    /// # Errors
    /// The reply is not a page.
    fn decode_page(
        &self,
        reply: Value,
        from: Option<&str>,
        limit: usize,
    ) -> Result<FactPage, StoreError>;

    /// The permissions that [`contains`](Self::contains) requires.
    fn contains_permissions(&self) -> Permissions;

    /// The keys of which at least one exists while an entity has facts of a metric.
    fn root_keys(&self, metric: &Name, entity: &Entity) -> Vec<String>;

    /// Where scripts find the facts of a metric on an entity to count them.
    fn card_source(&self, metric: &Name, entity: &Entity) -> CardSource;

    /// Where scripts find a fact to read whether it exists. The user's id must be supported.
    fn member_source(&self, fact: &Fact<'_>) -> MemberSource;

    /// The permissions that all calls of the store require.
    fn required_permissions(&self) -> Permissions;
}

/// Decodes the reply of [`FactStore::change`]: whether the fact changed, and the counter's new value.
///
/// # Errors
/// The reply is malformed.
pub fn decode_change(reply: Value) -> Result<(bool, Option<u64>), StoreError> {
    let (changed, count) = <(u8, Option<u64>)>::from_redis_value(reply)
        .map_err(|error| StoreError::Unexpected(format!("the change of a fact: {error}")))?;
    Ok((changed == 1, count))
}

/// Decodes the reply of [`FactStore::change_group`]: for each user whether the fact changed, and the counter's new value.
///
/// # Errors
/// The reply is malformed.
pub fn decode_group(reply: Value) -> Result<(Vec<bool>, Option<u64>), StoreError> {
    <(Vec<bool>, Option<u64>)>::from_redis_value(reply)
        .map_err(|error| StoreError::Unexpected(format!("the change of several facts: {error}")))
}

/// Checks that a user's id is an unsigned 64-bit integer, which id sets require.
pub(super) fn check_numeric_uid(uid: &Id) -> Result<(), UnsupportedUserId> {
    uid.number().map(|_| ()).ok_or(UnsupportedUserId(u64::MAX))
}
