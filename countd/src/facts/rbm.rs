//! Facts in the module's id sets: 64-bit ids. `RBM.MARK` changes fact, counter and log atomically, and `RBM.MMARK` several facts with
//! one event.

use super::card::CardSource;
use super::member::MemberSource;
use super::set::SetCursor;
use super::store::{
    CounterField, Fact, FactChange, FactGroup, FactPage, FactStore, InvalidCursor,
    check_numeric_uid,
};
use crate::domain::error::{StoreError, UnsupportedUserId};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Keys;
use crate::domain::op::Op;
use crate::log::EntryKind;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use redis::{Cmd, FromRedisValue, Value};

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &[
    "RBM.MARK {ids} 0 EVENT {log} SEQ e x",
    "RBM.MARK {ids} 0 COUNT {counters} 0 LEN 1",
    "RBM.MARK {ids} 0 COUNT {tables} ROW 0 0 LEN 1",
    "RBM.UNMARK {ids} 0 EVENT {log} SEQ e x",
    "RBM.UNMARK {ids} 0 COUNT {counters} 0 LEN 1",
    "RBM.UNMARK {ids} 0 COUNT {tables} ROW 0 0 LEN 1",
    "RBM.CONTAINS {ids} 0",
    "RBM.PAGE 0 {ids}",
    "RBM.SCAN {ids} 0 COUNT 1 REV",
];

/// Commands on groups, which no script calls.
const GROUP_PERMISSIONS: &[&str] = &[
    "RBM.MMARK {ids} 0 EVENT {log} SEQ g x",
    "RBM.MMARK {ids} 0 COUNT {counters} 0 LEN 1",
    "RBM.MMARK {ids} 0 COUNT {tables} ROW 0 0 LEN 1",
    "RBM.MUNMARK {ids} 0 EVENT {log} SEQ g x",
    "RBM.MUNMARK {ids} 0 COUNT {counters} 0 LEN 1",
    "RBM.MUNMARK {ids} 0 COUNT {tables} ROW 0 0 LEN 1",
];

/// The index of the row in the arguments of `RBM.MARK key member COUNT table ROW id`.
const ROW: usize = 6;
/// About the length of a key.
const KEY_BYTES: usize = 40;

/// Facts in the module's id sets.
#[derive(Clone, Copy)]
pub struct RbmFacts(pub Keys);

/// Adds the arguments of the counter, of which `counter_args` are those of scripts.
fn add_count<'a>(
    args: &mut Vec<&'a str>,
    counter: &'a CounterField,
    [row, idx, len, _]: &'a [String; 4],
) {
    args.extend(["COUNT", counter.at.key()]);
    if !row.is_empty() {
        args.extend(["ROW", row]);
    }
    args.extend([idx.as_str(), "LEN", len]);
    if counter.verify {
        args.push("VERIFY");
    }
}

impl FactStore for RbmFacts {
    fn check_uid(&self, uid: &Id) -> Result<(), UnsupportedUserId> {
        check_numeric_uid(uid)
    }

    fn change(&self, change: &FactChange<'_>) -> RedisCall {
        let name = match change.op {
            Op::Add => "RBM.MARK",
            Op::Remove => "RBM.UNMARK",
        };
        let Fact {
            metric,
            entity,
            uid,
        } = change.fact;
        let facts = self.0.facts(metric, entity);
        let (stream, event) = change.event;
        let mut keys = vec![facts.as_str()];
        let mut args = vec![name, &facts, uid.as_str()];
        let counter = change
            .counter
            .map(|counter| (counter, counter.script_args()));
        if let Some((counter, counter_args)) = &counter {
            keys.push(counter.at.key());
            add_count(&mut args, counter, counter_args);
        }
        keys.push(stream);
        args.extend(["EVENT", stream, "SEQ", EntryKind::Event.field(), event]);
        let moving = change.counter.and_then(|counter| counter.moving(ROW));
        let counting = (moving.as_ref(), change.day);
        match (change.author, counting) {
            (Some(author), counting) => {
                let backend = CounterBackend::Module;
                author.call(backend, (&args, &keys), change.guard, counting)
            }
            (None, (None, None)) => RedisCall::guarded(&args, &keys, change.guard),
            (None, counting) => RedisCall::of_counter(&args, &keys, change.guard, counting),
        }
    }

    fn changes_groups(&self) -> bool {
        true
    }

    fn change_group(&self, group: &FactGroup<'_>) -> Option<RedisCall> {
        let name = match group.op {
            Op::Add => "RBM.MMARK",
            Op::Remove => "RBM.MUNMARK",
        };
        let facts = self.0.facts(group.metric, group.entity);
        let counter_args = group.counter.script_args();
        let mut args = vec![name, &facts];
        args.extend(group.uids.iter().map(|uid| uid.as_str()));
        add_count(&mut args, group.counter, &counter_args);
        let (stream, event) = group.event;
        args.extend(["EVENT", stream, "SEQ", EntryKind::Group.field(), event]);
        Some(RedisCall::guarded(&args, &[], None))
    }

    fn contains(&self, fact: &Fact<'_>) -> RedisCall {
        let key = self.0.facts(fact.metric, fact.entity);
        RedisCall::guarded(&["RBM.CONTAINS", &key, fact.uid.as_str()], &[], None)
    }

    fn reads_pages(&self) -> bool {
        true
    }

    fn page_of(&self, facts: &[Fact<'_>]) -> RedisCall {
        let mut cmd = Cmd::with_capacity(2 + facts.len(), KEY_BYTES * (1 + facts.len()));
        cmd.arg("RBM.PAGE");
        cmd.arg(facts.first().map_or("0", |fact| fact.uid.as_str()));
        let mut key = String::new();
        for fact in facts {
            self.0.write_facts(&mut key, fact.metric, fact.entity);
            cmd.arg(&key);
        }
        RedisCall::command(cmd)
    }

    fn page(
        &self,
        metric: &Name,
        entity: &Entity,
        from: Option<&str>,
        limit: usize,
    ) -> Result<RedisCall, InvalidCursor> {
        // The cursor of a page before an adoption has converted the Set: the users are listed from the beginning.
        let is_in_set =
            |from: &&str| SetCursor::parse(Some(from), 0).is_ok_and(|cursor| cursor.set == 0);
        let from = from.filter(|from| !is_in_set(from)).unwrap_or("0");
        if Id::new(from).ok().and_then(|id| id.number()).is_none() {
            return Err(InvalidCursor);
        }
        let key = self.0.facts(metric, entity);
        let count = limit.to_string();
        let args = ["RBM.SCAN", &key, from, "COUNT", &count, "REV"];
        Ok(RedisCall::guarded(&args, &[], None))
    }

    fn has_portable_cursors(&self) -> bool {
        true
    }

    fn decode_page(&self, reply: Value, _: Option<&str>, _: usize) -> Result<FactPage, StoreError> {
        let (cursor, users) = <(String, Vec<String>)>::from_redis_value(reply)
            .map_err(|error| StoreError::Unexpected(format!("RBM.SCAN: {error}")))?;
        let next = (cursor != "0").then_some(cursor);
        Ok(FactPage { users, next })
    }

    fn contains_permissions(&self) -> Permissions {
        Permissions::of_commands(&["RBM.CONTAINS {ids} 0"])
    }

    fn root_keys(&self, metric: &Name, entity: &Entity) -> Vec<String> {
        vec![self.0.facts(metric, entity)]
    }

    fn card_source(&self, metric: &Name, entity: &Entity) -> CardSource {
        CardSource::ids(self.0.facts(metric, entity))
    }

    fn member_source(&self, fact: &Fact<'_>) -> MemberSource {
        MemberSource::ids(self.0.facts(fact.metric, fact.entity))
    }

    fn required_permissions(&self) -> Permissions {
        RedisCall::guarded_permissions(PERMISSIONS)
            .and(Permissions::of_commands(GROUP_PERMISSIONS))
            .and(RedisCall::counter_permissions())
    }
}
