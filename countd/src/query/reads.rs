//! Executes reads. Each is one round trip to each node.

use crate::domain::config::UserCounter;
use crate::domain::error::{Problem, StoreError, is_no_script};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::domain::text::shorten;
use crate::facts::{Fact, FactPage, FactStores, InvalidCursor};
use crate::redis::call::{RedisCall, scripts};
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use bytes::{Buf, Bytes};
use redis::FromRedisValue;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The commands that read counters of the module's objects.
const MODULE_PERMISSIONS: &[&str] = &["CINT.MREAD 1 {counters}"];
/// The commands that read counters of Strings.
const STRINGS_PERMISSIONS: &[&str] = &["GETRANGE {counters} 0 4"];

/// The initial capacity of a counter's key. Most keys are shorter.
const KEY_BYTES: usize = 64;
/// The length of a counter in the reply of `CINT.MREAD`, in bytes.
const FIELD_BYTES: usize = 5;

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
    facts: FactStores,
}

impl Queries {
    /// Uses the metrics and schemas of `catalog` and the fact stores of `store`.
    pub fn new(catalog: Catalog, store: Store, facts: FactStores) -> Queries {
        Queries {
            catalog,
            store,
            facts,
        }
    }

    /// The permissions that reading counters requires.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        Permissions::of_commands(match backend {
            CounterBackend::Module => MODULE_PERMISSIONS,
            CounterBackend::Strings => STRINGS_PERMISSIONS,
        })
    }

    /// Returns the counters of entities, in order. Missing entities have zeros. If `metrics` is empty, all counters of the schema
    /// are returned.
    ///
    /// # Errors
    /// There are too many entities, an entity type or metric is unknown, or Redis failed.
    pub async fn counters(
        &self,
        entities: &[Entity],
        metrics: &[String],
    ) -> Result<Vec<Counts>, Problem> {
        self.check_batch_size(entities.len())?;
        let layout = self.store.keys();
        let mut objects = Vec::with_capacity(entities.len());
        let mut selections: Vec<(&Name, FieldSelection)> = Vec::new();
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
            let selection = &selections[index].1;
            let partition = layout.of_entity(entity);
            let mut key = String::with_capacity(KEY_BYTES);
            layout.write_counters(&mut key, &selection.schema_id, entity, partition);
            objects.push(CounterObject {
                key,
                partition,
                len: selection.len,
            });
        }
        let fields = self.fields(&objects).await?;
        let counts = selected.iter().zip(fields);
        Ok(counts
            .map(|(index, fields)| selections[*index].1.counts(&fields))
            .collect())
    }

    async fn select_fields(
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

    /// Reads the fields of objects. Missing fields are 0.
    async fn fields(&self, objects: &[CounterObject]) -> Result<Vec<Vec<u64>>, Problem> {
        let raw = match self.store.backend() {
            CounterBackend::Module => self.read_objects(objects).await?,
            CounterBackend::Strings => self.read_strings(objects).await?,
        };
        let decode = |bytes: Bytes| {
            let fields = bytes.chunks_exact(FIELD_BYTES);
            fields
                .map(|mut field| field.get_uint(FIELD_BYTES))
                .collect()
        };
        Ok(raw.into_iter().map(decode).collect())
    }

    /// Reads the bytes of Strings, padded with zeros.
    async fn read_strings(&self, objects: &[CounterObject]) -> Result<Vec<Bytes>, Problem> {
        let calls = objects.iter().map(|object| {
            let mut cmd = redis::cmd("GETRANGE");
            cmd.arg(&object.key).arg(0).arg(object.bytes() - 1);
            RedisCall::command(cmd)
        });
        let strings: Vec<Vec<u8>> = self.pipeline(&calls.collect::<Vec<_>>()).await?;
        let padded = strings.into_iter().zip(objects).map(|(mut bytes, object)| {
            bytes.resize(object.bytes(), 0);
            bytes.into()
        });
        Ok(padded.collect())
    }

    /// Reads the bytes of the module's objects.
    async fn read_objects(&self, objects: &[CounterObject]) -> Result<Vec<Bytes>, Problem> {
        // One command reads objects of one length and, in a cluster, of one slot.
        let tagged = self.store.keys().tagged();
        let mut groups: BTreeMap<(Partition, usize), Vec<usize>> = BTreeMap::new();
        for (index, object) in objects.iter().enumerate() {
            let partition = if tagged { object.partition } else { 0 };
            let group = groups.entry((partition, object.len)).or_default();
            group.push(index);
        }
        let calls = groups.iter().map(|((_, len), indexes)| {
            let mut cmd = redis::cmd("CINT.MREAD");
            cmd.arg(*len);
            for index in indexes {
                cmd.arg(&objects[*index].key);
            }
            RedisCall::command(cmd)
        });
        let pages: Vec<Vec<u8>> = self.pipeline(&calls.collect::<Vec<_>>()).await?;
        let mut raw = vec![Bytes::new(); objects.len()];
        for (((_, len), indexes), page) in groups.iter().zip(pages) {
            let mut page = Bytes::from(page);
            let object_bytes = len * FIELD_BYTES;
            if page.len() != indexes.len() * object_bytes {
                return Err(StoreError::Unexpected(
                    "CINT.MREAD: a reply of another length".to_owned(),
                )
                .into());
            }
            for index in indexes {
                raw[*index] = page.split_to(object_bytes);
            }
        }
        Ok(raw)
    }

    /// Sends read-only commands as one pipeline.
    async fn pipeline<T: FromRedisValue>(&self, calls: &[RedisCall]) -> Result<Vec<T>, Problem> {
        if calls.is_empty() {
            return Ok(Vec::new());
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

    /// Returns which of `metrics` a user performed on each entity, in order.
    ///
    /// # Errors
    /// There are too many entities, an entity type or metric is unknown, a metric is repeatable, or Redis failed.
    pub async fn statuses(
        &self,
        entities: &[Entity],
        uid: &Id,
        metrics: &[String],
    ) -> Result<Vec<BTreeMap<String, bool>>, Problem> {
        self.check_batch_size(entities.len())?;
        let mut names: Vec<(&Name, _)> = Vec::new();
        for metric in metrics {
            let (name, metric) = self.catalog.metric(metric)?;
            // Duplicates and aliases are dropped, so there are at most as many names as configured metrics.
            if names.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let facts = self.facts.require(name, metric)?;
            facts.check_uid(uid)?;
            names.push((name, facts));
        }
        if names.is_empty() {
            return Err(Problem::Malformed(
                "metrics: at least one is required".to_owned(),
            ));
        }
        let mut calls = Vec::with_capacity(entities.len() * names.len());
        for entity in entities {
            self.catalog.schema_id(&entity.etype)?;
            for (metric, facts) in &names {
                calls.push(facts.contains(&Fact {
                    metric,
                    entity,
                    uid,
                }));
            }
        }
        let replies: Vec<u8> = self.pipeline(&calls).await?;
        let statuses = replies.chunks(names.len()).map(|row| {
            let row = names.iter().zip(row);
            row.map(|((name, _), reply)| (name.to_string(), *reply == 1))
                .collect()
        });
        Ok(statuses.collect())
    }

    /// Returns the counters of users, in order. Unknown users have zeros.
    ///
    /// # Errors
    /// There are too many users, or Redis failed.
    pub async fn user_counters(&self, uids: &[Id]) -> Result<Vec<Counts>, Problem> {
        self.check_batch_size(uids.len())?;
        let keys = self.store.keys();
        let objects: Vec<CounterObject> = uids
            .iter()
            .map(|uid| CounterObject {
                key: keys.user_counters(uid),
                partition: keys.of_user(uid),
                len: UserCounter::ALL.len(),
            })
            .collect();
        let users = self.fields(&objects).await?;
        let mut order = UserCounter::ALL;
        order.sort_by_key(|counter| counter.name());
        let names = order.iter().map(|counter| Name::new(counter.name()));
        let names: Result<Arc<[Name]>, _> = names.collect();
        let names = names.map_err(|error| Problem::Invalid("counters".to_owned(), error))?;
        let counts = users.iter().map(|fields| {
            let value = |counter: &UserCounter| fields.get(counter.index()).copied();
            let values = order.iter().map(|counter| value(counter).unwrap_or(0));
            Counts {
                names: Arc::clone(&names),
                values: values.collect(),
            }
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

    fn check_batch_size(&self, items: usize) -> Result<(), Problem> {
        let max = self.catalog.config.http.max_batch;
        if items > max {
            return Err(Problem::TooMany(max));
        }
        Ok(())
    }
}

/// An object to read.
struct CounterObject {
    key: String,
    partition: Partition,
    /// The number of fields.
    len: usize,
}

impl CounterObject {
    fn bytes(&self) -> usize {
        self.len * FIELD_BYTES
    }
}

/// The requested fields of a schema.
struct FieldSelection {
    schema_id: Name,
    /// The number of fields of the schema.
    len: usize,
    names: Arc<[Name]>,
    /// The index of each name.
    indexes: Vec<usize>,
}

impl FieldSelection {
    fn counts(&self, fields: &[u64]) -> Counts {
        let values = self.indexes.iter().map(|idx| fields.get(*idx).copied());
        Counts {
            names: Arc::clone(&self.names),
            values: values.map(|value| value.unwrap_or(0)).collect(),
        }
    }
}
