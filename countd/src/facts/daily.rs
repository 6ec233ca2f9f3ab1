//! Facts in one Set per day. Older days are compacted into an id set, which needs less memory, and non-numeric ids into a Set.
//!
//! A sorted set is the index of the days that have a Set. A lookup reads every indexed day and the compacted facts. A fact
//! therefore exists at most once, regardless of clocks and of the progress of compaction.

use super::card::CardSource;
use super::change::{FACT_CHANGE, change_call};
use super::member::MemberSource;
use super::set::{SET_PAGING, SetCursor, decode_page};
use super::store::{Fact, FactChange, FactPage, FactStore, InvalidCursor};
use crate::domain::day;
use crate::domain::error::{StoreError, UnsupportedUserId};
use crate::domain::event::now_ms;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{KeyTemplate, Keys};
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUTHOR, CounterBackend, ScriptTemplate};
use redis::Value;

const FACTS: &str = include_str!("../lua/facts_daily.lua");
static CHANGE: ScriptTemplate = ScriptTemplate::writing(&[AUTHOR, FACTS, FACT_CHANGE]).with_days();
static EXISTS: ScriptTemplate =
    ScriptTemplate::reading(&[FACTS, include_str!("../lua/fact_exists.lua")]);
static USERS: ScriptTemplate =
    ScriptTemplate::reading(&[SET_PAGING, include_str!("../lua/users_daily.lua")]);

/// The first page starts at the latest possible day.
const LATEST: u32 = u32::MAX;

/// Facts in one Set per day.
#[derive(Clone, Copy)]
pub struct DailyFacts {
    /// The layout of the keys.
    pub keys: Keys,
    /// How the data stores counters and id sets.
    pub backend: CounterBackend,
}

impl DailyFacts {
    /// The index of days, the compacted facts, the Set of a day, and the index of days of the partition.
    pub(super) fn keys_of(&self, metric: &Name, entity: &Entity, day: u64) -> Vec<String> {
        let sets = self.keys.fact_sets(metric, entity);
        vec![
            sets.key("days"),
            self.keys.facts(metric, entity),
            sets.key("old"),
            sets.key(day),
            self.keys.days(self.keys.of_entity(entity)),
        ]
    }

    /// Calls `call` with the keys and arguments of a fact on the day of `ms`.
    fn with_fact(
        &self,
        fact: &Fact<'_>,
        ms: u64,
        call: impl FnOnce(Vec<String>, &[&str]) -> RedisCall,
    ) -> RedisCall {
        let Fact {
            metric,
            entity,
            uid,
        } = fact;
        let today = day::of(ms);
        let KeyTemplate { prefix, suffix } = self.keys.fact_sets(metric, entity);
        let is_numeric = if uid.number().is_some() { "1" } else { "0" };
        let arguments = [
            uid.as_str(),
            is_numeric,
            &today.to_string(),
            &prefix,
            &suffix,
            &facts_name(metric, entity),
        ];
        call(self.keys_of(metric, entity, today), &arguments)
    }
}

/// The name of an entity's facts in the index of days of the partition.
pub(super) fn facts_name(metric: &Name, entity: &Entity) -> String {
    let Entity { etype, eid } = entity;
    format!("{metric}:{etype}:{eid}")
}

impl FactStore for DailyFacts {
    fn check_uid(&self, _: &Id) -> Result<(), UnsupportedUserId> {
        Ok(())
    }

    fn change(&self, change: &FactChange<'_>) -> RedisCall {
        self.with_fact(&change.fact, change.ts, |keys, arguments| {
            change_call((&CHANGE, self.backend), change, keys, arguments)
        })
    }

    fn contains(&self, fact: &Fact<'_>) -> RedisCall {
        self.with_fact(fact, now_ms(), |keys, arguments| {
            let mut call = RedisCall::script(EXISTS.on(self.backend), &keys);
            call.cmd.arg(arguments);
            call
        })
    }

    fn page(
        &self,
        metric: &Name,
        entity: &Entity,
        from: Option<&str>,
        limit: usize,
    ) -> Result<RedisCall, InvalidCursor> {
        let cursor = SetCursor::parse(from, LATEST)?;
        let sets = self.keys.fact_sets(metric, entity);
        let facts = self.keys.facts(metric, entity);
        let keys = [sets.key("days"), facts, sets.key("old")];
        let mut call = RedisCall::script(USERS.on(self.backend), &keys);
        cursor.add_arguments(&mut call, limit);
        call.cmd.arg(sets.prefix).arg(sets.suffix);
        Ok(call)
    }

    fn decode_page(&self, reply: Value, _: Option<&str>, _: usize) -> Result<FactPage, StoreError> {
        decode_page(reply)
    }

    fn contains_permissions(&self) -> Permissions {
        EXISTS.required_permissions(self.backend)
    }

    fn root_keys(&self, metric: &Name, entity: &Entity) -> Vec<String> {
        let sets = self.keys.fact_sets(metric, entity);
        let facts = self.keys.facts(metric, entity);
        vec![sets.key("days"), facts, sets.key("old")]
    }

    fn card_source(&self, metric: &Name, entity: &Entity) -> CardSource {
        let days = self.keys.fact_sets(metric, entity);
        CardSource::days(self.root_keys(metric, entity), days)
    }

    fn member_source(&self, fact: &Fact<'_>) -> MemberSource {
        let sets = self.keys.fact_sets(fact.metric, fact.entity);
        let compacted = match fact.uid.number() {
            Some(_) => (self.keys.facts(fact.metric, fact.entity), true),
            None => (sets.key("old"), false),
        };
        let days = sets.key("days");
        MemberSource::days(days, compacted, [sets.prefix, sets.suffix])
    }

    fn required_permissions(&self) -> Permissions {
        let change = CHANGE.required_permissions(self.backend);
        change
            .and(EXISTS.required_permissions(self.backend))
            .and(USERS.required_permissions(self.backend))
    }
}
