//! Facts in sets of IDs on data that an adoption converts: each set is one of the module, or still a Set.

use super::card::CardSource;
use super::change::{FACT_CHANGE, change_call};
use super::member::MemberSource;
use super::set::{SET_PAGING, SetCursor, decode_page};
use super::store::{Fact, FactChange, FactPage, FactStore, InvalidCursor, check_numeric_uid};
use crate::domain::error::{StoreError, UnsupportedUserId};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Keys;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUTHOR, CounterBackend, ScriptTemplate};
use redis::Value;

const FACTS: &str = include_str!("../lua/facts_ids.lua");
static CHANGE: ScriptTemplate = ScriptTemplate::writing(&[AUTHOR, FACTS, FACT_CHANGE]).with_days();
static EXISTS: ScriptTemplate =
    ScriptTemplate::reading(&[FACTS, include_str!("../lua/fact_exists.lua")]);
static USERS: ScriptTemplate =
    ScriptTemplate::reading(&[SET_PAGING, include_str!("../lua/users_ids.lua")]);

/// Facts in sets of IDs of either form.
#[derive(Clone, Copy)]
pub struct MixedFacts {
    /// The layout of the keys.
    pub keys: Keys,
    /// How the data stores counters and sets.
    pub backend: CounterBackend,
}

impl FactStore for MixedFacts {
    fn check_uid(&self, uid: &Id) -> Result<(), UnsupportedUserId> {
        check_numeric_uid(uid)
    }

    fn change(&self, change: &FactChange<'_>) -> RedisCall {
        let Fact {
            metric,
            entity,
            uid,
        } = change.fact;
        let keys = vec![self.keys.facts(metric, entity)];
        change_call((&CHANGE, self.backend), change, keys, &[uid.as_str()])
    }

    fn contains(&self, fact: &Fact<'_>) -> RedisCall {
        let key = self.keys.facts(fact.metric, fact.entity);
        let mut call = RedisCall::script(EXISTS.on(self.backend), &[key]);
        call.cmd.arg(fact.uid.as_str());
        call
    }

    fn page(
        &self,
        metric: &Name,
        entity: &Entity,
        from: Option<&str>,
        limit: usize,
    ) -> Result<RedisCall, InvalidCursor> {
        // The cursor of a set of IDs is a number.
        let in_ids = from.filter(|from| Id::new(*from).is_ok_and(|id| id.number().is_some()));
        let in_set = match in_ids {
            Some(_) => SetCursor::parse(None, 0)?,
            None => SetCursor::parse(from, 0)?,
        };
        if in_set.set > 0 {
            return Err(InvalidCursor);
        }
        let key = self.keys.facts(metric, entity);
        let mut call = RedisCall::script(USERS.on(self.backend), &[key]);
        in_set.add_arguments(&mut call, limit);
        call.cmd.arg(in_ids.unwrap_or("0"));
        Ok(call)
    }

    fn decode_page(&self, reply: Value, _: Option<&str>, _: usize) -> Result<FactPage, StoreError> {
        decode_page(reply)
    }

    fn contains_permissions(&self) -> Permissions {
        EXISTS.required_permissions(self.backend)
    }

    fn root_keys(&self, metric: &Name, entity: &Entity) -> Vec<String> {
        vec![self.keys.facts(metric, entity)]
    }

    fn card_source(&self, metric: &Name, entity: &Entity) -> CardSource {
        CardSource::mixed_ids(self.keys.facts(metric, entity))
    }

    fn member_source(&self, fact: &Fact<'_>) -> MemberSource {
        MemberSource::ids(self.keys.facts(fact.metric, fact.entity))
    }

    fn required_permissions(&self) -> Permissions {
        CHANGE
            .required_permissions(self.backend)
            .and(EXISTS.required_permissions(self.backend))
            .and(USERS.required_permissions(self.backend))
    }
}
