//! Reads the facts and counters of Redis, and makes the statements that write them.

use super::changes::{Changes, FactKey};
use super::error::SinkError;
use super::statements::{CountRow, FactRow};
use super::tables::Tables;
use crate::domain::config::Config;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Name};
use crate::facts::{Fact, FactStores};
use crate::query::fields::{CountersToRead, read_fields};
use crate::redis::call::send_reads;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use crate::storage::locator::Locator;
use crate::storage::schema::Schema;
use redis::FromRedisValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of facts, or of entities, that are read at once.
const READS: usize = 1_000;
/// The maximum number of rows of a statement.
const ROWS: usize = 1_000;

/// Reads facts and counters as they are now.
#[derive(Clone)]
pub struct Truth {
    /// Redis.
    pub store: Store,
    /// The metrics and schemas.
    pub catalog: Catalog,
    /// The fact stores.
    pub facts: FactStores,
}

impl Truth {
    /// Reads from this store.
    pub fn new(config: &Arc<Config>, store: Store) -> Truth {
        Truth {
            catalog: Catalog::new(Arc::clone(config), store.clone()),
            facts: FactStores::new(store.keys(), store.current_backend(), config.facts.shards),
            store,
        }
    }

    /// The statements that make the rows of these facts and counters equal to Redis.
    ///
    /// # Errors
    /// Redis is unavailable, or a schema cannot be read.
    pub async fn statements(
        &self,
        tables: &Tables,
        changes: Changes,
    ) -> Result<Vec<String>, SinkError> {
        let mut statements = changes.deletions;
        let facts: Vec<(FactKey, Option<u64>)> = changes.facts.into_iter().collect();
        for facts in facts.chunks(READS) {
            statements.extend(self.fact_statements(tables, facts).await?);
        }
        for (etype, metric) in &changes.metrics {
            if let Some(id) = self.catalog.config.schema_of(etype).flatten() {
                // Reads the schema again if it was extended by the metric.
                let schema = self.catalog.schemas.with_name(id, metric.as_str()).await;
                schema.map_err(Problem::from)?;
            }
        }
        let entities: Vec<Entity> = changes.entities.into_iter().collect();
        for entities in entities.chunks(READS) {
            statements.extend(self.count_statements(tables, entities).await?);
        }
        Ok(statements)
    }

    async fn fact_statements(
        &self,
        tables: &Tables,
        facts: &[(FactKey, Option<u64>)],
    ) -> Result<Vec<String>, SinkError> {
        let (mut calls, mut rows) = (Vec::new(), Vec::new());
        let mut statements = Vec::new();
        for ((table, entity, uid), time) in facts {
            let details = &tables.details[*table];
            let (user_id, entity_id) = (
                details.user.literal(uid),
                details.entity.literal(&entity.eid),
            );
            let (Some(user_id), Some(entity_id)) = (user_id, entity_id) else {
                skip(1);
                continue;
            };
            let metric = &details.of.metric;
            let (_, settings) = self.catalog.metric(metric.as_str())?;
            let store = self.facts.require(metric, settings)?;
            // No fact has an id that the store does not support.
            if store.check_uid(uid).is_err() {
                statements.push(tables.delete_fact(details, &user_id, &entity_id));
                continue;
            }
            calls.push(store.contains(&Fact {
                metric,
                entity,
                uid,
            }));
            rows.push((*table, (user_id, entity_id, *time)));
        }
        let replies = send_reads(&self.store, &calls).await?;
        let mut existing: BTreeMap<usize, Vec<FactRow>> = BTreeMap::new();
        for ((table, row), reply) in rows.into_iter().zip(replies) {
            let exists = match reply.map_err(StoreError::from) {
                Err(StoreError::WrongType(error)) => {
                    damaged(&error);
                    continue;
                }
                reply => bool::from_redis_value(reply?)
                    .map_err(|error| StoreError::Unexpected(error.to_string()))?,
            };
            match exists {
                true => existing.entry(table).or_default().push(row),
                false => {
                    let details = &tables.details[table];
                    statements.push(tables.delete_fact(details, &row.0, &row.1));
                }
            }
        }
        for (table, rows) in existing {
            let rows = rows.chunks(ROWS);
            statements.extend(rows.map(|rows| tables.upsert_facts(&tables.details[table], rows)));
        }
        Ok(statements)
    }

    async fn count_statements(
        &self,
        tables: &Tables,
        entities: &[Entity],
    ) -> Result<Vec<String>, SinkError> {
        let locator = Locator::of(&self.store);
        let mut schemas: BTreeMap<&Name, Arc<Schema>> = BTreeMap::new();
        let (mut to_read, mut rows) = (Vec::new(), Vec::new());
        for entity in entities {
            let Some((table, counts)) = tables.counts_of(&entity.etype) else {
                continue;
            };
            let Some(entity_id) = counts.entity.literal(&entity.eid) else {
                skip(1);
                continue;
            };
            let (id, schema) = self.catalog.schema(entity).await?;
            to_read.push(CountersToRead {
                at: locator.entity(id, entity),
                len: schema.len(),
                min_len: 0,
            });
            schemas.insert(&entity.etype, schema);
            rows.push((table, &entity.etype, entity_id));
        }
        let read = read_fields(&self.store, &to_read).await?;
        let mut existing: BTreeMap<usize, Vec<CountRow<'_>>> = BTreeMap::new();
        let mut statements = Vec::new();
        for ((table, etype, entity_id), fields) in rows.into_iter().zip(read) {
            let fields = match fields {
                Err(StoreError::WrongType(error)) => {
                    damaged(&error);
                    continue;
                }
                fields => fields?,
            };
            let names = schemas[etype].names().iter();
            let counters = names.zip(fields.iter()).filter(|(_, value)| **value > 0);
            let counters: Vec<(&Name, u64)> =
                counters.map(|(name, value)| (name, *value)).collect();
            let kept: Vec<&Name> = counters.iter().map(|(name, _)| *name).collect();
            statements.push(tables.delete_counts(&tables.counts[table], &entity_id, &kept));
            let rows = existing.entry(table).or_default();
            rows.extend(
                counters
                    .into_iter()
                    .map(|(name, value)| (entity_id.clone(), name, value)),
            );
        }
        for (table, rows) in existing {
            let rows = rows.chunks(ROWS);
            statements.extend(rows.map(|rows| tables.upsert_counts(&tables.counts[table], rows)));
        }
        Ok(statements)
    }
}

/// Counts ids that a column cannot hold.
pub fn skip(ids: u64) {
    metrics::counter!("countd_sink_skipped_total").increment(ids);
}

/// A key of another type. Its repair appends an entry to the log, and the rows are compared again.
fn damaged(error: &redis::RedisError) {
    skip(1);
    tracing::warn!(%error, "a damaged key is not compared with its rows");
}
