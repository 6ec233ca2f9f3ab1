//! The authors of split entities: each shard has the author of the base.

use super::authors::{AuthorChange, Authors, unexpected, unsupported};
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id};
use crate::domain::split::{SplitPhase, SplitState};
use crate::redis::author::author_keys;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUTHOR, CounterBackend, ScriptTemplate};
use redis::FromRedisValue;

/// Registers an author unless the entity has one.
static CLAIM: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, include_str!("../lua/author_claim.lua")]);
/// Reads an author and what they were credited with.
static CREDITED: ScriptTemplate =
    ScriptTemplate::reading(&[AUTHOR, include_str!("../lua/split_read.lua")]);

/// How often the author of the base is registered with the shards while it changes.
const MAX_CHANGES: usize = 100;

/// The author of a shard, and what they were credited with: for each counter of authors that a metric feeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardCredit {
    /// The author; `None` if none is registered.
    pub author: Option<Id>,
    /// The amounts.
    pub amounts: Vec<u64>,
}

impl Authors {
    /// The permissions that authors of split entities require.
    pub fn split_permissions(backend: CounterBackend) -> Permissions {
        CLAIM
            .required_permissions(backend)
            .and(CREDITED.required_permissions(backend))
    }

    /// Registers the author whom an action on a split entity names, unless the entity has one.
    ///
    /// # Errors
    /// The entity has another author, or Redis failed.
    pub async fn claim(
        &self,
        base: &Entity,
        state: &SplitState,
        author: &Id,
    ) -> Result<(), Problem> {
        if self.to_register(base, author).is_none() {
            return Ok(());
        }
        // The base decides. The merge registers its author with the shards.
        self.claim_one(base, author).await?;
        if state.phase != SplitPhase::Merging {
            for shard in state.all() {
                self.claim_one(&shard.of(base), author).await?;
            }
        }
        Ok(())
    }

    async fn claim_one(&self, entity: &Entity, author: &Id) -> Result<(), Problem> {
        let named = self.named(entity, Some(author)).ok_or_else(unsupported)?;
        let mut call = RedisCall::script(CLAIM.on(self.store.backend()), named.keys());
        named.add_arguments(&mut call.cmd);
        self.append_confirmed(entity, &call).await?;
        self.remember(entity.clone(), author.clone());
        Ok(())
    }

    /// [`put`](Self::put) for a split entity.
    ///
    /// # Errors
    /// The entity is being merged, the data does not register authors, or Redis failed.
    pub async fn put_split(
        &self,
        (base, state): (&Entity, &SplitState),
        author: Option<&Id>,
    ) -> Result<AuthorChange, Problem> {
        if state.phase == SplitPhase::Merging {
            return Err(Problem::Merging(base.clone()));
        }
        let change = self.put_one(base, author).await?;
        // Another request may register another author at the same time: the last one at the base is that of all shards.
        self.put_shards(base, state).await?;
        Ok(change)
    }

    /// Registers the author of the base with all shards, until it stays the same meanwhile. Does nothing if the data does not register authors.
    ///
    /// # Errors
    /// Redis failed, or the author changes all the time.
    pub async fn put_shards(&self, base: &Entity, state: &SplitState) -> Result<(), Problem> {
        if !self.are_registered() {
            return Ok(());
        }
        let read = async || {
            let authors = self.get(std::slice::from_ref(base)).await?;
            Ok::<_, Problem>(authors.into_iter().flatten().next())
        };
        let mut author = read().await?;
        for _ in 0..MAX_CHANGES {
            for shard in state.all() {
                self.put_one(&shard.of(base), author.as_ref()).await?;
            }
            let now = read().await?;
            if now == author {
                return Ok(());
            }
            author = now;
        }
        Err(unexpected("the author of the entity changes all the time"))
    }

    /// The author of a shard, and what they were credited with.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn credit_of_shard(&self, shard: &Entity) -> Result<ShardCredit, Problem> {
        let keys = self.store.keys();
        let authors = author_keys(keys, &shard.etype, keys.of_entity(shard));
        let mut call = RedisCall::script(CREDITED.on(self.store.backend()), &authors);
        call.cmd.arg(shard.eid.as_str());
        let reply = call.send(&self.store).await?;
        let mut fields = Vec::<String>::from_redis_value(reply)
            .map_err(unexpected)?
            .into_iter();
        let author = fields.next().and_then(|uid| Id::new(uid).ok());
        let amounts = fields.map(|amount| amount.parse::<u64>());
        Ok(ShardCredit {
            author,
            amounts: amounts.collect::<Result<_, _>>().map_err(unexpected)?,
        })
    }
}
