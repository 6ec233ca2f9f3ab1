//! Executes reads. Each is one round trip to each node, and a second one to check counters of 0 that may be lost (`suspects`).

use super::cached_page::CachedPage;
use super::counts::{CachedCounts, Counts};
use super::fields::{self, CountersToRead, PageReplies, read_replica_page};
use super::selection::{FieldSelection, name_of};
use super::suspects::rebuild_lost;
use super::verify_users::{self, UserVerifier};
use crate::domain::config::{BUILT_IN_COUNTERS, Order, USER};
use crate::domain::error::{Problem, StoreError, is_no_script};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::text::shorten;
use crate::facts::{FactPage, FactStore, FactStores, InvalidCursor};
use crate::redis::call::{RedisCall, scripts};
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::repair::Rebuilder;
use crate::storage::catalog::Catalog;
use crate::storage::hot::HotTracker;
use crate::storage::locator::Locator;
use crate::storage::schema::{is_of_percent, user_schema_id};
use redis::Value;

/// Executes reads. Cheap to clone.
#[derive(Clone)]
pub struct Queries {
    pub(super) catalog: Catalog,
    pub(super) store: Store,
    pub(super) facts: FactStores,
    pub(super) rebuilder: Rebuilder,
    pub(super) hot: HotTracker,
    verifier: UserVerifier,
}

impl Queries {
    /// Uses the metrics and schemas of `catalog` and the fact stores of `store`. `hot` counts the reads of entities.
    pub fn new(
        catalog: Catalog,
        store: Store,
        facts: FactStores,
        rebuilder: Rebuilder,
        hot: HotTracker,
    ) -> Queries {
        Queries {
            hot,
            verifier: UserVerifier::new(catalog.clone(), store.clone(), facts.clone()),
            rebuilder,
            catalog,
            store,
            facts,
        }
    }

    /// The permissions that reading counters requires.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        fields::required_permissions(backend)
    }

    /// The permissions that verifying users who are read requires.
    pub fn verification_permissions(backend: CounterBackend) -> Permissions {
        verify_users::required_permissions(backend)
    }

    /// Returns the counters of entities, in order. Missing entities have zeros. If `metrics` is empty, all counters of the schema
    /// are returned. Counters of hot entities may be as old as `hot.cache_ms`. Lost counters are rebuilt from facts, with the trace ID in the audit; a key of another type that cannot be rebuilt fails only its own entities.
    ///
    /// # Errors
    /// There are too many entities, an entity type or metric is unknown, or Redis failed.
    pub async fn counters(
        &self,
        entities: &[Entity],
        metrics: &[String],
        trace_id: &str,
    ) -> Result<Vec<Result<Counts, Problem>>, Problem> {
        self.check_batch_size(entities.len())?;
        self.hot.record_reads(entities);
        let mut selections: Vec<(&Name, FieldSelection)> = Vec::new();
        let mut page = CachedPage::new(&self.hot, entities.len());
        let mut selected = Vec::with_capacity(entities.len());
        let locator = Locator::of(&self.store);
        for entity in entities {
            // A batch has few entity types.
            let known = selections
                .iter()
                .position(|(etype, _)| **etype == entity.etype);
            let index = match known {
                Some(index) => index,
                None => {
                    selections.push((&entity.etype, self.select_fields(entity, metrics).await?));
                    selections.len() - 1
                }
            };
            selected.push(index);
            let fields = &selections[index].1;
            page.add(entity, fields.len(), || fields.to_read(&locator, entity));
        }
        let mut fields = self.read_page(page.to_read(), &[]).await?.fields;
        rebuild_lost(
            (&self.store, &self.rebuilder),
            page.missing(),
            &mut fields,
            trace_id,
        )
        .await;
        self.add_shards(page.missing(), &mut fields, trace_id)
            .await?;
        let counts = selected.iter().zip(page.complete(fields)?);
        let counts = entities.iter().zip(counts);
        Ok(counts
            .map(|(entity, (index, fields))| Ok(selections[*index].1.counts(&entity.eid, &fields?)))
            .collect())
    }

    /// All counters of an entity, if they and its schema are in memory: those of a hot entity that was read in the last `hot.cache_ms`. Costs
    /// less than [`counters`](Self::counters), which also reads others.
    ///
    /// # Errors
    /// The entity type is unknown.
    pub fn cached_counters(&self, entity: &Entity) -> Result<Option<CachedCounts>, Problem> {
        if !self.hot.is_caching() {
            return Ok(None);
        }
        let Some(schema) = self.catalog.fresh_schema(entity)? else {
            return Ok(None);
        };
        let Some(fields) = self.hot.cached(entity, schema.len()) else {
            return Ok(None);
        };
        let new = schema.sorted_new();
        let new = new.filter(|(_, percent)| is_of_percent(&entity.eid, *percent));
        let selected = new.map_or(schema.sorted(), |(names, _)| names);
        Ok(Some(CachedCounts::new(selected, fields)))
    }

    /// Counts a read of an entity whose counters were [cached](Self::cached_counters), so that it stays hot.
    pub fn record_cached_read(&self, entity: &Entity) {
        self.hot.record_reads(std::slice::from_ref(entity));
    }

    /// Where counters are now.
    pub(super) fn locator(&self) -> Locator {
        Locator::of(&self.store)
    }

    /// Reads counters and sends other read-only calls, in one pipeline. The replies may be as old as `redis.max_staleness_ms`.
    pub(super) async fn read_page(
        &self,
        counters: &[CountersToRead],
        calls: &[RedisCall],
    ) -> Result<PageReplies, StoreError> {
        read_replica_page(&self.store, counters, calls).await
    }

    /// The fields of metrics in the schema of an entity's type; all fields if `metrics` is empty.
    ///
    /// # Errors
    /// The entity type or a metric is unknown, or the schema cannot be read.
    pub(super) async fn select_fields(
        &self,
        entity: &Entity,
        metrics: &[String],
    ) -> Result<FieldSelection, Problem> {
        let mut fields = Vec::with_capacity(metrics.len());
        for metric in metrics {
            let name = self.catalog.config.metrics.resolve(metric);
            let (_, idx, schema) = self.catalog.field(entity, name).await?;
            fields.push((name_of(name, idx, &schema), idx));
        }
        // The lookup may have refreshed an extended schema.
        let (id, schema) = self.catalog.schema(entity).await?;
        Ok(FieldSelection::new(id, &schema, fields))
    }

    /// Sends read-only commands as one pipeline.
    pub(super) async fn pipeline(&self, calls: &[RedisCall]) -> Result<Vec<Value>, Problem> {
        match calls {
            [] => return Ok(Vec::new()),
            [call] => return Ok(vec![call.send_read(&self.store).await?]),
            _ => {}
        }
        let mut pipeline = redis::pipe();
        for call in calls {
            pipeline.add_command(call.cmd.clone());
        }
        let mut connection = self.store.reads();
        match pipeline.query_async(&mut connection).await {
            // The server has been restarted, or its script cache was flushed.
            Err(error) if is_no_script(&error) => {
                for script in scripts(calls.iter()) {
                    script.script.load_async(&mut connection).await?;
                }
                Ok(pipeline.query_async(&mut connection).await?)
            }
            replies => Ok(replies?),
        }
    }

    /// Returns the counters of users, in order. Unknown users have zeros. If `counters` is empty, all counters are returned. A key of
    /// another type fails only its own users.
    ///
    /// # Errors
    /// There are too many users, a counter is unknown, or Redis failed.
    pub async fn user_counters(
        &self,
        uids: &[Id],
        counters: &[String],
        trace_id: &str,
    ) -> Result<Vec<Result<Counts, Problem>>, Problem> {
        self.check_batch_size(uids.len())?;
        let selection = self.select_user_counters(counters).await?;
        let locator = Locator::of(&self.store);
        let to_read: Vec<CountersToRead> = uids
            .iter()
            .map(|uid| CountersToRead {
                at: locator.user(uid),
                len: selection.len(),
                min_len: BUILT_IN_COUNTERS.len(),
            })
            .collect();
        let mut users = self.read_page(&to_read, &[]).await?.fields;
        let etype = Name::new(USER).map_err(|error| StoreError::Unexpected(error.to_string()))?;
        let entities = uids.iter().map(|uid| Entity {
            etype: etype.clone(),
            eid: uid.clone(),
        });
        let entities: Vec<Entity> = entities.collect();
        let entities: Vec<&Entity> = entities.iter().collect();
        let page = (&entities[..], &to_read[..]);
        rebuild_lost((&self.store, &self.rebuilder), page, &mut users, trace_id).await;
        self.verifier.add(uids);
        let users = uids.iter().zip(users);
        Ok(users
            .map(|(uid, fields)| Ok(selection.counts(uid, &fields?)))
            .collect())
    }

    async fn select_user_counters(&self, counters: &[String]) -> Result<FieldSelection, Problem> {
        let (id, schemas) = (user_schema_id(), &self.catalog.schemas);
        let mut fields = Vec::with_capacity(counters.len());
        for counter in counters {
            let schema = schemas.with_name(id, counter).await?;
            let idx = schema.index_of(counter);
            let idx = idx.ok_or_else(|| Problem::UnknownCounter(shorten(counter)))?;
            fields.push((name_of(counter, idx, &schema), idx));
        }
        // The lookup may have refreshed an extended schema.
        let schema = schemas.get(id).await?;
        Ok(FieldSelection::new(id, &schema, fields))
    }

    /// Returns a page of the users who performed a metric on an entity, in the order of the metric. `cursor` is where the previous page
    /// ended.
    ///
    /// # Errors
    /// The metric is unknown or repeatable, the entity type is unknown, the cursor is invalid, or Redis failed.
    pub async fn who(
        &self,
        metric: &str,
        entity: &Entity,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FactPage, Problem> {
        let (name, metric) = self.catalog.metric(metric)?;
        self.catalog.schema_id(&entity.etype)?;
        let facts = self.facts.require(name, metric)?;
        self.check_batch_size(limit)?;
        self.hot.record_reads(std::slice::from_ref(entity));
        match metric.order {
            Order::Id => {
                let split = || {
                    let state = self.store.layout().split_of(entity).cloned();
                    state.filter(|state| state.has(name))
                };
                if let Some(state) = split() {
                    return self
                        .users_of_split((name, entity), &state, cursor, limit)
                        .await;
                }
                // The cursor of a page before a merge: the users are listed from the beginning.
                let whole = cursor.filter(|cursor| !cursor.contains('/'));
                let from = (entity, PageSource::Any);
                let page = self.users_by_id((name, facts), from, whole, limit).await;
                if matches!(page, Err(Problem::Store(StoreError::WrongType(_)))) {
                    let refreshed = self.store.refresh_layout().await;
                    refreshed.map_err(|error| StoreError::Unexpected(error.to_string()))?;
                    if let Some(state) = split() {
                        return self
                            .users_of_split((name, entity), &state, cursor, limit)
                            .await;
                    }
                }
                page
            }
            Order::Time => {
                self.users_by_time((name, facts), entity, cursor, limit)
                    .await
            }
        }
    }

    /// A page of users in the order of the fact store.
    pub(super) async fn users_by_id(
        &self,
        (metric, facts): (&Name, &dyn FactStore),
        (entity, from): (&Entity, PageSource),
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FactPage, Problem> {
        let call = facts.page(metric, entity, cursor, limit);
        let call = call.map_err(|InvalidCursor| invalid_cursor(cursor))?;
        let reply = match from {
            PageSource::Any if facts.has_portable_cursors() => {
                call.send_replica_read(&self.store).await?
            }
            _ => call.send_read(&self.store).await?,
        };
        Ok(facts.decode_page(reply, cursor, limit)?)
    }

    /// Checks the number of entities or users.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn check_batch_size(&self, items: usize) -> Result<(), Problem> {
        let max = self.catalog.config.http.max_batch;
        if items > max {
            return Err(Problem::TooMany(max));
        }
        Ok(())
    }
}

/// Which servers answer a page of users.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PageSource {
    /// Also replicas, if `redis.read_from` says so.
    Any,
    /// The primary: the page continues another one, which may be newer than the data of a replica.
    Primary,
}

/// The problem of a cursor that no page returned.
pub(super) fn invalid_cursor(cursor: Option<&str>) -> Problem {
    let cursor = shorten(cursor.unwrap_or_default());
    Problem::Malformed(format!("cursor: invalid: {cursor}"))
}
