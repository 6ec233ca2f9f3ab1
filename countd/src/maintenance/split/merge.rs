//! The steps of a merge.

use super::splitter::Splitter;
use crate::domain::error::StoreError;
use crate::domain::event::{Cause, Journal, NewAuthor, now_ms};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{BaseKeys, CounterLocation};
use crate::domain::progress::Update;
use crate::domain::split::{Shard, SplitState};
use crate::facts::FactPage;
use crate::ingest::actions::Actions;
use crate::log::renumber;
use crate::maintenance::storage::give_up;
use crate::maintenance::storage::{Lease, MigrationError};
use crate::maintenance::sums::{Lock, saved_sums};
use crate::redis::author::author_keys;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUTHOR, CounterBackend, ScriptTemplate};
use crate::storage::locator::Locator;
use redis::{FromRedisValue, Value};
use std::time::Duration;

static FENCE: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../../lua/split_fence.lua")]);
static COPY: ScriptTemplate = ScriptTemplate::writing(&[include_str!("../../lua/split_copy.lua")]);
static ABSORB: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, include_str!("../../lua/split_absorb.lua")]);
static CLEAR: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, include_str!("../../lua/split_clear.lua")]);

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &[
    "HGET {split} f",
    "EXPIRE {split} 1",
    "SMEMBERS {set}",
    "XADD {log} 0-* f v",
];

/// How long Strings at former keys of facts stay, for processes that still use them: a day.
const FENCE_SECONDS: u64 = 24 * 3600;
/// The number of facts that are copied at once.
const PAGE: usize = 1_000;
/// The delay before the lock of the sums of credits is asked for again.
const RETRY: Duration = Duration::from_secs(1);
/// The code of the error if the author of the base has changed meanwhile.
const OTHER_AUTHOR: &str = "SPLITAUTHOR";

pub(super) fn required_permissions(backend: CounterBackend) -> Permissions {
    [&FENCE, &COPY, &ABSORB, &CLEAR]
        .into_iter()
        .fold(Permissions::of_commands(PERMISSIONS), |all, script| {
            all.and(script.required_permissions(backend))
        })
}

/// What became of an attempt to absorb the shards.
enum Absorbed {
    Done,
    /// A sweep adds up credits.
    Later,
    /// The author of the base has changed.
    OtherAuthor,
}

impl Splitter<'_> {
    pub(super) async fn finish_merge(
        &mut self,
        lease: &Lease,
        entity: &Entity,
        state: &SplitState,
    ) -> Result<(), MigrationError> {
        let servers = self.servers().await?;
        self.follow(lease, false).await?;
        // Without the phase in the layout, processes would use shards that are fenced.
        if !self.are_durable(lease, &servers).await? {
            return Ok(());
        }
        if !self.is_absorbed(entity, state).await? {
            self.freeze(lease, entity, state).await?;
            self.fence(lease, entity, state).await?;
            let keys = self.store.keys();
            let shards = state.all().map(|shard| keys.of_entity(&shard.of(entity)));
            let partitions: Vec<u16> = shards.chain([keys.of_entity(entity)]).collect();
            self.drain(lease, &partitions).await?;
            self.copy(lease, entity, state).await?;
            // The base adds the counters of all facts that were copied, and of no others.
            if !self.are_durable(lease, &servers).await? {
                return Ok(());
            }
            loop {
                // Also what the registration of another author has appended.
                self.authors.put_shards(entity, state).await?;
                self.drain(lease, &partitions).await?;
                lease.check()?;
                match self.absorb_locked(entity, state).await? {
                    Absorbed::Done => break,
                    Absorbed::Later => self.step("waiting for a sweep over authors"),
                    Absorbed::OtherAuthor => {}
                }
                tokio::time::sleep(RETRY).await;
            }
        }
        // What is deleted is at the base, also if its server crashes.
        if !self.are_durable(lease, &servers).await? {
            return Ok(());
        }
        self.step("deleting shards");
        for shard in state.all() {
            lease.check()?;
            self.clear(entity, state, shard).await?;
        }
        self.give_up_sums().await?;
        if !self.are_durable(lease, &servers).await? {
            return Ok(());
        }
        self.record(entity, (Some(state), None)).await?;
        self.expire(entity, state).await?;
        self.follow(lease, false).await
    }

    /// Gives up the sweep over authors that is under way: it may have added up what an author was credited with at a shard, and at the base.
    async fn give_up_sums(&self) -> Result<(), MigrationError> {
        if self.authors.are_registered() {
            give_up(&self.store).await?;
        }
        Ok(())
    }

    /// Lets the state of the base expire. Until the layout says that the entity is whole, the state says what has been done.
    async fn expire(&self, entity: &Entity, state: &SplitState) -> Result<(), MigrationError> {
        let key = self.store.keys().split_state(entity, state.generation);
        let mut cmd = redis::cmd("EXPIRE");
        cmd.arg(key).arg(FENCE_SECONDS);
        Ok(cmd.exec_async(&mut self.store.commands()).await?)
    }

    async fn is_absorbed(
        &self,
        entity: &Entity,
        state: &SplitState,
    ) -> Result<bool, MigrationError> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(self.store.keys().split_state(entity, state.generation));
        cmd.arg("absorbed");
        let absorbed: Option<String> = cmd.query_async(&mut self.store.commands()).await?;
        Ok(absorbed.is_some())
    }

    /// Lets the base and the shards refuse changes.
    async fn fence(
        &self,
        lease: &Lease,
        entity: &Entity,
        state: &SplitState,
    ) -> Result<(), MigrationError> {
        self.step("fencing facts");
        self.set(entity, state, "merging").await?;
        let keys = self.store.keys();
        for shard in state.all() {
            lease.check()?;
            let of_shard = shard.of(entity);
            let of_metrics = state.metrics.iter().flat_map(|metric| {
                let fenced = keys.fenced_facts(metric, entity, shard);
                [keys.facts(metric, &of_shard), fenced]
            });
            let all: Vec<String> = of_metrics.collect();
            let mut call = RedisCall::script(FENCE.on(self.store.backend()), &all);
            call.cmd.arg(FENCE_SECONDS);
            call.send(&self.store).await?;
        }
        Ok(())
    }

    /// Copies the facts of the shards to the base.
    async fn copy(
        &self,
        lease: &Lease,
        entity: &Entity,
        state: &SplitState,
    ) -> Result<(), MigrationError> {
        let (keys, mut copied) = (self.store.keys(), 0);
        for metric in &state.metrics {
            let base = keys.base_of_split(metric, entity, state.generation);
            for shard in state.all() {
                let mut cursor: Option<String> = None;
                loop {
                    lease.check()?;
                    let page = match self.store.backend() {
                        CounterBackend::Module => {
                            let of = (metric, entity);
                            let call = self.facts.fenced_page(of, shard, cursor.as_deref(), PAGE);
                            let unexpected =
                                |_| StoreError::Unexpected("a cursor of facts".to_owned());
                            let reply = call.map_err(unexpected)?.send(&self.store).await?;
                            self.facts.decode_page(reply)?
                        }
                        // A cursor of SSCAN is not valid any more if the slot moves, and facts would be missing.
                        _ => {
                            let mut cmd = redis::cmd("SMEMBERS");
                            cmd.arg(keys.fenced_facts(metric, entity, shard));
                            let users = cmd.query_async(&mut self.store.commands()).await?;
                            FactPage { users, next: None }
                        }
                    };
                    for users in page.users.chunks(PAGE) {
                        self.copy_users(&base, users).await?;
                        copied += users.len() as u64;
                        let update = Update::new("copying facts", copied, "facts");
                        self.progress.update(&update);
                    }
                    cursor = page.next;
                    if cursor.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    async fn copy_users(&self, base: &BaseKeys, users: &[String]) -> Result<(), MigrationError> {
        let keys = [&base.frozen, &base.state];
        let mut call = RedisCall::script(COPY.on(self.store.backend()), &keys);
        call.cmd.arg(users);
        let reply = call.send(&self.store).await?;
        match u8::from_redis_value(reply) {
            Ok(1) => Ok(()),
            _ => {
                let problem =
                    "the base does not know of the merge: its server has lost its last writes";
                Err(StoreError::Unexpected(problem.to_owned()).into())
            }
        }
    }

    /// Absorbs the shards while no sweep adds up credits: what an author was credited with moves between entities.
    async fn absorb_locked(
        &self,
        entity: &Entity,
        state: &SplitState,
    ) -> Result<Absorbed, MigrationError> {
        let lock = Lock::new(self.store.clone(), self.store.keys().sums_lock());
        let work = async {
            match saved_sums(&self.store).await?.is_running {
                true => Ok::<_, StoreError>(Ok(Absorbed::Later)),
                false => Ok(self.absorb(entity, state).await),
            }
        };
        match lock.run(work).await? {
            Some(result) => result,
            None => Ok(Absorbed::Later),
        }
    }

    async fn absorb(
        &self,
        entity: &Entity,
        state: &SplitState,
    ) -> Result<Absorbed, MigrationError> {
        let (mut author, mut amounts): (Option<Id>, Vec<u64>) = (None, Vec::new());
        if self.authors.are_registered() {
            for shard in state.all() {
                let credit = self.authors.credit_of_shard(&shard.of(entity)).await?;
                if credit.amounts.iter().all(|amount| *amount == 0) {
                    continue;
                }
                if author.is_some() && author != credit.author {
                    return Ok(Absorbed::OtherAuthor);
                }
                author = credit.author;
                amounts.resize(amounts.len().max(credit.amounts.len()), 0);
                for (sum, amount) in amounts.iter_mut().zip(credit.amounts) {
                    *sum += amount;
                }
            }
        }
        let (schema, names) = self.catalog.schema(entity).await?;
        let locator = Locator::of(&self.store);
        let keys = self.store.keys();
        let at = locator.entity(schema, entity);
        let partition = keys.of_entity(entity);
        let [table, hash] = author_keys(keys, &entity.etype, partition);
        let mut all = vec![
            keys.split_state(entity, state.generation),
            at.key().to_owned(),
            keys.log(partition),
            table,
            hash,
        ];
        let mut of_metrics = Vec::new();
        for metric in &state.metrics {
            let base = keys.base_of_split(metric, entity, state.generation);
            all.extend([base.whole, base.frozen, base.former]);
            let idx = self.index(entity, metric).await?;
            let mut sum = 0;
            for shard in state.all() {
                let at = locator.entity(schema, &shard.of(entity));
                sum += self.count(&at, idx).await?;
            }
            of_metrics.extend([idx.to_string(), metric.to_string(), sum.to_string()]);
        }
        let entry = match self.store.layout().journals() {
            true => Journal::of_changes(entity, Cause::Merge, now_ms()),
            false => String::new(),
        };
        let amounts: Vec<String> = amounts.iter().map(u64::to_string).collect();
        let mut call = RedisCall::script(ABSORB.on(self.store.backend()), &all);
        call.cmd
            .arg(at.row().map(|row| row.to_string()).unwrap_or_default())
            .arg(names.len())
            .arg(names.min_len())
            .arg(entity.eid.as_str())
            .arg(entry)
            .arg(FENCE_SECONDS)
            .arg(author.as_ref().map_or("", Id::as_str))
            .arg(amounts.join(" "))
            .arg(of_metrics);
        match self.append(entity, &call).await {
            Err(StoreError::Rejected(error)) if error.code() == Some(OTHER_AUTHOR) => {
                return Ok(Absorbed::OtherAuthor);
            }
            reply => reply?,
        };
        if self.authors.are_registered() {
            // The consumer compares the counters with what the author was credited with.
            let mut cmd = redis::cmd("XADD");
            cmd.arg(keys.log(partition)).arg("0-*").arg("a");
            cmd.arg(NewAuthor::unchanged(entity).to_json());
            self.append(entity, &RedisCall::command(cmd)).await?;
        }
        Ok(Absorbed::Done)
    }

    /// Deletes what is left of a shard.
    async fn clear(
        &self,
        entity: &Entity,
        state: &SplitState,
        shard: Shard,
    ) -> Result<(), MigrationError> {
        let (schema, _) = self.catalog.schema(entity).await?;
        let keys = self.store.keys();
        let of_shard = shard.of(entity);
        let at = Locator::of(&self.store).entity(schema, &of_shard);
        let partition = keys.of_entity(&of_shard);
        let [table, hash] = author_keys(keys, &entity.etype, partition);
        let mut all = vec![at.key().to_owned(), keys.log(partition), table, hash];
        let mut of_metrics = Vec::new();
        for metric in &state.metrics {
            all.push(keys.fenced_facts(metric, entity, shard));
            let idx = self.index(entity, metric).await?;
            of_metrics.extend([idx.to_string(), metric.to_string()]);
        }
        let entry = match self.store.layout().journals() {
            true => Journal::of_changes(&of_shard, Cause::Merge, now_ms()),
            false => String::new(),
        };
        let mut call = RedisCall::script(CLEAR.on(self.store.backend()), &all);
        call.cmd
            .arg(of_shard.eid.as_str())
            .arg(entry)
            .arg(of_metrics);
        self.append(&of_shard, &call).await?;
        Ok(())
    }

    /// The index of the counter of a metric.
    async fn index(&self, entity: &Entity, metric: &Name) -> Result<usize, MigrationError> {
        let (_, idx, _) = self.catalog.field(entity, metric.as_str()).await?;
        Ok(idx)
    }

    async fn count(&self, at: &CounterLocation, idx: usize) -> Result<u64, MigrationError> {
        let call = Actions::count_call(self.store.backend(), at, idx);
        let count = u64::from_redis_value(call.send(&self.store).await?);
        let unexpected =
            |error: redis::ParsingError| StoreError::Unexpected(format!("a counter: {error}"));
        Ok(count.map_err(unexpected)?)
    }

    /// Sends a call that may append to the log of an entity.
    async fn append(&self, entity: &Entity, call: &RedisCall) -> Result<Value, StoreError> {
        let reply = match call.send(&self.store).await {
            // A rejected append has no effect.
            Err(error) if crate::domain::error::rejected_by_foreign_last_id(&error) => {
                renumber(&self.store, self.store.keys().of_entity(entity)).await?;
                call.send(&self.store).await
            }
            reply => reply,
        };
        Ok(reply?)
    }
}
