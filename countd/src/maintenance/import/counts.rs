//! Applies and verifies counts. They are added to counters, or replace them, in one script per partition.

use super::applied::Applied;
use super::error::ImportError;
use super::record::{CountsRecord, Item, Origin, Record};
use crate::domain::config::{Count, Nature};
use crate::domain::error::{ErrorCode, Problem, StoreError};
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::{CounterLocation, Partition};
use crate::domain::text::{brief, shorten};
use crate::query::fields::{CountersToRead, read_fields};
use crate::redis::call::{RedisCall, scripts};
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, ScriptTemplate};
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use crate::storage::locator::Locator;
use crate::storage::moves::{Moves, TypesInRows};
use redis::{RedisError, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

static APPLY: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../../lua/import_counts.lua")]).with_many_counters();

/// The maximum number of records of a script call, which blocks the server.
const RECORDS_PER_CALL: usize = 500;
/// The sequence numbers of a chunk. It has fewer calls per partition.
const CALLS_PER_CHUNK: u64 = 1_000;
/// The number of entities that are read together.
const ENTITIES_PER_READ: usize = 1_000;

/// The permissions that applying counts requires.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    APPLY.required_permissions(backend)
}

/// What happens to existing values of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The counts are added.
    Add,
    /// The counts replace them.
    Set,
}

impl Mode {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Add => "add",
            Mode::Set => "set",
        }
    }
}

/// How it is known what was applied before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// By the number of a chunk, which is the same in each run.
    Chunks,
    /// By the ID of the entity.
    Entities,
    /// By the ID of the entity, for each metric.
    Counters,
}

/// The scope of ids that do not depend on a metric.
pub const ALL: &str = "all";

/// Which values of a counter agree with the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The same value.
    Exact,
    /// The same or a greater value: there were other counts, before or since.
    Minimum,
}

/// Applies and verifies counts.
pub struct CountImport {
    store: Store,
    catalog: Catalog,
    name: Name,
    mode: Mode,
    tracking: Tracking,
    /// The types that a migration moves and whose counters are in rows, by partition.
    in_rows: Mutex<BTreeMap<Partition, TypesInRows>>,
}

/// A record with the location of its counters.
struct Located<'a> {
    origin: &'a Origin,
    entity: &'a Entity,
    at: CounterLocation,
    len: usize,
    min_len: usize,
    /// Index, name and value of each counter.
    values: Vec<(usize, Name, u64)>,
}

/// A script call and its records.
struct ApplyCall<'a> {
    call: RedisCall,
    partition: Partition,
    moves: Moves,
    records: Vec<&'a Located<'a>>,
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
    /// Applies counts as the import `name`.
    pub fn new(catalog: Catalog, store: Store, name: &Name, how: (Mode, Tracking)) -> CountImport {
        CountImport {
            catalog,
            store,
            name: name.clone(),
            mode: how.0,
            tracking: how.1,
            in_rows: Mutex::default(),
        }
    }

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

    fn calls<'a>(&self, located: &'a [Located<'a>], number: u64) -> Vec<ApplyCall<'a>> {
        let keys = self.store.keys();
        let mut groups: BTreeMap<(Partition, &str), Vec<&Located<'a>>> = BTreeMap::new();
        for record in located {
            let scope = match self.tracking {
                Tracking::Counters => record.values[0].1.as_str(),
                Tracking::Chunks | Tracking::Entities => ALL,
            };
            let partition = keys.of_entity(record.entity);
            groups.entry((partition, scope)).or_default().push(record);
        }
        let mut calls = Vec::with_capacity(groups.len());
        for ((partition, scope), records) in groups {
            for (part, records) in (1..).zip(records.chunks(RECORDS_PER_CALL)) {
                let sequence = number * CALLS_PER_CHUNK + part;
                calls.push(self.call((partition, scope), sequence, records));
            }
        }
        calls
    }

    fn call<'a>(
        &self,
        (partition, scope): (Partition, &str),
        sequence: u64,
        records: &[&'a Located<'a>],
    ) -> ApplyCall<'a> {
        let layout = self.store.keys();
        let is_live = self.tracking != Tracking::Chunks;
        let mut keys = vec![layout.import_state(&self.name, partition)];
        if is_live {
            keys.push(layout.import_ids(&self.name, scope, partition));
            keys.push(layout.import_names(&self.name, scope, partition));
        }
        let first = keys.len();
        let mut moves = Moves::default();
        let places: Vec<(&str, Option<u64>)> = records
            .iter()
            .map(|record| self.place(record, partition, &mut moves))
            .collect();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        for (key, _) in &places {
            let next = numbers.len() + 1;
            numbers.entry(key).or_insert_with(|| {
                keys.push((*key).to_owned());
                next
            });
        }
        debug_assert_eq!(keys.len(), first + numbers.len());
        let script = match moves.is_empty() {
            true => APPLY.on(self.store.backend()),
            false => {
                keys.push(layout.storage_phases(partition));
                keys.extend(moves.keys().cloned());
                APPLY.moving()
            }
        };
        let mut call = RedisCall::script(script, &keys);
        let cmd = &mut call.cmd;
        cmd.arg(partition);
        match is_live {
            true => cmd.arg(""),
            false => cmd.arg(sequence),
        };
        cmd.arg(self.mode.name()).arg(records.len());
        for (record, (key, row)) in records.iter().zip(&places) {
            let eid = &record.entity.eid;
            cmd.arg(eid.as_str())
                .arg(u8::from(eid.number().is_some()))
                .arg(numbers[key]);
            match row {
                Some(row) => cmd.arg(*row),
                None => cmd.arg(""),
            };
            cmd.arg(record.len).arg(record.min_len);
            cmd.arg(record.values.len());
            for (idx, _, value) in &record.values {
                cmd.arg(*idx).arg(*value);
            }
        }
        if !moves.is_empty() {
            moves.add_arguments(cmd);
        }
        ApplyCall {
            call,
            partition,
            moves,
            records: records.to_vec(),
        }
    }

    /// The key and the row of a record's counters. Adds them to `moves` if a migration moves them.
    fn place<'a>(
        &self,
        record: &'a Located<'_>,
        partition: Partition,
        moves: &mut Moves,
    ) -> (&'a str, Option<u64>) {
        let Some(moving) = record.at.moving() else {
            return (record.at.key(), record.at.row());
        };
        let all = self.in_rows.lock().unwrap_or_else(PoisonError::into_inner);
        let in_rows = all
            .get(&partition)
            .is_some_and(|types| types.contains(&moving.field));
        moves.choose(&moving.field, in_rows);
        match in_rows {
            true => {
                let table = || moving.table.clone();
                moves.add(&moving.object, table, moving.id, record.min_len);
                (&moving.table, Some(moving.id))
            }
            false => (&moving.object, None),
        }
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

impl ApplyCall<'_> {
    /// The number of records that were applied.
    fn decode(&self, reply: &[u64]) -> Result<u64, ImportError> {
        let at = |index: usize| reply.get(index).copied().unwrap_or(0) as usize;
        if let [1, applied] = reply {
            return Ok(*applied);
        }
        if reply == [0] {
            return Ok(0);
        }
        if let (Some(object), cause @ (6 | 7)) = (self.moves.objects().nth(at(1)), at(0)) {
            let of_object = |record: &&&Located<'_>| record.at.key() == object;
            return Err(match self.records.iter().find(of_object) {
                Some(record) => ImportError::Invalid {
                    origin: record.origin.clone(),
                    problem: match cause {
                        6 => format!("{object} holds another type"),
                        _ => format!("{object} has fewer counters than its original schema"),
                    },
                },
                None => StoreError::Unexpected(format!("import: {reply:?}")).into(),
            });
        }
        let record = self.records.get(at(1));
        let (Some(record), 2..=4) = (record, at(0)) else {
            let problem = format!("import: {reply:?}");
            return Err(StoreError::Unexpected(problem).into());
        };
        let key = record.at.key();
        let problem = match at(0) {
            2 => format!("{key} holds another type"),
            3 => format!("{key} has fewer counters than its original schema"),
            _ => {
                let mut values = record.values.iter();
                let name = values.find(|(idx, ..)| *idx == at(2));
                let name = name.map_or("a counter", |(_, name, _)| name.as_str());
                let Entity { etype, eid } = record.entity;
                format!("{name} of {etype} {eid} would exceed the maximum of a counter")
            }
        };
        Err(ImportError::Invalid {
            origin: record.origin.clone(),
            problem,
        })
    }
}
