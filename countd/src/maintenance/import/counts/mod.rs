//! Applies and verifies counts. They are added to counters, or replace them, in one script per partition.

mod call;
mod context;

pub use context::{ALL, CountImport, Mode, Tracking};

use super::applied::Applied;
use super::error::ImportError;
use super::record::{CountsRecord, Item, Origin, Record};
use crate::domain::config::{Count, Nature};
use crate::domain::error::{ErrorCode, Problem, StoreError, rejected_by_foreign_last_id};
use crate::domain::ids::{Entity, Name};
use crate::domain::text::{brief, shorten};
use crate::log::renumber;
use crate::query::fields::{CountersToRead, read_fields};
use crate::redis::call::scripts;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::storage::locator::Locator;
use call::ApplyCall;
use context::Located;
use redis::{RedisError, Value};
use std::sync::PoisonError;

/// The number of entities that are read together.
const ENTITIES_PER_READ: usize = 1_000;

/// The permissions that applying counts requires.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    call::APPLY.required_permissions(backend)
}

/// Which values of a counter agree with the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The same value.
    Exact,
    /// The same or a greater value: there were other counts, before or since.
    Minimum,
}

/// Whether a problem concerns only its record.
fn concerns_record(problem: &Problem) -> bool {
    matches!(
        problem.code(),
        ErrorCode::UnknownMetric
            | ErrorCode::UnknownType
            | ErrorCode::Unprocessable
            | ErrorCode::Malformed
    )
}

impl CountImport {
    /// Validates counts without applying them.
    ///
    /// # Errors
    /// A schema cannot be read.
    pub async fn check(&self, items: &[Item]) -> Result<Applied, ImportError> {
        let mut applied = Applied::default();
        self.locate(items, &mut applied).await?;
        Ok(applied)
    }

    /// Applies the counts of a chunk. What was applied before is not applied again. `number` is the number of the chunk of a file.
    ///
    /// # Errors
    /// A counter cannot hold its count, or Redis failed. Some partitions may have been applied.
    pub async fn apply(&self, items: &[Item], number: u64) -> Result<Applied, ImportError> {
        let mut applied = Applied::default();
        let located = self.locate(items, &mut applied).await?;
        // What was applied is not applied again. A slot changes from objects to rows once.
        for _ in 0..=self.store.keys().partitions() {
            let calls = self.calls(&located, number);
            if calls.is_empty() || self.send(&calls, &mut applied).await? {
                return Ok(applied);
            }
        }
        let problem = "import: the phases of slots keep changing".to_owned();
        Err(StoreError::Unexpected(problem).into())
    }

    /// Sends calls. Returns whether all of them found the counters where they are.
    async fn send(
        &self,
        calls: &[ApplyCall<'_>],
        applied: &mut Applied,
    ) -> Result<bool, ImportError> {
        let mut pipeline = redis::pipe();
        let scripts = scripts(calls.iter().map(|call| &call.call));
        for script in &scripts {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&script.source);
        }
        for ApplyCall { call, .. } in calls {
            pipeline.add_command(call.cmd.clone());
        }
        pipeline.ignore_errors();
        let replies: Vec<Result<Value, RedisError>> =
            pipeline.query_async(&mut self.store.commands()).await?;
        let mut all_found = true;
        for (call, reply) in calls.iter().zip(replies.into_iter().skip(scripts.len())) {
            let reply = match reply {
                // A rejected append has no effect.
                Err(error) if rejected_by_foreign_last_id(&error) => {
                    renumber(&self.store, call.partition).await?;
                    call.call.send(&self.store).await
                }
                reply => reply,
            };
            let reply: Vec<u64> = redis::from_redis_value(reply?)
                .map_err(|error| StoreError::Unexpected(format!("import: {error}")))?;
            if let [5, others @ ..] = reply.as_slice() {
                all_found = false;
                self.choose_rows(call, others)?;
                continue;
            }
            applied.changed += call.decode(&reply)?;
        }
        Ok(all_found)
    }

    /// Chooses the rows for the counters of types that a migration has begun to move in the slot of a call.
    fn choose_rows(&self, call: &ApplyCall<'_>, others: &[u64]) -> Result<(), ImportError> {
        let mut all = self.in_rows.lock().unwrap_or_else(PoisonError::into_inner);
        let in_rows = all.entry(call.partition).or_default();
        for at in others {
            let etype = call.moves.type_at(*at as usize);
            // A slot does not change back: later parts of the import may have been applied since.
            if !etype.is_some_and(|etype| in_rows.insert(etype.clone())) {
                let problem = "import: a slot has lost the phase of a migration".to_owned();
                return Err(StoreError::Unexpected(problem).into());
            }
        }
        Ok(())
    }

    /// The valid records, with names of metrics instead of aliases.
    ///
    /// # Errors
    /// A schema cannot be read.
    pub async fn valid(&self, items: &[Item]) -> Result<Vec<Item>, ImportError> {
        let located = self.locate(items, &mut Applied::default()).await?;
        let valid = located.into_iter().map(|record| {
            let named = record.values.iter();
            Item {
                origin: record.origin.clone(),
                record: Record::Counts(CountsRecord {
                    entity: record.entity.clone(),
                    counts: named
                        .map(|(_, name, value)| (name.to_string(), *value))
                        .collect(),
                }),
            }
        });
        Ok(valid.collect())
    }

    async fn locate<'a>(
        &self,
        items: &'a [Item],
        applied: &mut Applied,
    ) -> Result<Vec<Located<'a>>, ImportError> {
        let mut located = Vec::with_capacity(items.len());
        for Item { origin, record } in items {
            let Record::Counts(record) = record else {
                continue;
            };
            match self.locate_one(origin, record).await {
                Ok(record) if record.values.is_empty() => {}
                Ok(record) => located.push(record),
                Err(problem) if concerns_record(&problem) => {
                    applied.invalid.push((origin.clone(), brief(&problem)));
                }
                Err(problem) => return Err(problem.into()),
            }
        }
        Ok(located)
    }

    async fn locate_one<'a>(
        &self,
        origin: &'a Origin,
        record: &'a CountsRecord,
    ) -> Result<Located<'a>, Problem> {
        let entity = &record.entity;
        let mut values: Vec<(usize, Name, u64)> = Vec::with_capacity(record.counts.len());
        for (name, value) in &record.counts {
            let name = self.check_metric(&entity.etype, name)?;
            let (_, idx, _) = self.catalog.field(entity, name.as_str()).await?;
            if values.iter().any(|(other, ..)| *other == idx) {
                let problem = format!("{name}: the record has two counts of it");
                return Err(Problem::Malformed(problem));
            }
            values.push((idx, name, *value));
        }
        let (id, schema) = self.catalog.schema(entity).await?;
        Ok(Located {
            origin,
            entity,
            at: Locator::of(&self.store).entity(id, entity),
            len: schema.len(),
            min_len: schema.min_len(),
            values,
        })
    }

    /// The name of a metric whose counts can be imported.
    fn check_metric(&self, etype: &Name, name: &str) -> Result<Name, Problem> {
        let metrics = &self.catalog.config.metrics;
        let refuse = |problem: String| Err(Problem::Unprocessable(problem));
        let layout = self.store.layout();
        let name = self.catalog.metric_name(&layout, etype, name);
        let Some((name, metric)) = metrics.get(name) else {
            // A name of a schema that is not configured as a metric.
            return Name::new(name).map_err(|_| Problem::UnknownMetric(shorten(name)));
        };
        if metric.nature == Nature::Once {
            return refuse(format!(
                "{name}: its count is the number of its facts: import the facts, or ignore it"
            ));
        }
        if metric.count == Count::Never {
            return refuse(format!("{name}: entities have no counter of it"));
        }
        if !metric.users.is_empty() {
            return refuse(format!(
                "{name}: it also feeds counters of users, which counts without users would not reach"
            ));
        }
        if !metric.applies_to(etype) {
            return refuse(format!("entity type {etype} has no metric {name}"));
        }
        Ok(name.clone())
    }

    /// The differences between the counts of items and the counters.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn differences(
        &self,
        items: &[Item],
        agreement: Agreement,
    ) -> Result<Vec<String>, ImportError> {
        // Invalid records have been skipped.
        let located = self.locate(items, &mut Applied::default()).await?;
        let mut differences = Vec::new();
        for part in located.chunks(ENTITIES_PER_READ) {
            let to_read: Vec<CountersToRead> = part
                .iter()
                .map(|record| CountersToRead {
                    at: record.at.clone(),
                    len: record.len,
                    min_len: 0,
                })
                .collect();
            let found = read_fields(&self.store, &to_read).await?;
            for (record, fields) in part.iter().zip(found) {
                let Entity { etype, eid } = record.entity;
                let fields = match fields {
                    Ok(fields) => fields,
                    Err(error) => {
                        differences.push(format!("{}: {etype} {eid}: {error}", record.origin));
                        continue;
                    }
                };
                for (idx, name, expected) in &record.values {
                    let found = fields.get(*idx).copied().unwrap_or(0);
                    let agrees = match agreement {
                        Agreement::Exact => found == *expected,
                        Agreement::Minimum => found >= *expected,
                    };
                    if !agrees {
                        differences.push(format!(
                            "{}: {name} of {etype} {eid}: the source has {expected}, countd {found}",
                            record.origin
                        ));
                    }
                }
            }
        }
        Ok(differences)
    }
}
