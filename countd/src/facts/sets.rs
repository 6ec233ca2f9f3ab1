//! FactStore in Sets: any ids. A hash of the user's id says in which of an entity's Sets he is, so that none gets too big. Where the
//! server has no module, sets of ids are such a Set, too.

use super::mark::{MARK, mark};
use super::{Fact, FactChange, FactStore, InvalidCursor, Page, rbm};
use crate::domain::error::StoreError;
use crate::domain::error::UnsupportedUserId;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Keys;
use crate::redis::call::RedisCall;
use crate::redis::script::{CounterBackend, ScriptTemplate};
use redis::{FromRedisValue, Value};

static MARK_IN_SET: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../lua/facts_sets.lua"), MARK]);
static WHO: ScriptTemplate =
    ScriptTemplate::reading(&[SET_PAGES, include_str!("../lua/who_sets.lua")]);

/// Pages out of Sets.
pub(super) const SET_PAGES: &str = include_str!("../lua/set_pages.lua");

/// The way of Sets.
#[derive(Clone, Copy)]
pub struct Sets {
    keys: Keys,
    backend: CounterBackend,
    /// How many of them an entity has; `None`: one, at the key of a set of ids.
    shards: Option<u16>,
}

impl Sets {
    /// So many for an entity.
    pub fn sharded(keys: Keys, backend: CounterBackend, shards: u16) -> Sets {
        Sets {
            keys,
            backend,
            shards: Some(shards),
        }
    }

    /// One in place of the module's sets of ids, which takes what they take.
    pub fn of_ids(keys: Keys, backend: CounterBackend) -> Sets {
        Sets {
            keys,
            backend,
            shards: None,
        }
    }

    fn key(&self, fact: &Fact<'_>) -> String {
        match self.shards {
            Some(shards) => {
                let shard = Keys::shard(fact.uid, shards);
                self.keys.fact_sets(fact.metric, fact.entity).key(shard)
            }
            None => self.keys.facts(fact.metric, fact.entity),
        }
    }
}

impl FactStore for Sets {
    fn check_uid(&self, uid: &Id) -> Result<(), UnsupportedUserId> {
        match self.shards {
            Some(_) => Ok(()),
            None => rbm::check_uid(uid),
        }
    }

    fn change(&self, change: &FactChange<'_>) -> RedisCall {
        let keys = vec![self.key(&change.fact)];
        let uid = change.fact.uid.as_str();
        mark(MARK_IN_SET.on(self.backend), change, keys, &[uid])
    }

    fn contains(&self, fact: &Fact<'_>) -> RedisCall {
        let words = ["SISMEMBER", &self.key(fact), fact.uid.as_str()];
        RedisCall::guarded(&words, &[], None)
    }

    fn page(
        &self,
        metric: &Name,
        entity: &Entity,
        from: Option<&str>,
        limit: usize,
    ) -> Result<RedisCall, InvalidCursor> {
        let at = At::parse(from, 0)?;
        let count = self.shards.map_or(1, u32::from);
        if at.set >= count {
            return Err(InvalidCursor);
        }
        let keys: Vec<String> = match self.shards {
            Some(_) => {
                let family = self.keys.fact_sets(metric, entity);
                (at.set..count).map(|shard| family.key(shard)).collect()
            }
            None => vec![self.keys.facts(metric, entity)],
        };
        let mut call = RedisCall::script(WHO.on(self.backend), &keys);
        at.write(&mut call, limit);
        Ok(call)
    }

    fn paged(&self, reply: Value, _: Option<&str>, _: usize) -> Result<Page, StoreError> {
        paged(reply)
    }
}

/// Where a page out of Sets ended: `{set}.{cursor}.{last}`, as set_pages.lua has it.
#[derive(Debug)]
pub(super) struct At<'a> {
    /// Which Set.
    pub set: u32,
    cursor: &'a str,
    last: &'a str,
}

impl<'a> At<'a> {
    /// `first`: the Set with which the first page begins.
    pub fn parse(from: Option<&'a str>, first: u32) -> Result<At<'a>, InvalidCursor> {
        let Some(text) = from else {
            return Ok(At {
                set: first,
                cursor: "0",
                last: "",
            });
        };
        let mut parts = text.splitn(3, '.');
        let mut part = || parts.next().ok_or(InvalidCursor);
        let (set, cursor, last) = (part()?, part()?, part()?);
        let is_cursor = cursor == "all" || cursor.parse::<u64>().is_ok();
        if !is_cursor || !(last.is_empty() || Id::new(last).is_ok()) {
            return Err(InvalidCursor);
        }
        Ok(At {
            set: set.parse().map_err(|_| InvalidCursor)?,
            cursor,
            last,
        })
    }

    /// As arguments of a script.
    pub fn write(&self, call: &mut RedisCall, limit: usize) {
        call.cmd.arg(limit).arg(self.set);
        call.cmd.arg(self.cursor).arg(self.last);
    }
}

/// The page in the reply of a script.
pub(super) fn paged(reply: Value) -> Result<Page, StoreError> {
    let (users, next) = <(Vec<String>, String)>::from_redis_value(reply)
        .map_err(|why| StoreError::Unexpected(format!("a page of users: {why}")))?;
    let next = (!next.is_empty()).then_some(next);
    Ok(Page { users, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_checked() {
        let at = At::parse(Some("20261231.17.a.b-c"), 0).expect("one");
        assert_eq!((at.set, at.cursor, at.last), (20_261_231, "17", "a.b-c"));
        for bad in [
            "",
            "7",
            "1.2",
            "x.1.",
            "1.x.",
            "1.1.a:b",
            "-1.0.",
            "1.some.",
            "4294967296.0.",
        ] {
            assert!(At::parse(Some(bad), 0).is_err(), "{bad}");
        }
    }
}
