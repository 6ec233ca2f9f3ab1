//! Executes reads. Each is one round trip to each node.

use super::fields::{self, CountersToRead, PageReplies, read_fields, read_page};
use crate::domain::config::UserCounter;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::text::shorten;
use crate::facts::{FactPage, FactStores, InvalidCursor};
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use crate::storage::locator::Locator;
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// Counters by name, ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Shared by all objects with the same schema.
    names: Arc<[Name]>,
    values: Vec<u64>,
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let named = self.names.iter().map(Name::as_str).zip(&self.values);
        to.collect_map(named)
    }
}

/// Executes reads. Cheap to clone.
#[derive(Clone)]
pub struct Queries {
    catalog: Catalog,
    store: Store,
    locator: Locator,
    facts: FactStores,
}

impl Queries {
    /// Uses the metrics and schemas of `catalog` and the fact stores of `store`.
    pub fn new(catalog: Catalog, store: Store, facts: FactStores) -> Queries {
        Queries {
            catalog,
            locator: Locator::of(&store),
            store,
            facts,
        }
    }

    /// The permissions that reading counters requires.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        fields::required_permissions(backend)
    }

    /// Returns the counters of entities, in order. Missing entities have zeros. If `metrics` is empty, all counters of the schema
    /// are returned. A key of another type fails only its own entities.
    ///
    /// # Errors
    /// There are too many entities, an entity type or metric is unknown, or Redis failed.
    pub async fn counters(
        &self,
        entities: &[Entity],
        metrics: &[String],
    ) -> Result<Vec<Result<Counts, Problem>>, Problem> {
        self.check_batch_size(entities.len())?;
        let mut selections: Vec<(&Name, FieldSelection)> = Vec::new();
        let mut to_read = Vec::with_capacity(entities.len());
        let mut selected = Vec::with_capacity(entities.len());
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
            to_read.push(self.to_read(&selections[index].1, entity));
        }
        let fields = read_fields(&self.store, &to_read).await?;
        let counts = selected.iter().zip(fields);
        Ok(counts
            .map(|(index, fields)| Ok(selections[*index].1.counts(&fields?)))
            .collect())
    }

    /// The counters of an entity of the type of a selection.
    pub(super) fn to_read(&self, selection: &FieldSelection, entity: &Entity) -> CountersToRead {
        CountersToRead {
            at: self.locator.entity(&selection.schema_id, entity),
            len: selection.len,
        }
    }

    /// Reads counters and sends other read-only calls, in one pipeline.
    pub(super) async fn read_page(
        &self,
        counters: &[CountersToRead],
        calls: &[RedisCall],
    ) -> Result<PageReplies, StoreError> {
        read_page(&self.store, counters, calls).await
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
        let mut indexes = Vec::with_capacity(metrics.len());
        for metric in metrics {
            let name = self.catalog.config.metrics.resolve(metric);
            let (_, idx, _) = self.catalog.field(entity, name).await?;
            indexes.push(idx);
        }
        // The lookup may have refreshed an extended schema.
        let (id, schema) = self.catalog.schema(entity).await?;
        let names = schema.names();
        if metrics.is_empty() {
            indexes.extend(0..names.len());
        }
        indexes.sort_by(|a, b| names[*a].cmp(&names[*b]));
        indexes.dedup();
        Ok(FieldSelection {
            schema_id: id.clone(),
            len: schema.len(),
            names: indexes.iter().map(|idx| names[*idx].clone()).collect(),
            indexes,
        })
    }

    /// Returns the counters of users, in order. Unknown users have zeros. A key of another type fails only its own users.
    ///
    /// # Errors
    /// There are too many users, or Redis failed.
    pub async fn user_counters(
        &self,
        uids: &[Id],
    ) -> Result<Vec<Result<Counts, Problem>>, Problem> {
        self.check_batch_size(uids.len())?;
        let to_read: Vec<CountersToRead> = uids
            .iter()
            .map(|uid| CountersToRead {
                at: self.locator.user(uid),
                len: UserCounter::ALL.len(),
            })
            .collect();
        let users = read_fields(&self.store, &to_read).await?;
        let mut order = UserCounter::ALL;
        order.sort_by_key(|counter| counter.name());
        let names = order.iter().map(|counter| Name::new(counter.name()));
        let names: Result<Arc<[Name]>, _> = names.collect();
        let names = names.map_err(|error| Problem::Invalid("counters".to_owned(), error))?;
        let counts = users.into_iter().map(|fields| {
            let fields = fields?;
            let value = |counter: &UserCounter| fields.get(counter.index()).copied();
            let values = order.iter().map(|counter| value(counter).unwrap_or(0));
            Ok(Counts {
                names: Arc::clone(&names),
                values: values.collect(),
            })
        });
        Ok(counts.collect())
    }

    /// Returns a page of the users who performed a metric on an entity, in the order of the fact store. `cursor` is where the
    /// previous page ended.
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
        let call = facts.page(name, entity, cursor, limit);
        let call = call.map_err(|InvalidCursor| {
            let cursor = shorten(cursor.unwrap_or_default());
            Problem::Malformed(format!("cursor: invalid: {cursor}"))
        })?;
        let reply = call.send_read(&self.store).await?;
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

/// The requested fields of a schema.
pub(super) struct FieldSelection {
    schema_id: Name,
    /// The number of fields of the schema.
    len: usize,
    names: Arc<[Name]>,
    /// The index of each name.
    indexes: Vec<usize>,
}

impl FieldSelection {
    /// The counters in the fields of a schema.
    pub fn counts(&self, fields: &[u64]) -> Counts {
        let values = self.indexes.iter().map(|idx| fields.get(*idx).copied());
        Counts {
            names: Arc::clone(&self.names),
            values: values.map(|value| value.unwrap_or(0)).collect(),
        }
    }
}
