//! Reads of split entities: the counters of the base and of the shards, and facts that are at one of them.
//!
//! The base absorbs the amounts of the shards in one step, which leaves a marker. A read therefore looks at the marker after it has read all
//! counters: if it is there, the counters of the base are read once more and those of the shards do not count.

use super::field_values::Fields;
use super::fields::{CountersToRead, read_page};
use super::reads::{Queries, invalid_cursor};
use super::split_fact::SplitFact;
use super::suspects::rebuild_lost;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Name};
use crate::domain::split::SplitState;
use crate::facts::{FactPage, InvalidCursor, Part, SplitFacts};
use crate::redis::call::{RedisCall, send_reads};
use crate::redis::permissions::Permissions;
use crate::storage::locator::Locator;
use redis::{FromRedisValue, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["HGET {split} f"];

/// How often a read begins again because the entity was merged and split meanwhile.
const MAX_CHANGES: usize = 3;

type Read = Result<Fields, StoreError>;

impl Queries {
    /// The permissions that reads of split entities require beside those of other reads.
    pub fn split_permissions() -> Permissions {
        Permissions::of_commands(PERMISSIONS)
    }

    /// Adds the counters of shards to those of split entities that were read. Lost ones are rebuilt, with the trace ID in the audit.
    ///
    /// # Errors
    /// Redis failed.
    pub(super) async fn add_shards(
        &self,
        (entities, counters): (&[&Entity], &[CountersToRead]),
        fields: &mut [Read],
        trace_id: &str,
    ) -> Result<(), Problem> {
        let layout = self.store.layout();
        let is_split = |(_, entity): &(usize, &&Entity)| layout.split_of(entity).is_some();
        let places = entities.iter().enumerate().filter(is_split);
        let mut places: Vec<usize> = places.map(|(place, _)| place).collect();
        for _ in 0..MAX_CHANGES {
            if places.is_empty() {
                break;
            }
            places = self
                .read_places((entities, counters), &places, fields, trace_id)
                .await?;
            if !places.is_empty() {
                let refreshed = self.store.refresh_layout().await;
                refreshed.map_err(|error| StoreError::Unexpected(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Reads split entities. Returns those that were merged and split meanwhile.
    async fn read_places(
        &self,
        (entities, counters): (&[&Entity], &[CountersToRead]),
        places: &[usize],
        fields: &mut [Read],
        trace_id: &str,
    ) -> Result<Vec<usize>, Problem> {
        let locator = Locator::of(&self.store);
        let (mut to_read, mut of_entities) = (Vec::new(), Vec::new());
        let (mut parts, mut markers) = (Vec::new(), Vec::new());
        for place in places {
            let (entity, base) = (entities[*place], &counters[*place]);
            let state = locator.layout().split_of(entity).cloned();
            to_read.push(base.clone());
            of_entities.push(Cow::Borrowed(entity));
            let mut count = 1;
            if let Some(state) = &state {
                let schema = self.catalog.schema_id(&entity.etype)?;
                for shard in state.all() {
                    let Some(schema) = schema else { break };
                    let shard = shard.of(entity);
                    to_read.push(CountersToRead {
                        at: locator.entity(schema, &shard),
                        len: base.len,
                        min_len: base.min_len,
                    });
                    of_entities.push(Cow::Owned(shard));
                    count += 1;
                }
                let key = self.store.keys().split_state(entity, state.generation);
                let mut cmd = redis::cmd("HGET");
                cmd.arg(key).arg("absorbed");
                markers.push(RedisCall::command(cmd));
            }
            parts.push((*place, state, count));
        }
        let mut read = read_page(&self.store, &to_read, &[]).await?.fields;
        // What is merged does not come back: the fences of facts, in the same slot, are no facts.
        let of_entities: Vec<&Entity> = of_entities.iter().map(|entity| &**entity).collect();
        let repair = (&self.store, &self.rebuilder);
        rebuild_lost(repair, (&of_entities, &to_read), &mut read, trace_id).await;
        let mut read = read.into_iter();
        let mut markers = send_reads(&self.store, &markers).await?.into_iter();
        let (mut merged, mut again) = (Vec::new(), Vec::new());
        for (place, state, count) in parts {
            let all: Vec<Read> = read.by_ref().take(count).collect();
            let is_absorbed = match &state {
                None => false,
                Some(_) => match markers.next() {
                    Some(marker) => !matches!(marker?, Value::Nil),
                    None => false,
                },
            };
            if !is_absorbed {
                fields[place] = sum(all);
                continue;
            }
            let now = self.store.layout();
            let generation = |state: Option<&Arc<SplitState>>| state.map(|state| state.generation);
            match generation(now.split_of(entities[place])) == generation(state.as_ref()) {
                true => merged.push(place),
                false => again.push(place),
            }
        }
        let to_read: Vec<CountersToRead> = merged
            .iter()
            .map(|place| counters[*place].clone())
            .collect();
        let read = read_page(&self.store, &to_read, &[]).await?.fields;
        for (place, read) in merged.into_iter().zip(read) {
            fields[place] = read;
        }
        Ok(again)
    }

    /// Whether facts exist, each with its place. A fact is at the shard of the user until it is at the base, too, so the base is read last.
    ///
    /// # Errors
    /// Redis failed.
    pub(super) async fn split_facts(
        &self,
        facts: &[SplitFact<'_>],
    ) -> Result<Vec<(usize, bool)>, Problem> {
        let splits = SplitFacts::new(self.store.keys(), self.facts.clone());
        let mut found: Vec<(usize, bool)> = Vec::with_capacity(facts.len());
        let calls: Vec<RedisCall> = facts
            .iter()
            .map(|of| splits.shard_contains(&of.fact, &of.state))
            .collect();
        for (of, reply) in facts.iter().zip(send_reads(&self.store, &calls).await?) {
            found.push((of.place, is_one(reply?)?));
        }
        let missing: Vec<usize> = (0..facts.len()).filter(|at| !found[*at].1).collect();
        let calls: Vec<RedisCall> = missing
            .iter()
            .map(|at| splits.base_contains(&facts[*at].fact, &facts[*at].state))
            .collect();
        for (at, reply) in missing.iter().zip(send_reads(&self.store, &calls).await?) {
            found[*at].1 = is_one(reply?)?;
        }
        Ok(found)
    }

    /// A page of the users of a split entity: those of the shards, then those of the base. The cursor is `{part}/{cursor of the part}`.
    ///
    /// # Errors
    /// The cursor is invalid, or Redis failed.
    pub(super) async fn users_of_split(
        &self,
        of: (&Name, &Entity),
        state: &SplitState,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FactPage, Problem> {
        let invalid = || invalid_cursor(cursor);
        let (mut part, mut from) = match cursor.map(|cursor| cursor.split_once('/')) {
            None => (Part::FIRST, None),
            // The cursor of a page before the split.
            Some(None) => (Part::base(state), cursor.map(str::to_owned)),
            Some(Some((part, from))) => {
                let number = part.parse::<u16>().map_err(|_| invalid())?;
                // Of an earlier split with more shards: the users are listed from the beginning.
                let part = Part::new(number, state).unwrap_or(Part::FIRST);
                (part, (!from.is_empty()).then(|| from.to_owned()))
            }
        };
        let facts = SplitFacts::new(self.store.keys(), self.facts.clone());
        let mut page = FactPage {
            users: Vec::new(),
            next: None,
        };
        loop {
            let left = limit - page.users.len();
            let calls = facts.page(of, (state, part), from.as_deref(), left.max(1));
            let [first, second] = calls.map_err(|InvalidCursor| invalid())?;
            let reply = match first.send_read(&self.store).await.map_err(StoreError::from) {
                Err(StoreError::WrongType(_)) => second.send_read(&self.store).await?,
                reply => reply?,
            };
            let found = facts.decode_page(reply)?;
            page.users.extend(found.users);
            match (found.next, part.next(state)) {
                (Some(next), _) => page.next = Some(format!("{}/{next}", part.number())),
                (None, Some(next)) if page.users.len() < limit => {
                    (part, from) = (next, None);
                    continue;
                }
                (None, Some(next)) => page.next = Some(format!("{}/", next.number())),
                (None, None) => {}
            }
            return Ok(page);
        }
    }
}

/// The counters of the base and of the shards.
fn sum(all: Vec<Read>) -> Read {
    let mut all = all.into_iter();
    let missing = || StoreError::Unexpected("counters: a reply is missing".to_owned());
    let base = all.next().ok_or_else(missing)??;
    let mut values: Vec<u64> = base.to_vec();
    for shard in all {
        for (value, of_shard) in values.iter_mut().zip(shard?.iter()) {
            *value += of_shard;
        }
    }
    Ok(values.into())
}

fn is_one(reply: Value) -> Result<bool, StoreError> {
    let reply = u8::from_redis_value(reply);
    let malformed = |error| StoreError::Unexpected(format!("a status: {error}"));
    Ok(reply.map_err(malformed)? == 1)
}
