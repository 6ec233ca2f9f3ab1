//! FactStore in a Set for each day, of which the old ones are folded into a set of ids: what is new is small and easy to look at, what
//! is old is kept tight. Users whose ids are no numbers are folded into a Set.
//!
//! A sorted set beside them lists the days that have a Set, and every look at a fact goes through all of these and through what is
//! folded. So it does not matter when a day is folded, how far that got, or what time it is anywhere: nobody can do it twice.

use super::mark::{MARK, mark};
use super::sets::{At, SET_PAGES, paged};
use super::{Fact, FactChange, FactStore, InvalidCursor, Page, day};
use crate::domain::error::StoreError;
use crate::domain::error::UnsupportedUserId;
use crate::domain::event::now_ms;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{Family, Keys};
use crate::redis::call::RedisCall;
use crate::redis::script::{CounterBackend, ScriptTemplate};
use redis::Value;

const FACTS: &str = include_str!("../lua/facts_daily.lua");
static MARK_IN_DAY: ScriptTemplate = ScriptTemplate::writing(&[FACTS, MARK]);
static IS: ScriptTemplate = ScriptTemplate::reading(&[FACTS, include_str!("../lua/fact_is.lua")]);
static WHO: ScriptTemplate =
    ScriptTemplate::reading(&[SET_PAGES, include_str!("../lua/who_daily.lua")]);

/// A page begins with the latest day that there may be.
const LATEST: u32 = u32::MAX;

/// The way of days.
#[derive(Clone, Copy)]
pub struct Daily {
    /// The layout of the keys.
    pub keys: Keys,
    /// How the server keeps counters and sets of ids.
    pub backend: CounterBackend,
}

impl Daily {
    /// The keys of facts: the days, those of folded users, the Set of a day, the days of the partition.
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

    /// Calls `with` with the keys and arguments of a fact on a day.
    fn with<T>(&self, fact: &Fact<'_>, ms: u64, with: impl FnOnce(Vec<String>, &[&str]) -> T) -> T {
        let Fact {
            metric,
            entity,
            uid,
        } = fact;
        let today = day::of(ms);
        let Family { before, after } = self.keys.fact_sets(metric, entity);
        let is_number = if uid.number().is_some() { "1" } else { "0" };
        let arguments = [
            uid.as_str(),
            is_number,
            &today.to_string(),
            &before,
            &after,
            &name(metric, entity),
        ];
        with(self.keys_of(metric, entity, today), &arguments)
    }
}

/// The name of an entity's facts among the days of its partition.
pub(super) fn name(metric: &Name, entity: &Entity) -> String {
    let Entity { etype, eid } = entity;
    format!("{metric}:{etype}:{eid}")
}

impl FactStore for Daily {
    fn check_uid(&self, _: &Id) -> Result<(), UnsupportedUserId> {
        Ok(())
    }

    fn change(&self, change: &FactChange<'_>) -> RedisCall {
        self.with(&change.fact, change.ts, |keys, arguments| {
            mark(MARK_IN_DAY.on(self.backend), change, keys, arguments)
        })
    }

    fn contains(&self, fact: &Fact<'_>) -> RedisCall {
        self.with(fact, now_ms(), |keys, arguments| {
            let mut call = RedisCall::script(IS.on(self.backend), &keys);
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
        let at = At::parse(from, LATEST)?;
        let sets = self.keys.fact_sets(metric, entity);
        let facts = self.keys.facts(metric, entity);
        let keys = [sets.key("days"), facts, sets.key("old")];
        let mut call = RedisCall::script(WHO.on(self.backend), &keys);
        at.write(&mut call, limit);
        call.cmd.arg(sets.before).arg(sets.after);
        Ok(call)
    }

    fn paged(&self, reply: Value, _: Option<&str>, _: usize) -> Result<Page, StoreError> {
        paged(reply)
    }
}
