//! Tests of the aggregator. Most run for both storages.

mod dead_letters;
mod derived;
mod events;
mod groups;
mod moving;
mod tables;
mod timelines;

use super::super::counter_key::UnusableKey;
use super::super::decoder::decode;
use super::*;
use crate::domain::config::{BUILT_IN_COUNTERS, Config, UserCounter};
use crate::domain::event::{Derived, Source};
use crate::domain::ids::Entity;
use crate::domain::ids::Name;
use crate::domain::keys::{CounterLocation, Keys, PartitionHash, StoragePhase};
use crate::redis::layout::StoredLayout;
use crate::redis::script::CounterBackend;
use crate::storage::locator::Locator;
use crate::storage::moves::TypesInRows;
use crate::storage::schema::Schema;
use std::collections::BTreeMap;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const STORAGES: [StoragePhase; 2] = [StoragePhase::Table, StoragePhase::Object];

/// The inputs of an aggregation.
struct Fixture {
    config: Config,
    locator: Locator,
    users: Schema,
    schemas: HashMap<Name, Arc<Schema>>,
    in_rows: TypesInRows,
    unusable_keys: HashMap<String, UnusableKey>,
    duplicate_envelopes: HashSet<Id>,
    holds_dead_letters: bool,
    position: Position,
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn id(text: &str) -> Id {
    Id::new(text).expect("an id")
}

/// The index of a counter that all users have.
fn idx(counter: &str) -> usize {
    let mut counters = BUILT_IN_COUNTERS.iter();
    counters
        .position(|name| *name == counter)
        .expect("a counter")
}

/// The stored schema of users with these counters after the built-in ones.
fn users(counters: &[&str]) -> Schema {
    let names = BUILT_IN_COUNTERS.iter().chain(counters);
    Schema::new(names.map(|text| name(text)).collect()).expect("a schema")
}

impl Fixture {
    fn new(storage: StoragePhase, partitions: u16, tagged: bool) -> Fixture {
        let hash = PartitionHash::Murmur2;
        let layout = StoredLayout::uniform(hash, CounterBackend::Module, storage);
        let keys = Keys::new(partitions, tagged, hash);
        let names = ["read", "like", "fav", "comment", "repost"].map(name);
        let schema = Schema::new(names.to_vec()).expect("a schema");
        Fixture {
            config: Config::parse("").expect("the defaults"),
            users: users(&[]),
            locator: Locator::new(keys, Arc::new(layout)),
            schemas: HashMap::from([(name("v1"), Arc::new(schema))]),
            in_rows: TypesInRows::new(),
            unusable_keys: HashMap::new(),
            duplicate_envelopes: HashSet::new(),
            holds_dead_letters: false,
            position: Position::start(),
        }
    }

    /// Adds the entries of a read to a batch.
    fn read(&self, batch: &mut Batch, partition: Partition, entries: &[LogEntry]) {
        let rules = Rules {
            config: &self.config,
            locator: &self.locator,
            users: &self.users,
            schemas: &self.schemas,
            in_rows: &self.in_rows,
            unusable_keys: &self.unusable_keys,
            duplicate_envelopes: &self.duplicate_envelopes,
            holds_dead_letters: self.holds_dead_letters,
        };
        let decoded: Vec<DecodedEntry> = entries.iter().map(decode).collect();
        let source = (partition, &self.position);
        Aggregator::new(rules, batch).add_entries(source, entries.to_vec(), &decoded);
    }

    fn aggregate(&self, partition: Partition, entries: &[LogEntry]) -> Batch {
        let mut batch = Batch::default();
        // In two reads: the second continues after the first.
        let (first, second) = entries.split_at(entries.len() / 2);
        for entries in [first, second] {
            self.read(&mut batch, partition, entries);
        }
        batch
    }

    fn keys(&self) -> Keys {
        self.locator.keys()
    }

    fn note(&self, eid: &str) -> CounterLocation {
        let (etype, eid) = (name("note"), id(eid));
        self.locator.entity(&name("v1"), &Entity { etype, eid })
    }

    fn user(&self, uid: &str) -> CounterLocation {
        self.locator.user(&id(uid))
    }

    /// Makes the key of these counters unusable.
    fn damage(&mut self, at: &CounterLocation, cause: UnusableKey) {
        self.unusable_keys.insert(at.key().to_owned(), cause);
    }

    /// The increments of these counters.
    fn deltas(&self, batch: &Batch, at: &CounterLocation) -> Vec<(usize, i64)> {
        let Some(row) = at.row() else {
            let update = batch.counters.get(at.key());
            return update.map_or(Vec::new(), |update| update.deltas.clone());
        };
        let tables = batch.tables.updates(self.keys()).into_iter();
        let tables = tables.filter(|table| table.key == at.key());
        let deltas = tables.flat_map(|table| table.deltas);
        let deltas = deltas.filter(|(id, _, _)| *id == row);
        deltas.map(|(_, idx, delta)| (idx.into(), delta)).collect()
    }

    /// Aggregates events of partition 0.
    fn aggregate_events(&self, events: &[&str]) -> Batch {
        self.aggregate(0, &entries(EntryKind::Event, events))
    }
}

fn entry(offset: u64, kind: EntryKind, json: &str) -> LogEntry {
    let payload = json.as_bytes().to_vec();
    LogEntry {
        offset,
        kind,
        size: payload.len() + 1,
        payload,
        is_whole: true,
    }
}

/// Entries with the offsets 1, 2, 3 ...
fn entries<T: AsRef<str>>(kind: EntryKind, payloads: &[T]) -> Vec<LogEntry> {
    let numbered = (1..).zip(payloads);
    let entries = numbered.map(|(offset, json)| entry(offset, kind, json.as_ref()));
    entries.collect()
}

fn reasons(batch: &Batch) -> Vec<&str> {
    batch
        .dead_letters
        .iter()
        .map(|dead| dead.reason.as_str())
        .collect()
}
