//! A batch: what the entries that were read add up to. It counts as a whole, or not at all.

use crate::domain::config::UserCounter;
use crate::domain::ids::Id;
use crate::domain::keys::Partition;
use crate::log::EntryKind;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// Something that cannot be counted.
#[derive(Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Why.
    pub reason: String,
    /// What it is.
    pub kind: EntryKind,
    /// As it was; of a derived event only the part that cannot be counted, of a long event what is known of it, and of anything
    /// else that is long only the start.
    pub payload: Vec<u8>,
    /// How long it is with what `payload` lacks.
    pub bytes: usize,
    /// In whose log it was.
    pub partition: Partition,
    /// Where it was.
    pub offset: u64,
}

/// Why an object cannot be counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnusableKey {
    /// It is none of counters.
    Type,
    /// It has fewer counters than its schema ever had: somebody else made it.
    Short,
}

/// How long an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLength {
    /// How many fields it has afterwards, at least.
    pub len: usize,
    /// How many it must have, if it is there.
    pub least: usize,
}

impl ObjectLength {
    /// That of users' counters, which have always been the same.
    pub const OF_USERS: ObjectLength = ObjectLength {
        len: UserCounter::ALL.len(),
        least: UserCounter::ALL.len(),
    };
}

/// The fields of an object that change, and how long it is.
#[derive(Debug, PartialEq, Eq)]
pub struct ObjectUpdate {
    /// How many fields.
    pub length: ObjectLength,
    /// What each gets, in their order.
    pub deltas: Vec<(usize, i64)>,
}

impl ObjectUpdate {
    fn add(&mut self, idx: usize, delta: i64) {
        match self.deltas.binary_search_by_key(&idx, |(idx, _)| *idx) {
            Ok(at) => {
                let (_, sum) = &mut self.deltas[at];
                *sum = sum.saturating_add(delta);
            }
            Err(at) => self.deltas.insert(at, (idx, delta)),
        }
    }
}

/// How far a batch takes a partition.
#[derive(Debug, PartialEq, Eq)]
pub struct PositionUpdate {
    /// The offset of the first entry that had not been counted.
    pub from: u64,
    /// The offset behind the last entry of the batch.
    pub next: u64,
    /// Fences that moved.
    pub fences: BTreeMap<Partition, u64>,
    /// How many bytes its entries have.
    pub bytes: u64,
}

/// Entries of partitions that can be counted in one step, added up.
#[derive(Debug, Default)]
pub struct Batch {
    /// The partitions whose entries it holds.
    pub moves: BTreeMap<Partition, PositionUpdate>,
    /// What the objects of these partitions get.
    pub counters: HashMap<String, ObjectUpdate>,
    /// What users of each partition get.
    pub outbox: BTreeMap<Partition, BTreeMap<(Id, UserCounter), i64>>,
    /// What cannot be counted.
    pub dead: Vec<DeadLetter>,
    /// The ids of the envelopes that are counted, and in whose log they were.
    pub ids: BTreeMap<Id, Partition>,
    /// How many entries were counted.
    pub applied: u64,
    /// How many derived events and envelopes had been counted before.
    pub repeated: u64,
    /// When the oldest of its events observe_timestamp, in milliseconds since 1970.
    pub oldest: Option<u64>,
}

impl Batch {
    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// Adds to a field of an object.
    pub fn add(&mut self, key: &str, length: ObjectLength, idx: usize, delta: i64) {
        match self.counters.get_mut(key) {
            Some(changes) => {
                // The schema may have grown while the batch was accumulator.
                changes.length.len = changes.length.len.max(length.len);
                changes.add(idx, delta);
            }
            None => {
                let deltas = vec![(idx, delta)];
                self.counters
                    .insert(key.to_owned(), ObjectUpdate { length, deltas });
            }
        }
    }

    /// Adds to a counter of a user whose counters cannot be part of the same step.
    pub fn forward(&mut self, to: Partition, uid: &Id, counter: UserCounter, delta: i64) {
        let users = self.outbox.entry(to).or_default();
        let sum = users.entry((uid.clone(), counter)).or_default();
        *sum = sum.saturating_add(delta);
    }

    /// Remembers when an event observe_timestamp; 0 means that nobody knows.
    pub fn observe_timestamp(&mut self, ts: u64) {
        if ts > 0 {
            self.oldest = Some(self.oldest.map_or(ts, |oldest| oldest.min(ts)));
        }
    }

    /// Whether it leaves something in the outbox.
    pub fn fills_outbox(&self) -> bool {
        let mut users = self.outbox.values().flat_map(|users| users.values());
        users.any(|delta| *delta != 0)
    }

    /// How many entries it is of.
    pub fn entries(&self) -> u64 {
        self.applied + self.repeated + self.dead.len() as u64
    }

    /// How many bytes the dead letters have.
    pub fn dead_bytes(&self) -> usize {
        self.dead.iter().map(|dead| dead.payload.len()).sum()
    }

    /// How many commands that write its script runs.
    pub fn commands(&self) -> usize {
        let is_some = |users: &&BTreeMap<_, i64>| users.values().any(|delta| *delta != 0);
        let fences = self.moves.values().map(|step| step.fences.len());
        let outbox = self.outbox.values().filter(is_some);
        let others = self.dead.len() + self.counters.len() + self.ids.len();
        1 + fences.sum::<usize>() + outbox.count() + others
    }
}
