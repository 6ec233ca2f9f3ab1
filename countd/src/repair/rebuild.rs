//! Rebuilds the counters of entities from the facts that they count, or from their totals and days.

use super::flights::{Flights, Recounts};
use super::lost::{LostTable, RECORD_PERMISSIONS, record_lost};
use super::source::{Source, Sources};
use super::users::reverse_counters;
use super::zeros::Verified;
use crate::domain::config::{Config, Count, USER};
use crate::domain::error::{Problem, StoreError, rejected_by_foreign_last_id};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::facts::{FactStores, recount_permissions};
use crate::log::renumber;
use crate::redis::day_states;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use redis::{FromRedisValue, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["EXISTS {facts}", "EXISTS {day_counts}"];

/// The interval at which a lock of another process is checked.
const POLL: Duration = Duration::from_millis(20);
/// The reply of a rebuild that has changed nothing because it has to be recorded first that the table is lost.
const UNRECORDED: i64 = -2;
/// The maximum number of keys of an `EXISTS`.
const MAX_KEYS: usize = 2_000;

/// Rebuilds counters from facts. Cheap to clone.
#[derive(Clone)]
pub struct Rebuilder(Arc<Shared>);

pub(super) struct Shared {
    pub(super) catalog: Catalog,
    pub(super) store: Store,
    pub(super) facts: FactStores,
    flights: Flights,
    pub(super) recounts: Recounts,
    zeros: Verified<Entity>,
    /// Keys without facts.
    without_facts: Verified<String>,
    /// Entities whose objects are long enough.
    pub(super) long_enough: Verified<Entity>,
}

/// What a rebuild returns.
pub(super) struct Rebuilt {
    /// The values of the fields.
    pub values: Vec<u64>,
    /// Whether facts need a recount.
    pub is_large: bool,
}

impl Rebuilder {
    /// Uses the metrics and schemas of `catalog` and the fact stores of `store`.
    pub fn new(catalog: Catalog, store: Store, facts: FactStores) -> Rebuilder {
        let lifetime = catalog.config.rebuild.zero();
        Rebuilder(Arc::new(Shared {
            catalog,
            store,
            facts,
            flights: Flights::default(),
            recounts: Recounts::new(),
            zeros: Verified::new(lifetime),
            without_facts: Verified::new(lifetime),
            long_enough: Verified::new(lifetime),
        }))
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }

    /// A rebuilder that reads the schemas itself.
    pub fn of(config: &Arc<Config>, store: &Store) -> Rebuilder {
        let catalog = Catalog::new(Arc::clone(config), store.clone());
        let facts = FactStores::new(store.keys(), store.current_backend(), config.facts.shards);
        Rebuilder::new(catalog, store.clone(), facts)
    }

    /// Rebuilds the lost and damaged counters of users.
    pub async fn users(&self, uids: BTreeSet<Id>) {
        let Ok(etype) = Name::new(USER) else {
            return;
        };
        for eid in uids {
            let etype = etype.clone();
            self.entity(&Entity { etype, eid }, "-").await;
        }
    }

    /// The permissions that rebuilds require.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        Permissions::of_commands(&[PERMISSIONS, RECORD_PERMISSIONS].concat())
            .and(Permissions::of_commands(day_states::PERMISSIONS))
            .and(Shared::script_permissions(backend))
            .and(recount_permissions(backend))
            .and(Rebuilder::length_permissions(backend))
    }

    /// Rebuilds the counters of an entity. Returns the values of the fields of its schema; `None` if they cannot be rebuilt: a migration
    /// moves them, or Redis failed. If facts need a recount that takes too long, returns their counters as they are, and the recount goes on.
    pub async fn entity(&self, entity: &Entity, trace_id: &str) -> Option<Arc<[u64]>> {
        let rebuild = || {
            let (shared, entity) = (Arc::clone(&self.0), entity.clone());
            let trace_id = trace_id.to_owned();
            async move { shared.rebuild_or_recount(entity, trace_id).await }
        };
        self.0.flights.share(entity, rebuild).await
    }

    /// Rebuilds the counters of an entity, and waits for the recount of its facts if they need one.
    pub async fn complete(&self, entity: &Entity, trace_id: &str) {
        self.entity(entity, trace_id).await;
        self.0.recounts.wait(entity).await;
    }

    /// Whether entities whose counters are all 0 have facts, so that their counters were lost. Entities without facts are remembered.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn have_facts(&self, entities: &[&Entity]) -> Result<Vec<bool>, StoreError> {
        let shared = &self.0;
        let now = Instant::now();
        let mut found = vec![false; entities.len()];
        let (mut unknown, mut verified) = (Vec::new(), Vec::new());
        for (at, entity) in entities.iter().enumerate() {
            if !shared.zeros.contains(entity, now) {
                verified.push(at);
                let keys = [shared.root_keys(entity), shared.keys_of_user(entity)];
                let keys = keys.into_iter().filter(|keys| !keys.is_empty());
                unknown.extend(keys.map(|keys| (at, keys)));
            }
        }
        for (at, exists) in shared.exist(&unknown).await? {
            found[at] |= exists;
        }
        // An entry expires, however often the entity is read.
        for at in verified.into_iter().filter(|at| !found[*at]) {
            shared.zeros.add(entities[at], now);
        }
        Ok(found)
    }

    /// Which of these keys of facts exist, each with its place. Missing ones are remembered.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn existing_facts(
        &self,
        keys: Vec<(usize, String)>,
    ) -> Result<Vec<usize>, StoreError> {
        let (shared, now) = (&self.0, Instant::now());
        let unknown = keys
            .into_iter()
            .filter(|(_, key)| !shared.without_facts.contains(key, now));
        let unknown: Vec<(usize, Vec<String>)> = unknown.map(|(at, key)| (at, vec![key])).collect();
        let exist = shared.exist(&unknown).await?;
        let found = exist.into_iter().zip(unknown);
        Ok(found
            .filter_map(|((at, exists), (_, keys))| {
                if !exists {
                    keys.iter()
                        .for_each(|key| shared.without_facts.add(key, now));
                }
                exists.then_some(at)
            })
            .collect())
    }
}

impl Shared {
    /// The keys of which at least one exists if there are facts that are kept for a user. They are in the slot of the user.
    fn keys_of_user(&self, entity: &Entity) -> Vec<String> {
        if entity.etype.as_str() != USER {
            return Vec::new();
        }
        let counters = reverse_counters(&self.store, &self.catalog.config, &BTreeSet::new());
        let sources = counters
            .iter()
            .map(|of| of.source(&self.store, &entity.eid));
        sources.flat_map(|source| source.keys().to_vec()).collect()
    }

    /// The keys of which at least one exists if an entity has facts that its counters count, or the counters of a user.
    fn root_keys(&self, entity: &Entity) -> Vec<String> {
        let layout = self.store.layout();
        let sources = Sources::new(&self.catalog.config, &layout);
        let mut keys = Vec::new();
        if entity.etype.as_str() == USER {
            for (metric, kind) in sources.of_followers() {
                keys.extend(self.facts.get(kind).root_keys(&metric, entity));
            }
            return keys;
        }
        for (name, metric) in self.catalog.config.metrics.iter() {
            if !metric.applies_to(&entity.etype) || metric.count == Count::Never {
                continue;
            }
            match sources.of_entity(name) {
                Source::Facts(kind) | Source::FactsBatched(kind) => {
                    keys.extend(self.facts.get(kind).root_keys(name, entity));
                }
                Source::Days => {
                    let layout = self.store.keys();
                    keys.push(layout.days_of(name, entity));
                    keys.push(layout.history_of(name, entity));
                }
                Source::None => {}
            }
        }
        keys
    }

    /// Whether at least one of the keys of each item exists.
    async fn exist(
        &self,
        items: &[(usize, Vec<String>)],
    ) -> Result<Vec<(usize, bool)>, StoreError> {
        // Usually none of a page's entities has facts. In a cluster their keys are in different slots.
        let count: usize = items.iter().map(|(_, keys)| keys.len()).sum();
        if !self.store.keys().tagged() && items.len() > 1 && count <= MAX_KEYS {
            let mut call = redis::cmd("EXISTS");
            items.iter().for_each(|(_, keys)| _ = call.arg(keys));
            let existing: u64 = call.query_async(&mut self.store.reads()).await?;
            if existing == 0 {
                return Ok(items.iter().map(|(at, _)| (*at, false)).collect());
            }
        }
        let mut pipeline = redis::pipe();
        for (_, keys) in items {
            pipeline.cmd("EXISTS").arg(keys);
        }
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let existing: Vec<u64> = pipeline.query_async(&mut self.store.reads()).await?;
        let existing = existing.into_iter().map(|count| count > 0);
        Ok(items.iter().map(|(at, _)| *at).zip(existing).collect())
    }

    /// Rebuilds the counters; if that fails, counts the facts.
    pub(super) async fn rebuild_or_count(
        &self,
        entity: &Entity,
        trace_id: &str,
    ) -> Option<Rebuilt> {
        let Entity { etype, eid } = entity;
        match self.rebuild(entity, trace_id).await {
            Ok(rebuilt) => rebuilt,
            Err(error) => {
                tracing::warn!(%etype, %eid, %error, "counters cannot be rebuilt now");
                let values = self.count(entity).await.unwrap_or_default();
                values.map(|values| Rebuilt {
                    values,
                    is_large: false,
                })
            }
        }
    }

    /// Rebuilds the counters under the lock. If another process keeps the lock for too long, counts the facts.
    async fn rebuild(&self, entity: &Entity, trace_id: &str) -> Result<Option<Rebuilt>, Problem> {
        let partition = self.home(entity);
        let until = Instant::now() + self.catalog.config.rebuild.wait();
        let mut is_recorded = false;
        loop {
            // Until the call ends, a process with other settings waits.
            let held = self.store.hold_layout().await;
            let Some(comparison) = self.comparison(entity).await? else {
                return Ok(None);
            };
            // Tables of users are not rebuilt as a whole.
            let records = comparison.schema.as_ref().filter(|_| !is_recorded);
            let call = self.rebuild_call(entity, &comparison, records.is_none(), trace_id);
            let reply = match call.send(&self.store).await {
                // A rejected append has no effect.
                Err(error) if rejected_by_foreign_last_id(&error) => {
                    renumber(&self.store, partition).await?;
                    call.send(&self.store).await?
                }
                reply => reply?,
            };
            drop(held);
            let (wrong, flags, mut values) = decode(reply)?;
            let (is_table_lost, mut is_large) = (flags & 1 != 0, flags & 2 != 0);
            // If the process ends before the rebuild, the table is missing or recorded. The record may be on a node that is unavailable.
            if let (UNRECORDED, Some(schema)) = (wrong, records) {
                let table = LostTable::of(&self.store, schema, entity);
                record_lost(&self.store, [&table]).await?;
                is_recorded = true;
                continue;
            }
            if wrong < 0 && Instant::now() < until {
                tokio::time::sleep(POLL).await;
                continue;
            }
            if wrong > 0 || is_table_lost {
                let Entity { etype, eid } = entity;
                tracing::warn!(%etype, %eid, is_table_lost, "counters were rebuilt from facts");
                metrics::counter!("countd_rebuilds_total").increment(1);
            }
            let is_user = entity.etype.as_str() == USER;
            if is_user {
                is_large |= self.check_followers(entity, &mut values, trace_id).await?;
            }
            // It is not rebuilt again while events of the user wait. Counts by day may add up to 0.
            if is_user || wrong >= 0 && values.iter().all(|value| *value == 0) {
                self.zeros.add(entity, Instant::now());
            }
            return Ok(Some(Rebuilt { values, is_large }));
        }
    }

    /// The partition of the counters of an entity or a user.
    pub(super) fn home(&self, entity: &Entity) -> Partition {
        match entity.etype.as_str() {
            USER => self.store.keys().of_user(&entity.eid),
            _ => self.store.keys().of_entity(entity),
        }
    }

    /// What the counters would be after a rebuild.
    async fn count(&self, entity: &Entity) -> Result<Option<Vec<u64>>, Problem> {
        let Some(comparison) = self.comparison(entity).await? else {
            return Ok(None);
        };
        let call = self.count_call(&comparison);
        let reply = call.send_read(&self.store).await?;
        let values = Vec::<u64>::from_redis_value(reply);
        let unexpected = |error| StoreError::Unexpected(format!("counted facts: {error}"));
        Ok(Some(values.map_err(unexpected)?))
    }
}

/// The number of wrong fields (-1 if another process has the lock, or [`UNRECORDED`]), the flags of the reply (rebuild.lua), and the values of
/// the fields.
fn decode(reply: Value) -> Result<(i64, i64, Vec<u64>), StoreError> {
    let unexpected = || StoreError::Unexpected("a rebuild".to_owned());
    let Value::Array(mut replies) = reply else {
        return Err(unexpected());
    };
    if replies.len() < 2 {
        return Err(unexpected());
    }
    let values = replies.split_off(2);
    let numbers = Vec::<i64>::from_redis_value(Value::Array(replies)).map_err(|_| unexpected())?;
    let values = Vec::<u64>::from_redis_value(Value::Array(values)).map_err(|_| unexpected())?;
    Ok((numbers[0], numbers[1], values))
}
