//! Replays archived entries into data that is older than they are.
//!
//! An entry up to the last offset that the log had when the data was saved is counted as usual: what its step changed is in the data. A
//! later entry is counted with what its step has changed: the fact, the counter of the entity, the author. Facts and authors are set, not
//! added, so they may be set again after a crash; all else is in the commit that advances the position.

use super::aggregator::Aggregator;
use super::batch::Batch;
use super::commit::{CommitOutcome, commit, record_commit};
use super::counter_key::UnusableKey;
use super::decoder::{DecodedEntry, decode};
use super::position::{self, Position};
use super::reread::reread_facts;
use super::rules::Rules;
use super::schemas::{load_schemas, load_user_schema};
use crate::domain::config::{BUILT_IN_COUNTERS, USER};
use crate::domain::error::{Problem, StoreError};
use crate::domain::event::{Cause, NewAuthor};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{CounterLocation, Partition};
use crate::domain::op::Op;
use crate::facts::{CounterField, Fact, FactChange, FactStores, counter_call};
use crate::log::archive::{Outcome, Record};
use crate::log::{EntryKind, LogEntry};
use crate::redis::call::{RedisCall, scripts};
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, ScriptTemplate};
use crate::redis::store::Store;
use crate::storage::authors::Authors;
use crate::storage::catalog::Catalog;
use crate::storage::locator::Locator;
use crate::storage::moves::TypesInRows;
use redis::{RedisError, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["UNLINK {restored}"];

/// Deletes counters.
static DELETE: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../lua/counters_delete.lua")]);

/// Applies changes of counters of users.
static SETTLE: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../lua/journal_settle.lua")]).with_counters();

/// The permissions that replays require, in addition to those of the consumer.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    Permissions::of_commands(PERMISSIONS)
        .and(DELETE.required_permissions(backend))
        .and(SETTLE.required_permissions(backend))
}

/// The maximum number of entries that are committed together.
const MAX_ENTRIES: usize = 4_000;
/// The maximum number of facts in a pipeline.
const PIPELINE: usize = 1_000;

/// An entry with what a replay does with it.
struct Step {
    entry: LogEntry,
    decoded: DecodedEntry,
    /// What happens before the entry is committed, alone.
    before: Option<Before>,
}

/// A step that is run before its entry is committed. It may be run again.
enum Before {
    /// The entity has this author, or none.
    SetAuthor(Entity, Option<Id>),
    /// The counters of the entity or the user were deleted.
    DeleteCounters(Entity),
}

/// Replays archived entries.
pub struct Replay {
    store: Store,
    catalog: Catalog,
    locator: Locator,
    facts: FactStores,
    authors: Authors,
    /// The last offset of each log when the data was saved.
    saved: BTreeMap<Partition, u64>,
    positions: BTreeMap<Partition, Position>,
    in_rows: BTreeMap<Partition, TypesInRows>,
    /// The number of entries replayed so far.
    pub replayed: u64,
}

impl Replay {
    /// A replay into the data of a store, whose logs had these last offsets when it was saved.
    ///
    /// # Errors
    /// The positions cannot be read.
    pub async fn new(
        catalog: Catalog,
        store: Store,
        saved: BTreeMap<Partition, u64>,
    ) -> Result<Replay, StoreError> {
        let partitions: Vec<Partition> = (0..store.keys().partitions()).collect();
        let loaded = position::load(&store, &partitions).await?;
        let mut positions = BTreeMap::new();
        for (partition, position) in partitions.into_iter().zip(loaded) {
            positions.insert(partition, position.map_err(StoreError::Unexpected)?);
        }
        let shards = catalog.config.facts.shards;
        Ok(Replay {
            locator: Locator::of(&store),
            facts: FactStores::new(store.keys(), store.backend(), shards),
            authors: Authors::new(store.clone()),
            store,
            catalog,
            saved,
            positions,
            in_rows: BTreeMap::new(),
            replayed: 0,
        })
    }

    /// The offset of the next entry of a partition.
    pub fn next(&self, partition: Partition) -> u64 {
        self.positions
            .get(&partition)
            .map_or(1, |position| position.next)
    }

    /// Adds what these records say of the counters of users that changed without an event.
    pub fn add_differences(&self, records: &[Record], differences: &mut BTreeMap<(Id, Name), i64>) {
        for record in records {
            let is_journal = record.entry.kind == EntryKind::Journal;
            if !is_journal
                || record.outcome != Outcome::Counted
                || !self.is_later(record.partition, &record.entry)
            {
                continue;
            }
            if let DecodedEntry::Journal(journal) = decode(&record.entry)
                && journal.etype.as_str() == USER
                && journal.why != Cause::Repair
            {
                for (counter, delta) in journal.changes {
                    *differences
                        .entry((journal.eid.clone(), counter))
                        .or_default() += delta;
                }
            }
        }
    }

    /// Adds differences to the counters of users, each once, also if it is called again.
    ///
    /// # Errors
    /// Redis failed, or there is no such counter.
    pub async fn settle(&self, differences: &BTreeMap<(Id, Name), i64>) -> Result<(), Problem> {
        let schema = load_user_schema(&self.catalog, &[]).await?;
        for ((uid, name), difference) in differences {
            let stored = schema.index_of(name.as_str());
            let configured = || Some(self.catalog.config.users.counter(name)?.index().into());
            let Some(idx) = stored.or_else(configured) else {
                return Err(Problem::UnknownCounter(name.to_string()));
            };
            let counter = CounterField {
                at: self.locator.user(uid),
                idx,
                len: schema.len(),
                min_len: BUILT_IN_COUNTERS.len(),
                verify: false,
            };
            let settled = self.store.keys().settled(self.store.keys().of_user(uid));
            let keys = [counter.at.key(), &settled];
            let script = (&SETTLE, self.store.backend());
            let call = counter_call(script, &keys, (Some(&counter), 0, None), |cmd| {
                cmd.arg(&counter.script_args()).arg(*difference);
                cmd.arg(format!("{uid}:{name}"));
            });
            call.send(&self.store).await?;
        }
        Ok(())
    }

    /// Replays records. Those before the positions are skipped.
    ///
    /// # Errors
    /// Redis failed, another process counts, or an entry cannot be replayed. What was committed stays; the replay can continue later.
    pub async fn replay(&mut self, records: Vec<Record>) -> Result<(), Problem> {
        let mut queues: BTreeMap<Partition, VecDeque<Step>> = BTreeMap::new();
        let mut facts = BTreeMap::new();
        for record in records {
            let partition = record.partition;
            if record.entry.offset < self.next(partition) {
                continue;
            }
            let step = self.step(record)?;
            if let (DecodedEntry::Event(event, None), true) =
                (&step.decoded, self.is_later(partition, &step.entry))
                && let Some((metric, settings)) =
                    self.catalog.config.metrics.get(event.metric.as_str())
                && settings.fact_kind().is_some()
            {
                let op = if event.delta > 0 { Op::Add } else { Op::Remove };
                let fact = (metric.clone(), event.entity.clone(), event.uid.clone());
                facts.insert(fact, (op, event.ts));
            }
            queues.entry(partition).or_default().push_back(step);
        }
        self.set_facts(facts).await?;
        while !queues.is_empty() {
            let mut groups: BTreeMap<Partition, Vec<(Partition, Vec<Step>)>> = BTreeMap::new();
            let mut count = 0;
            for (partition, queue) in &mut queues {
                let group = if self.store.keys().tagged() {
                    *partition
                } else {
                    0
                };
                let mut steps = Vec::new();
                while count < MAX_ENTRIES && queue.front().is_some_and(|step| step.before.is_none())
                {
                    steps.extend(queue.pop_front());
                    count += 1;
                }
                if !steps.is_empty() {
                    groups.entry(group).or_default().push((*partition, steps));
                }
            }
            for steps in groups.into_values() {
                self.commit(steps).await?;
            }
            if count == 0 {
                for (partition, queue) in &mut queues {
                    if let Some(mut step) = queue.pop_front() {
                        if let Some(before) = step.before.take() {
                            self.run(before).await?;
                        }
                        self.commit(vec![(*partition, vec![step])]).await?;
                    }
                }
            }
            queues.retain(|_, queue| !queue.is_empty());
        }
        Ok(())
    }

    /// Whether an entry was appended after the data was saved.
    fn is_later(&self, partition: Partition, entry: &LogEntry) -> bool {
        entry.offset > self.saved.get(&partition).copied().unwrap_or(0)
    }

    fn step(&self, record: Record) -> Result<Step, Problem> {
        let is_later = self.is_later(record.partition, &record.entry);
        step(record, is_later)
    }

    /// Sets facts. Their events go to streams that are deleted at once.
    async fn set_facts(
        &self,
        facts: BTreeMap<(Name, Entity, Id), (Op, u64)>,
    ) -> Result<(), Problem> {
        let keys = self.store.keys();
        let (mut calls, mut streams) = (Vec::new(), BTreeSet::new());
        for ((name, entity, uid), (op, ts)) in &facts {
            let Some((name, metric)) = self.catalog.config.metrics.get(name.as_str()) else {
                continue;
            };
            let Some(facts) = self.facts.of(metric) else {
                continue;
            };
            if facts.check_uid(uid).is_err() {
                continue;
            }
            let stream = keys.restored_events(keys.of_entity(entity));
            calls.push(facts.change(&FactChange {
                fact: Fact {
                    metric: name,
                    entity,
                    uid,
                },
                op: *op,
                ts: *ts,
                counter: None,
                day: None,
                event: (&stream, ""),
                guard: None,
                author: None,
            }));
            streams.insert(stream);
        }
        for calls in calls.chunks(PIPELINE) {
            let mut pipeline = redis::pipe();
            for script in scripts(calls.iter()) {
                let load = pipeline.cmd("SCRIPT").arg("LOAD");
                load.arg(&script.source).ignore();
            }
            for call in calls {
                pipeline.add_command(call.cmd.clone());
            }
            pipeline.ignore_errors();
            let replies: Vec<Result<Value, RedisError>> =
                pipeline.query_async(&mut self.store.commands()).await?;
            if let Some(error) = replies.into_iter().find_map(Result::err) {
                return Err(error.into());
            }
        }
        for stream in streams {
            let mut cmd = redis::cmd("UNLINK");
            cmd.arg(stream);
            cmd.exec_async(&mut self.store.commands()).await?;
        }
        Ok(())
    }

    async fn run(&self, before: Before) -> Result<(), Problem> {
        match before {
            Before::SetAuthor(entity, author) => {
                self.authors.put(&entity, author.as_ref()).await?;
            }
            Before::DeleteCounters(entity) => {
                let locations = self.locations(&entity);
                if locations.is_empty() {
                    return Ok(());
                }
                let keys: Vec<&str> = locations.iter().map(CounterLocation::key).collect();
                let mut call = RedisCall::script(DELETE.on(self.store.backend()), &keys);
                for at in &locations {
                    let row = at.row().map(|id| id.to_string());
                    call.cmd.arg(row.unwrap_or_default());
                }
                call.send(&self.store).await?;
            }
        }
        Ok(())
    }

    /// Where counters of an entity or a user may be.
    fn locations(&self, entity: &Entity) -> Vec<CounterLocation> {
        let (keys, config) = (self.store.keys(), &self.catalog.config);
        let mut places = Vec::new();
        if entity.etype.as_str() == USER {
            let table = keys.user_table(keys.of_user(&entity.eid));
            places.push((table, keys.user_counters(&entity.eid)));
        } else {
            let schemas: BTreeSet<&Name> = config.entities.values().map(|e| &e.schema).collect();
            for schema in schemas {
                let table = keys.table(schema, &entity.etype, keys.of_entity(entity));
                places.push((table, keys.counters(schema, entity)));
            }
        }
        let has_tables = self.store.backend() == CounterBackend::Module;
        let row = entity.eid.number().filter(|_| has_tables);
        let mut locations = Vec::new();
        for (table, object) in places {
            locations.extend(row.map(|id| CounterLocation::Row { table, id }));
            locations.push(CounterLocation::Object { key: object });
        }
        locations
    }

    /// Commits entries of partitions of a commit group.
    async fn commit(&mut self, steps: Vec<(Partition, Vec<Step>)>) -> Result<(), Problem> {
        let mut parts = Vec::with_capacity(steps.len());
        for (partition, steps) in steps {
            let (entries, mut decoded): (Vec<LogEntry>, Vec<DecodedEntry>) = steps
                .into_iter()
                .map(|step| (step.entry, step.decoded))
                .unzip();
            reread_facts(&self.store, &self.catalog.config, &mut decoded).await?;
            self.replayed += entries.len() as u64;
            parts.push((partition, entries, decoded));
        }
        let Some(group) = parts.first().map(|(partition, ..)| *partition) else {
            return Ok(());
        };
        let group = if self.store.keys().tagged() { group } else { 0 };
        let mut unusable_keys: HashMap<String, UnusableKey> = HashMap::new();
        let mut duplicates: HashSet<Id> = HashSet::new();
        loop {
            let mut batch = Batch::default();
            for (partition, entries, decoded) in &parts {
                let users = load_user_schema(&self.catalog, decoded).await?;
                let schemas = load_schemas(&self.catalog, decoded).await?;
                let rules = Rules {
                    config: &self.catalog.config,
                    locator: &self.locator,
                    users: &users,
                    schemas: &schemas,
                    in_rows: self.in_rows.entry(group).or_default(),
                    unusable_keys: &unusable_keys,
                    duplicate_envelopes: &duplicates,
                    holds_dead_letters: false,
                };
                let start = Position::start();
                let position = self.positions.get(partition).unwrap_or(&start);
                let mut aggregator = Aggregator::new(rules, &mut batch);
                aggregator.add_entries((*partition, position), entries.clone(), decoded);
            }
            let config = &self.catalog.config;
            match commit(&self.store, &self.locator, &batch, config).await? {
                CommitOutcome::Committed { .. } => {
                    record_commit(&batch);
                    for (partition, update) in batch.positions {
                        let position = self.positions.entry(partition);
                        let position = position.or_insert_with(Position::start);
                        position.next = update.next;
                        position.fences.extend(update.fences);
                    }
                    return Ok(());
                }
                CommitOutcome::PositionConflict(partitions) => {
                    let problem = format!("another process counts partitions {partitions:?}");
                    return Err(StoreError::Unexpected(problem).into());
                }
                CommitOutcome::DuplicateEnvelopes(ids) => duplicates.extend(ids),
                CommitOutcome::UnusableKeys(keys) => unusable_keys.extend(keys),
                // A replay requires no tables.
                CommitOutcome::MissingTables(keys) => {
                    let problem = format!("tables {keys:?} do not exist");
                    return Err(StoreError::Unexpected(problem).into());
                }
                CommitOutcome::OtherPlaces(types) => {
                    let in_rows = self.in_rows.entry(group).or_default();
                    for etype in types {
                        if !in_rows.remove(&etype) {
                            in_rows.insert(etype);
                        }
                    }
                }
                CommitOutcome::DeadLettersRejected(reason) => {
                    return Err(StoreError::Unexpected(reason).into());
                }
            }
        }
    }
}

/// What a replay does with an entry. `is_later` tells whether it was appended after the data was saved.
fn step(record: Record, is_later: bool) -> Result<Step, Problem> {
    let Record {
        partition,
        outcome,
        entry,
    } = record;
    let mut decoded = match outcome {
        Outcome::Counted => decode(&entry),
        Outcome::Duplicate | Outcome::Dead => DecodedEntry::Skipped,
    };
    // What a check expects are the facts when it was appended, in data that this is not. Reconciliation compares again.
    if matches!(decoded, DecodedEntry::Check(_)) {
        decoded = DecodedEntry::Skipped;
    }
    let mut before = None;
    if is_later {
        decoded = match decoded {
            DecodedEntry::Event(mut event, id) => {
                event.counted = false;
                DecodedEntry::Event(event, id)
            }
            // Commits of the source forward it again.
            DecodedEntry::Derived(derived) if derived.source.is_some() => DecodedEntry::Skipped,
            // A correction, which this data does not have.
            DecodedEntry::Author(new) if new.unchanged => DecodedEntry::Skipped,
            DecodedEntry::Author(NewAuthor { entity, to, .. }) => {
                let offset = entry.offset;
                let unknown = || {
                    Problem::Unprocessable(format!(
                        "entry 0-{offset} of partition {partition} names no author: an older version wrote it; a snapshot that is younger than it is needed"
                    ))
                };
                let to = to.ok_or_else(unknown)?;
                let author = match to.is_empty() {
                    true => None,
                    false => Some(Id::new(to).map_err(|_| unknown())?),
                };
                before = Some(Before::SetAuthor(entity, author));
                DecodedEntry::Skipped
            }
            DecodedEntry::Journal(journal) if journal.why == Cause::Erase => {
                before = Some(Before::DeleteCounters(journal.entity()));
                DecodedEntry::Skipped
            }
            // They are settled at the end. Applied in the order of the archive, they could meet a counter that has less than it had,
            // because increments come from other partitions.
            DecodedEntry::Journal(journal) if journal.etype.as_str() == USER => {
                DecodedEntry::Skipped
            }
            DecodedEntry::Journal(journal) => DecodedEntry::JournalToApply(journal),
            // Facts are set before entries are committed, so they can be read again.
            other @ (DecodedEntry::Reread(_)
            | DecodedEntry::Facts(_)
            | DecodedEntry::Derived(_)
            | DecodedEntry::Check(_)
            | DecodedEntry::JournalToApply(_)
            | DecodedEntry::Skipped
            | DecodedEntry::Invalid(_)) => other,
        };
    }
    Ok(Step {
        entry,
        decoded,
        before,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(kind: EntryKind, payload: &str, is_later: bool) -> DecodedEntry {
        let entry = LogEntry {
            offset: 9,
            kind,
            payload: payload.as_bytes().to_vec(),
            size: payload.len() + 1,
            is_whole: true,
        };
        let record = Record {
            partition: 0,
            outcome: Outcome::Counted,
            entry,
        };
        step(record, is_later).expect("a step").decoded
    }

    #[test]
    fn checks_are_skipped() {
        let check = r#"{"etype":"note","eid":"7","source":"check","checks":[["like",17]]}"#;
        for is_later in [false, true] {
            let decoded = decoded(EntryKind::Check, check, is_later);
            assert!(matches!(decoded, DecodedEntry::Skipped), "{is_later}");
        }
    }

    /// A correction in life left an entry with which the credit of the author followed. It names no author.
    #[test]
    fn corrections_are_skipped_in_older_data() {
        let entity = Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new("7").expect("an ID"),
        };
        let unchanged = NewAuthor::unchanged(&entity).to_json();
        let later = decoded(EntryKind::Author, &unchanged, true);
        assert!(matches!(later, DecodedEntry::Skipped));
        let earlier = decoded(EntryKind::Author, &unchanged, false);
        assert!(matches!(earlier, DecodedEntry::Author(_)));
    }
}
