//! What can be asked: counters, whether a user did something, users' counters, and who did it.

use crate::domain::config::UserCounter;
use crate::domain::error::{Problem, StoreError, is_no_script};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::text::shorten;
use crate::facts::{Fact, FactPage, FactStores, InvalidCursor};
use crate::redis::call::{RedisCall, scripts};
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use redis::FromRedisValue;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Commands that read the counters of module objects.
const MODULE_PERMISSIONS: &[&str] = &["CINT.MREAD 1 {counters}"];
/// Commands that read the counters of Strings.
const STRINGS_PERMISSIONS: &[&str] = &["GETRANGE {counters} 0 4"];

/// Most keys of counters are shorter.
const KEY_BYTES: usize = 64;
/// Bytes of a counter in `CINT.MREAD`'s reply.
const FIELD_BYTES: usize = 5;

/// Counts by name, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Shared by all objects of a schema in a page.
    names: Arc<[Name]>,
    values: Vec<u64>,
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let named = self.names.iter().map(Name::as_str).zip(&self.values);
        to.collect_map(named)
    }
}

/// Answers reads. Cheap to clone.
#[derive(Clone)]
pub struct Queries {
    catalog: Catalog,
    store: Store,
    facts: FactStores,
}

impl Queries {
    /// Of the metrics of a catalog and the facts of a store.
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

    /// The counters of entities, in order; those of missing ones are 0. `metrics`: all of the schema if empty.
    /// One round trip to each node of the store.
    ///
    /// # Errors
    /// There are too many; a type or a metric is unknown; the store could not do it.
    pub async fn counters(
        &self,
        entities: &[Entity],
        metrics: &[String],
    ) -> Result<Vec<Counts>, Problem> {
        self.limit(entities.len())?;
        let layout = self.store.keys();
        let mut keys = Vec::with_capacity(entities.len());
        let mut picks: Vec<(&Name, Pick)> = Vec::new();
        let mut chosen = Vec::with_capacity(entities.len());
        for entity in entities {
            // A page has entities of few types.
            let at = match picks.iter().position(|(etype, _)| **etype == entity.etype) {
                Some(at) => at,
                None => {
                    picks.push((&entity.etype, self.pick(entity, metrics).await?));
                    picks.len() - 1
                }
            };
            chosen.push(at);
            let pick = &picks[at].1;
            let partition = layout.of_entity(entity);
            let mut key = String::with_capacity(KEY_BYTES);
            layout.write_counters(&mut key, &pick.id, entity, partition);
            keys.push((key, partition, pick.len));
        }
        let fields = self.fields(&keys).await?;
        let counts = chosen.iter().zip(fields);
        Ok(counts
            .map(|(at, fields)| picks[*at].1.counts(&fields))
            .collect())
    }

    async fn pick(&self, entity: &Entity, metrics: &[String]) -> Result<Pick, Problem> {
        let mut wanted = Vec::with_capacity(metrics.len());
        for metric in metrics {
            let name = self.catalog.config.metrics.resolve(metric);
            let (_, idx, _) = self.catalog.field(entity, name).await?;
            wanted.push(idx);
        }
        // Looking for a name may have found that the schema grew.
        let (id, schema) = self.catalog.schema(entity).await?;
        let names = schema.names();
        if metrics.is_empty() {
            wanted.extend(0..names.len());
        }
        wanted.sort_by(|one, other| names[*one].cmp(&names[*other]));
        wanted.dedup();
        Ok(Pick {
            id: id.clone(),
            len: schema.len(),
            names: wanted.iter().map(|idx| names[*idx].clone()).collect(),
            fields: wanted,
        })
    }

    /// The fields of objects with so many fields: `key, partition, length`. Missing ones read as 0.
    async fn fields(&self, keys: &[(String, u16, usize)]) -> Result<Vec<Vec<u64>>, Problem> {
        let pages = match self.store.backend() {
            CounterBackend::Module => self.objects(keys).await?,
            CounterBackend::Strings => self.strings(keys).await?,
        };
        let numbers = |page: &Vec<u8>| page.chunks_exact(FIELD_BYTES).map(big_endian).collect();
        Ok(pages.iter().map(numbers).collect())
    }

    /// The bytes of Strings, and zeros behind them where they are short.
    async fn strings(&self, keys: &[(String, u16, usize)]) -> Result<Vec<Vec<u8>>, Problem> {
        let calls = keys.iter().map(|(key, _, len)| {
            let mut cmd = redis::cmd("GETRANGE");
            cmd.arg(key).arg(0).arg(len * FIELD_BYTES - 1);
            RedisCall::command(cmd)
        });
        let mut found: Vec<Vec<u8>> = self.ask(&calls.collect::<Vec<_>>()).await?;
        for (bytes, (_, _, len)) in found.iter_mut().zip(keys) {
            bytes.resize(len * FIELD_BYTES, 0);
        }
        Ok(found)
    }

    /// The bytes of the module's objects.
    async fn objects(&self, keys: &[(String, u16, usize)]) -> Result<Vec<Vec<u8>>, Problem> {
        // Objects of one length (and, in a cluster, of one slot) are one command.
        let tagged = self.store.keys().tagged();
        let mut groups: BTreeMap<(u16, usize), Vec<usize>> = BTreeMap::new();
        for (at, (_, partition, len)) in keys.iter().enumerate() {
            let partition = if tagged { *partition } else { 0 };
            groups.entry((partition, *len)).or_default().push(at);
        }
        let calls = groups.iter().map(|((_, len), membership)| {
            let mut cmd = redis::cmd("CINT.MREAD");
            cmd.arg(*len);
            for at in membership {
                cmd.arg(&keys[*at].0);
            }
            RedisCall::command(cmd)
        });
        let pages: Vec<Vec<u8>> = self.ask(&calls.collect::<Vec<_>>()).await?;
        let mut found = vec![Vec::new(); keys.len()];
        for (((_, len), membership), page) in groups.iter().zip(pages) {
            if page.len() != membership.len() * len * FIELD_BYTES {
                return Err(StoreError::Unexpected(
                    "CINT.MREAD: a page of another length".to_owned(),
                )
                .into());
            }
            for (at, object) in membership.iter().zip(page.chunks_exact(len * FIELD_BYTES)) {
                found[*at] = object.to_vec();
            }
        }
        Ok(found)
    }

    /// Asks several questions in one round trip.
    async fn ask<T: FromRedisValue>(&self, calls: &[RedisCall]) -> Result<Vec<T>, Problem> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        for call in calls {
            pipe.add_command(call.cmd.clone());
        }
        let mut connection = self.store.reads();
        match pipe.query_async(&mut connection).await {
            // The server has not seen the script since it started.
            Err(why) if is_no_script(&why) => {
                for code in scripts(calls.iter()) {
                    code.script.load_async(&mut connection).await?;
                }
                Ok(pipe.query_async(&mut connection).await?)
            }
            answered => Ok(answered?),
        }
    }

    /// Which of some metrics a user did to entities, in order. One round trip.
    ///
    /// # Errors
    /// There are too many; a type or a metric is unknown or repeatable; the store could not do it.
    pub async fn statuses(
        &self,
        entities: &[Entity],
        uid: &Id,
        metrics: &[String],
    ) -> Result<Vec<BTreeMap<String, bool>>, Problem> {
        self.limit(entities.len())?;
        let mut names: Vec<(&Name, _)> = Vec::new();
        for metric in metrics {
            let (name, metric) = self.catalog.metric(metric)?;
            // Each once, however often it is named: there are no more than the configuration has.
            if names.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let facts = self.facts.require(name, metric)?;
            facts.check_uid(uid)?;
            names.push((name, facts));
        }
        if names.is_empty() {
            return Err(Problem::Malformed("metrics: at least one".to_owned()));
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
        let found: Vec<u8> = self.ask(&calls).await?;
        let statuses = found.chunks(names.len()).map(|row| {
            let row = names.iter().zip(row);
            row.map(|((name, _), is)| (name.to_string(), *is == 1))
                .collect()
        });
        Ok(statuses.collect())
    }

    /// The counters of users, in order; those of unknown ones are 0. One round trip.
    ///
    /// # Errors
    /// There are too many, or the store could not do it.
    pub async fn user_counters(&self, uids: &[Id]) -> Result<Vec<Counts>, Problem> {
        self.limit(uids.len())?;
        let keys = self.store.keys();
        let key = |uid| {
            (
                keys.user_counters(uid),
                keys.of_user(uid),
                UserCounter::ALL.len(),
            )
        };
        let keys: Vec<_> = uids.iter().map(key).collect();
        let found = self.fields(&keys).await?;
        let mut order = UserCounter::ALL;
        order.sort_by_key(|counter| counter.name());
        let names = order.iter().map(|counter| Name::new(counter.name()));
        let names: Result<Arc<[Name]>, _> = names.collect();
        let names = names.map_err(|why| Problem::Invalid("counters".to_owned(), why))?;
        let counts = found.iter().map(|fields| {
            let value = |counter: &UserCounter| fields.get(counter.index()).copied();
            let values = order.iter().map(|counter| value(counter).unwrap_or(0));
            Counts {
                names: Arc::clone(&names),
                values: values.collect(),
            }
        });
        Ok(counts.collect())
    }

    /// Some of the users who did it, in the order in which their facts are kept, from where the page before ended.
    ///
    /// # Errors
    /// The metric is unknown or repeatable, its type too, `from` is no cursor, or the store could not do it.
    pub async fn who(
        &self,
        metric: &str,
        entity: &Entity,
        from: Option<&str>,
        limit: usize,
    ) -> Result<FactPage, Problem> {
        let (name, metric) = self.catalog.metric(metric)?;
        self.catalog.schema_id(&entity.etype)?;
        let facts = self.facts.require(name, metric)?;
        self.limit(limit)?;
        let call = facts.page(name, entity, from, limit);
        let call = call.map_err(|InvalidCursor| {
            let from = shorten(from.unwrap_or_default());
            Problem::Malformed(format!("cursor: not one of ours: {from}"))
        })?;
        let reply = call.send_read(&self.store).await?;
        Ok(facts.decode_page(reply, from, limit)?)
    }

    fn limit(&self, items: usize) -> Result<(), Problem> {
        let max = self.catalog.config.http.max_batch;
        if items > max {
            return Err(Problem::TooMany(max));
        }
        Ok(())
    }
}

/// The fields of a schema that somebody asks for.
struct Pick {
    id: Name,
    len: usize,
    names: Arc<[Name]>,
    fields: Vec<usize>,
}

impl Pick {
    fn counts(&self, fields: &[u64]) -> Counts {
        let values = self.fields.iter().map(|idx| fields.get(*idx).copied());
        Counts {
            names: Arc::clone(&self.names),
            values: values.map(|value| value.unwrap_or(0)).collect(),
        }
    }
}

fn big_endian(field: &[u8]) -> u64 {
    field
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
