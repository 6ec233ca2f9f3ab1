//! Facts in Sets, for ids of any form. Sharded facts use several Sets per entity, selected by a hash of the user's id, to limit the
//! size of each. Data without the module also stores its id sets as Sets, one per entity.

use super::card::CardSource;
use super::change::{FACT_CHANGE, change_call};
use super::member::MemberSource;
use super::store::{Fact, FactChange, FactPage, FactStore, InvalidCursor, check_numeric_uid};
use crate::domain::error::{StoreError, UnsupportedUserId};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Keys;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUTHOR, CounterBackend, ScriptTemplate};
use redis::{FromRedisValue, Value};

static CHANGE: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, include_str!("../lua/facts_set.lua"), FACT_CHANGE])
        .with_days();
static USERS: ScriptTemplate =
    ScriptTemplate::reading(&[SET_PAGING, include_str!("../lua/users_set.lua")]);
/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["SISMEMBER {set} m"];

/// Functions that page through Sets.
pub(super) const SET_PAGING: &str = include_str!("../lua/set_paging.lua");

/// Facts in Sets.
#[derive(Clone, Copy)]
pub struct SetFacts {
    keys: Keys,
    backend: CounterBackend,
    /// The number of Sets of an entity; `None` for a single one at the key of an id set.
    shards: Option<u16>,
}

impl SetFacts {
    /// Facts in several Sets per entity.
    pub fn sharded(keys: Keys, backend: CounterBackend, shards: u16) -> SetFacts {
        SetFacts {
            keys,
            backend,
            shards: Some(shards),
        }
    }

    /// Facts in a Set that replaces the module's id set and supports the same ids.
    pub fn id_sets(keys: Keys, backend: CounterBackend) -> SetFacts {
        SetFacts {
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

impl FactStore for SetFacts {
    fn check_uid(&self, uid: &Id) -> Result<(), UnsupportedUserId> {
        match self.shards {
            Some(_) => Ok(()),
            None => check_numeric_uid(uid),
        }
    }

    fn change(&self, change: &FactChange<'_>) -> RedisCall {
        let keys = vec![self.key(&change.fact)];
        let Fact {
            metric,
            entity,
            uid,
        } = change.fact;
        let sets = self.keys.fact_sets(metric, entity);
        let shards = self.shards.unwrap_or(0).to_string();
        let arguments = [uid.as_str(), &sets.prefix, &sets.suffix, &shards];
        change_call((&CHANGE, self.backend), change, keys, &arguments)
    }

    fn contains(&self, fact: &Fact<'_>) -> RedisCall {
        let args = ["SISMEMBER", &self.key(fact), fact.uid.as_str()];
        RedisCall::guarded(&args, &[], None)
    }

    fn page(
        &self,
        metric: &Name,
        entity: &Entity,
        from: Option<&str>,
        limit: usize,
    ) -> Result<RedisCall, InvalidCursor> {
        let cursor = SetCursor::parse(from, 0)?;
        let count = self.shards.map_or(1, u32::from);
        if cursor.set >= count {
            return Err(InvalidCursor);
        }
        let keys: Vec<String> = match self.shards {
            Some(_) => {
                let template = self.keys.fact_sets(metric, entity);
                (cursor.set..count)
                    .map(|shard| template.key(shard))
                    .collect()
            }
            None => vec![self.keys.facts(metric, entity)],
        };
        let mut call = RedisCall::script(USERS.on(self.backend), &keys);
        cursor.add_arguments(&mut call, limit);
        Ok(call)
    }

    fn decode_page(&self, reply: Value, _: Option<&str>, _: usize) -> Result<FactPage, StoreError> {
        decode_page(reply)
    }

    fn contains_permissions(&self) -> Permissions {
        Permissions::of_commands(PERMISSIONS)
    }

    fn root_keys(&self, metric: &Name, entity: &Entity) -> Vec<String> {
        let sets = self.keys.fact_sets(metric, entity);
        match self.shards {
            Some(shards) => (0..shards).map(|shard| sets.key(shard)).collect(),
            None => vec![self.keys.facts(metric, entity)],
        }
    }

    fn card_source(&self, metric: &Name, entity: &Entity) -> CardSource {
        CardSource::sets(self.root_keys(metric, entity))
    }

    fn member_source(&self, fact: &Fact<'_>) -> MemberSource {
        MemberSource::set(self.key(fact))
    }

    fn required_permissions(&self) -> Permissions {
        RedisCall::guarded_permissions(PERMISSIONS)
            .and(CHANGE.required_permissions(self.backend))
            .and(USERS.required_permissions(self.backend))
    }
}

/// The cursor of a page from Sets: `{set}.{scan}.{last}`, as set_paging.lua defines it.
#[derive(Debug)]
pub(super) struct SetCursor<'a> {
    /// The Set.
    pub set: u32,
    scan: &'a str,
    last: &'a str,
}

impl<'a> SetCursor<'a> {
    /// Parses a cursor. `first` is the Set in which the first page starts.
    pub fn parse(from: Option<&'a str>, first: u32) -> Result<SetCursor<'a>, InvalidCursor> {
        let Some(text) = from else {
            return Ok(SetCursor {
                set: first,
                scan: "0",
                last: "",
            });
        };
        let mut parts = text.splitn(3, '.');
        let mut part = || parts.next().ok_or(InvalidCursor);
        let (set, scan, last) = (part()?, part()?, part()?);
        let is_valid = scan == "all" || scan.parse::<u64>().is_ok();
        if !is_valid || !(last.is_empty() || Id::new(last).is_ok()) {
            return Err(InvalidCursor);
        }
        Ok(SetCursor {
            set: set.parse().map_err(|_| InvalidCursor)?,
            scan,
            last,
        })
    }

    /// Adds the page size and the cursor to the arguments of a script.
    pub fn add_arguments(&self, call: &mut RedisCall, limit: usize) {
        call.cmd.arg(limit).arg(self.set);
        call.cmd.arg(self.scan).arg(self.last);
    }
}

/// The call that reads a page of up to `limit` members of one Set. [`decode_page`] decodes its reply.
///
/// # Errors
/// The cursor is invalid.
pub fn set_page(
    backend: CounterBackend,
    key: &str,
    from: Option<&str>,
    limit: usize,
) -> Result<RedisCall, InvalidCursor> {
    let cursor = SetCursor::parse(from, 0)?;
    if cursor.set > 0 {
        return Err(InvalidCursor);
    }
    let mut call = RedisCall::script(USERS.on(backend), &[key]);
    cursor.add_arguments(&mut call, limit);
    Ok(call)
}

/// The permissions that [`set_page`] requires.
pub fn set_page_permissions(backend: CounterBackend) -> Permissions {
    USERS.required_permissions(backend)
}

/// Decodes the reply of a script that pages through Sets.
pub fn decode_page(reply: Value) -> Result<FactPage, StoreError> {
    let (users, next) = <(Vec<String>, String)>::from_redis_value(reply)
        .map_err(|error| StoreError::Unexpected(format!("a page of users: {error}")))?;
    let next = (!next.is_empty()).then_some(next);
    Ok(FactPage { users, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_cursors_are_refused() {
        let cursor = SetCursor::parse(Some("20261231.17.a.b-c"), 0).expect("a cursor");
        assert_eq!(
            (cursor.set, cursor.scan, cursor.last),
            (20_261_231, "17", "a.b-c")
        );
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
            assert!(SetCursor::parse(Some(bad), 0).is_err(), "{bad}");
        }
    }
}
