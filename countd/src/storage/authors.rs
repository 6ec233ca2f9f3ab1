//! The authors of entities.
//!
//! An entity has at most one author. The registration is in the entity's slot. The consumer credits the author with the entity's
//! counters: it keeps, beside the author, how much was credited, and adds the difference whenever it commits an event of the entity.
//! A registered author is therefore credited with what the entity had before, and a former author loses exactly what they got.

use crate::domain::author_feed::AuthorFeed;
use crate::domain::error::{Problem, StoreError, rejected_by_foreign_last_id};
use crate::domain::ids::{Entity, Id};
use crate::domain::keys::Keys;
use crate::log::renumber;
use crate::redis::author::{NamedAuthor, author_keys};
use crate::redis::call::RedisCall;
use crate::redis::layout::{Authors as AuthorMode, StoredLayout};
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUTHOR, CounterBackend, ScriptTemplate};
use crate::redis::store::Store;
use redis::{FromRedisValue, RedisError, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Registers an author.
static PUT: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, include_str!("../lua/author_put.lua")]);
/// Reads authors.
static READ: ScriptTemplate =
    ScriptTemplate::reading(&[AUTHOR, include_str!("../lua/author_read.lua")]);

/// The number of entities whose author a process remembers.
const MAX_KNOWN: usize = 65_536;
/// How long it remembers them. An action that names a former author is accepted for that long.
const KNOWN_FOR: Duration = Duration::from_secs(10);

/// The code of the error with which a script refuses an action that names another author.
const MISMATCH: &str = "AUTHORMISMATCH";

/// The authors of entities. Cheap to clone.
#[derive(Clone)]
pub struct Authors {
    pub(super) store: Store,
    layout: Arc<StoredLayout>,
    known: Arc<Mutex<HashMap<Entity, (Id, Instant)>>>,
}

/// The author of an entity after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorChange {
    /// The author.
    pub author: Option<Id>,
    /// Whether the entity had another author before, or none.
    pub changed: bool,
}

impl Authors {
    /// The authors of the entities of a store.
    pub fn new(store: Store) -> Authors {
        Authors {
            layout: store.layout(),
            store,
            known: Arc::default(),
        }
    }

    /// The permissions to register and read authors.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        PUT.required_permissions(backend)
            .and(READ.required_permissions(backend))
            .and(NamedAuthor::required_permissions(backend))
    }

    /// The counters of authors that metrics feed, in the order of their columns. `None` if the data does not register authors.
    fn feeds(&self) -> Option<&[AuthorFeed]> {
        match &self.layout.authors {
            AuthorMode::Registry { feeds } => Some(feeds),
            AuthorMode::Event => None,
        }
    }

    /// Whether the data registers authors.
    pub fn are_registered(&self) -> bool {
        self.feeds().is_some()
    }

    pub(super) fn named(&self, entity: &Entity, author: Option<&Id>) -> Option<NamedAuthor> {
        let keys = self.store.keys();
        let feeds = self.feeds()?;
        Some(NamedAuthor::new(keys, feeds, (entity, author)))
    }

    /// What an action that names this author has to register. `None` if it is known to be registered, or if the data does not register
    /// authors.
    pub fn to_register(&self, entity: &Entity, author: &Id) -> Option<NamedAuthor> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = known
            .get(entity)
            .is_some_and(|(known, since)| known == author && since.elapsed() < KNOWN_FOR);
        match is_known {
            true => None,
            false => self.named(entity, Some(author)),
        }
    }

    /// Remembers a registered author.
    pub fn remember(&self, entity: Entity, author: Id) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Which entities are kept matters little: the cache only saves a script.
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(entity, (author, Instant::now()));
    }

    /// The registration of an entity that has no author any more. `None` if the data does not register authors.
    pub fn to_unregister(&self, entity: &Entity) -> Option<NamedAuthor> {
        self.named(entity, None)
    }

    fn forget(&self, entity: &Entity) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(entity);
    }

    /// Makes a user the author of an entity, in place of any other. `None`: the entity has no author any more. The credit moves with
    /// the entity.
    ///
    /// # Errors
    /// The data does not register authors, or Redis failed.
    pub async fn put(&self, entity: &Entity, author: Option<&Id>) -> Result<AuthorChange, Problem> {
        match self.store.layout().split_of(entity).cloned() {
            Some(state) => self.put_split((entity, &state), author).await,
            None => self.put_one(entity, author).await,
        }
    }

    /// [`put`](Self::put) for an entity that is whole, a base or a shard.
    pub(super) async fn put_one(
        &self,
        entity: &Entity,
        author: Option<&Id>,
    ) -> Result<AuthorChange, Problem> {
        let named = self.named(entity, author).ok_or_else(unsupported)?;
        let mut call = RedisCall::script(PUT.on(self.store.backend()), named.keys());
        named.add_arguments(&mut call.cmd);
        self.forget(entity);
        let reply = self.append_confirmed(entity, &call).await?;
        let changed = bool::from_redis_value(reply).map_err(unexpected)?;
        Ok(AuthorChange {
            author: author.cloned(),
            changed,
        })
    }

    /// Sends a call that may append to the log of an entity.
    pub(super) async fn append_confirmed(
        &self,
        entity: &Entity,
        call: &RedisCall,
    ) -> Result<Value, Problem> {
        let reply = match call.send_confirmed(&self.store).await {
            // A rejected append has no effect.
            Err(error) if rejected_by_foreign_last_id(&error) => {
                renumber(&self.store, self.store.keys().of_entity(entity)).await?;
                call.send_confirmed(&self.store).await
            }
            reply => reply,
        };
        reply.map_err(|error| match registered_author(&error) {
            Some(author) => Problem::AuthorMismatch(author),
            None => error.into(),
        })
    }

    /// [`put`](Self::put) for many entities in order, in one pipeline for each node. Returns whether each entity had another author
    /// before, or none.
    ///
    /// # Errors
    /// The data does not register authors, or Redis failed. Some authors may have been registered.
    pub async fn put_all(
        &self,
        authors: &[(&Entity, &Id)],
    ) -> Result<Vec<Result<bool, Problem>>, Problem> {
        let script = PUT.on(self.store.backend());
        let mut pipeline = redis::pipe();
        pipeline.cmd("SCRIPT").arg("LOAD").arg(&script.source);
        for (entity, author) in authors {
            let named = self.named(entity, Some(author)).ok_or_else(unsupported)?;
            let mut call = RedisCall::script(script, named.keys());
            named.add_arguments(&mut call.cmd);
            pipeline.add_command(call.cmd);
            self.forget(entity);
        }
        pipeline.ignore_errors();
        let replies: Vec<Result<Value, RedisError>> =
            pipeline.query_async(&mut self.store.commands()).await?;
        let mut changes = Vec::with_capacity(authors.len());
        for ((entity, author), reply) in authors.iter().zip(replies.into_iter().skip(1)) {
            changes.push(match reply {
                // All appends to the log of a partition are rejected, so their order stays.
                Err(error) if rejected_by_foreign_last_id(&error) => {
                    let change = self.put(entity, Some(author)).await;
                    change.map(|change| change.changed)
                }
                Err(error) => Err(error.into()),
                Ok(reply) => match self.store.layout().split_of(entity).cloned() {
                    Some(state) => {
                        let shards = self.put_split((entity, &state), Some(author)).await;
                        let changed = bool::from_redis_value(reply).map_err(unexpected);
                        shards.and(changed)
                    }
                    None => bool::from_redis_value(reply).map_err(unexpected),
                },
            });
        }
        Ok(changes)
    }

    /// The authors of entities, in order.
    ///
    /// # Errors
    /// The data does not register authors, or Redis failed.
    pub async fn get(&self, entities: &[Entity]) -> Result<Vec<Option<Id>>, Problem> {
        self.feeds().ok_or_else(unsupported)?;
        let (keys, backend) = (self.store.keys(), self.store.backend());
        // One script reads the entities of a slot.
        let mut groups: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (at, entity) in entities.iter().enumerate() {
            let slot = if keys.tagged() {
                keys.of_entity(entity)
            } else {
                0
            };
            groups.entry(slot).or_default().push(at);
        }
        let mut authors = vec![None; entities.len()];
        for group in groups.values() {
            let call = read_call((keys, backend), group.iter().map(|at| &entities[*at]));
            let reply = call.send_read(&self.store).await?;
            let found = Vec::<Option<String>>::from_redis_value(reply).map_err(unexpected)?;
            for (at, uid) in group.iter().zip(found) {
                authors[*at] = uid.and_then(|uid| Id::new(uid).ok());
            }
        }
        Ok(authors)
    }
}

fn read_call<'a>(
    (keys, backend): (Keys, CounterBackend),
    entities: impl Iterator<Item = &'a Entity> + Clone,
) -> RedisCall {
    let all: Vec<String> = entities
        .clone()
        .flat_map(|entity| author_keys(keys, &entity.etype, keys.of_entity(entity)))
        .collect();
    let mut call = RedisCall::script(READ.on(backend), &all);
    for entity in entities {
        call.cmd.arg(entity.eid.as_str());
    }
    call
}

/// The registered author, if a script refused an action because it names another one.
pub fn registered_author(error: &RedisError) -> Option<Id> {
    let detail = (error.code() == Some(MISMATCH)).then(|| error.detail())?;
    Id::new(detail?.trim()).ok()
}

pub(super) fn unsupported() -> Problem {
    Problem::Unprocessable(
        "an older version created this data: it does not register authors, its events name them"
            .to_owned(),
    )
}

pub(super) fn unexpected(error: impl std::fmt::Display) -> Problem {
    Problem::Store(StoreError::Unexpected(error.to_string()))
}
