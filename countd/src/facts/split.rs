//! Facts of split entities: changes at the base, and reads of facts that are at the base or at a shard.

use super::card::CardSource;
use super::change::{SPLIT_FACT_CHANGE, change_call};
use super::set::set_page;
use super::store::{Fact, FactChange, FactPage, FactStore, InvalidCursor};
use super::stores::FactStores;
use crate::domain::config::FactKind;
use crate::domain::error::StoreError;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Keys;
use crate::domain::split::{Shard, SplitPhase, SplitState};
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUTHOR, CounterBackend, ScriptTemplate};
use redis::{FromRedisValue, Value};

const BASE: &str = include_str!("../lua/split_base.lua");
static CHANGE: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, BASE, SPLIT_FACT_CHANGE]).with_days();
static CONTAINS: ScriptTemplate =
    ScriptTemplate::reading(&[include_str!("../lua/split_contains.lua")]);
static LEAVE: ScriptTemplate = ScriptTemplate::writing(&[include_str!("../lua/split_leave.lua")]);
static FORGET: ScriptTemplate = ScriptTemplate::writing(&[include_str!("../lua/split_forget.lua")]);

/// The error code of a change whose user has their home at a shard.
pub const AT_SHARD: &str = "SPLITSHARD";
/// The error code of a change at a base that is being merged, or that the user leaves.
pub const MERGING: &str = "SPLITMERGING";

/// The facts of split entities.
#[derive(Clone)]
pub struct SplitFacts {
    keys: Keys,
    stores: FactStores,
}

/// A part of the facts of a split entity, in the order in which pages list them: the shards, then the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part(u16);

/// Whether a user leaves the base of a split entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// They have taken no fact back since the facts were frozen.
    NotFormer,
    /// The base refuses their actions from now on.
    Leaves,
    /// They have facts, or the entity is being split or merged.
    Refused,
}

impl SplitFacts {
    /// The facts of split entities, in the same fact stores as others.
    pub fn new(keys: Keys, stores: FactStores) -> SplitFacts {
        SplitFacts { keys, stores }
    }

    /// The permissions that changes and reads require, and those of pages are those of the fact store.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        CHANGE
            .required_permissions(backend)
            .and(CONTAINS.required_permissions(backend))
    }

    /// The permissions that [`leave`](Self::leave) and [`forget`](Self::forget) require.
    pub fn leave_permissions(backend: CounterBackend) -> Permissions {
        LEAVE
            .required_permissions(backend)
            .and(FORGET.required_permissions(backend))
    }

    fn store(&self) -> &dyn FactStore {
        self.stores.get(FactKind::Rbm)
    }

    /// The call that changes a fact at the base. Its reply is that of [`FactStore::change`], or an error [`AT_SHARD`] or [`MERGING`].
    pub fn change(&self, change: &FactChange<'_>, state: &SplitState) -> RedisCall {
        let Fact {
            metric,
            entity,
            uid,
        } = change.fact;
        let base = self.keys.base_of_split(metric, entity, state.generation);
        let keys = vec![base.whole, base.frozen, base.former, base.state];
        let script = (&CHANGE, self.stores.backend());
        change_call(script, change, keys, &[uid.as_str()])
    }

    /// The call that reads whether a fact is at the shard of the user. Its reply is 0 or 1.
    pub fn shard_contains(&self, fact: &Fact<'_>, state: &SplitState) -> RedisCall {
        let shard = state.shard_of(fact.uid);
        let (usual, fenced) = self.shard_keys(fact.metric, fact.entity, shard);
        self.contains([usual, fenced], fact.uid)
    }

    /// The call that reads whether a fact is at the base. Its reply is 0 or 1.
    pub fn base_contains(&self, fact: &Fact<'_>, state: &SplitState) -> RedisCall {
        let base = self
            .keys
            .base_of_split(fact.metric, fact.entity, state.generation);
        self.contains([base.whole, base.frozen], fact.uid)
    }

    fn contains(&self, keys: [String; 2], uid: &Id) -> RedisCall {
        let mut call = RedisCall::script(CONTAINS.on(self.stores.backend()), &keys);
        call.cmd.arg(uid.as_str());
        call
    }

    fn shard_keys(&self, metric: &Name, base: &Entity, shard: Shard) -> (String, String) {
        let usual = self.keys.facts(metric, &shard.of(base));
        (usual, self.keys.fenced_facts(metric, base, shard))
    }

    /// Where scripts find the facts that the counter of an entity counts, whose changes count at once: those of the base, if it is split.
    pub fn counted_source(
        &self,
        (metric, kind): (&Name, FactKind),
        entity: &Entity,
        state: Option<&SplitState>,
    ) -> CardSource {
        match state.filter(|state| state.has(metric)) {
            Some(state) => {
                let generation = state.generation;
                CardSource::base(self.keys.base_of_split(metric, entity, generation))
            }
            None => self.stores.get(kind).card_source(metric, entity),
        }
    }

    /// Where scripts find all facts of a split metric on an entity: those of the base, then those of each shard. They are in different partitions.
    pub fn all_sources<'a>(
        &'a self,
        metric: &'a Name,
        entity: &'a Entity,
        state: &'a SplitState,
    ) -> impl Iterator<Item = CardSource> + 'a {
        let base = self.counted_source((metric, FactKind::Rbm), entity, Some(state));
        let shards = state.all().map(|shard| shard.of(entity));
        let of_shards = shards.map(|shard| self.store().card_source(metric, &shard));
        std::iter::once(base).chain(of_shards)
    }

    /// The call that lets the base refuse actions of a user without facts there. Decode its reply with [`Leaving::decode`].
    pub fn leave(&self, base: &Entity, state: &SplitState, uid: &Id) -> RedisCall {
        self.of_base(&LEAVE, (base, state), uid)
    }

    /// The call that removes a user who leaves from the former users of the base. Their home is a shard then.
    pub fn forget(&self, base: &Entity, state: &SplitState, uid: &Id) -> RedisCall {
        self.of_base(&FORGET, (base, state), uid)
    }

    fn of_base(
        &self,
        script: &'static ScriptTemplate,
        (base, state): (&Entity, &SplitState),
        uid: &Id,
    ) -> RedisCall {
        let mut keys = vec![self.keys.split_state(base, state.generation)];
        for metric in &state.metrics {
            let base = self.keys.base_of_split(metric, base, state.generation);
            keys.extend([base.frozen, base.former]);
        }
        let mut call = RedisCall::script(script.on(self.stores.backend()), &keys);
        call.cmd.arg(uid.as_str());
        call
    }

    /// The calls that read a page of users of a part: that of the key where the facts are, and that of the key where they are if the first one
    /// fails with [`StoreError::WrongType`].
    ///
    /// # Errors
    /// The cursor is invalid.
    pub fn page(
        &self,
        (metric, base): (&Name, &Entity),
        (state, Part(part)): (&SplitState, Part),
        from: Option<&str>,
        limit: usize,
    ) -> Result<[RedisCall; 2], InvalidCursor> {
        let [first, second] = if part < state.shards {
            let generation = state.generation;
            let shard = Shard {
                generation,
                number: part,
            };
            let (usual, fenced) = self.shard_keys(metric, base, shard);
            [usual, fenced]
        } else {
            let base = self.keys.base_of_split(metric, base, state.generation);
            // Before they are frozen, the other key is missing. Afterwards the first one is a String in any case.
            match state.phase {
                SplitPhase::Splitting => [base.whole, base.frozen],
                SplitPhase::Split | SplitPhase::Merging => [base.frozen, base.whole],
            }
        };
        Ok([
            self.page_of(&first, from, limit)?,
            self.page_of(&second, from, limit)?,
        ])
    }

    /// The call that reads a page of the users of the base: the members of the facts, or of the removed facts.
    ///
    /// # Errors
    /// The cursor is invalid.
    pub fn home_page(
        &self,
        (metric, base): (&Name, &Entity),
        state: &SplitState,
        (is_former, from): (bool, Option<&str>),
        limit: usize,
    ) -> Result<RedisCall, InvalidCursor> {
        let base = self.keys.base_of_split(metric, base, state.generation);
        let key = if is_former { base.former } else { base.frozen };
        self.page_of(&key, from, limit)
    }

    /// The call that reads a page of the facts of a shard that is being merged.
    ///
    /// # Errors
    /// The cursor is invalid.
    pub fn fenced_page(
        &self,
        (metric, base): (&Name, &Entity),
        shard: Shard,
        from: Option<&str>,
        limit: usize,
    ) -> Result<RedisCall, InvalidCursor> {
        let key = self.keys.fenced_facts(metric, base, shard);
        self.page_of(&key, from, limit)
    }

    fn page_of(
        &self,
        key: &str,
        from: Option<&str>,
        limit: usize,
    ) -> Result<RedisCall, InvalidCursor> {
        match self.stores.backend() {
            CounterBackend::Module => {
                let from = from.unwrap_or("0");
                let is_cursor = Id::new(from).is_ok_and(|id| id.number().is_some());
                let count = limit.to_string();
                let args = ["RBM.SCAN", key, from, "COUNT", &count, "REV"];
                let call = || RedisCall::guarded(&args, &[], None);
                is_cursor.then(call).ok_or(InvalidCursor)
            }
            backend => set_page(backend, key, from, limit),
        }
    }

    /// Decodes the reply of a page.
    ///
    /// # Errors
    /// The reply is not a page.
    pub fn decode_page(&self, reply: Value) -> Result<FactPage, StoreError> {
        self.store().decode_page(reply, None, 0)
    }
}

impl Leaving {
    /// Decodes the reply of [`SplitFacts::leave`].
    ///
    /// # Errors
    /// The reply is none.
    pub fn decode(reply: Value) -> Result<Leaving, StoreError> {
        match u8::from_redis_value(reply) {
            Ok(0) => Ok(Leaving::NotFormer),
            Ok(1) => Ok(Leaving::Leaves),
            Ok(2) => Ok(Leaving::Refused),
            other => Err(StoreError::Unexpected(format!("split_leave: {other:?}"))),
        }
    }
}

impl Part {
    /// The first part.
    pub const FIRST: Part = Part(0);

    /// The last part.
    pub fn base(state: &SplitState) -> Part {
        Part(state.shards)
    }

    /// The part with this number.
    pub fn new(number: u16, state: &SplitState) -> Option<Part> {
        (number <= state.shards).then_some(Part(number))
    }

    /// The next part; `None` after the base.
    pub fn next(self, state: &SplitState) -> Option<Part> {
        Part::new(self.0 + 1, state)
    }

    /// Its number.
    pub fn number(self) -> u16 {
        self.0
    }
}
