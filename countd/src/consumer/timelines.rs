//! The changes of facts in a batch that go to timelines: the facts of users, and the latest users of entities.

use super::section::CommitSection;
use crate::domain::config::Config;
use crate::domain::event::{Rev, now_ms};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{Keys, Partition, TimelineKeys};
use crate::redis::script::CounterBackend;
use crate::redis::timeline::time_of;
use redis::Cmd;
use std::collections::BTreeMap;

/// The last change of a fact in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It exists; the time of the action in milliseconds since 1970, 0 if it is not known.
    Exists(u64),
    /// It does not exist.
    Removed,
    /// A check has read whether it exists. If the timeline says otherwise, it was wrong, and the correction is audited.
    Verified(bool),
}

impl Change {
    /// The change that another partition forwards.
    pub fn of_rev(rev: &Rev) -> Change {
        match rev.is_verified {
            true => Change::Verified(rev.exists),
            false => Change::new(rev.exists, rev.ts),
        }
    }

    /// Whether a fact exists, and its time.
    pub fn new(exists: bool, ts: u64) -> Change {
        match exists {
            true => Change::Exists(ts),
            false => Change::Removed,
        }
    }

    /// The change after another one. A fact that still exists keeps its time if the new one is not known.
    fn after(self, before: Option<Change>) -> Change {
        match (self, before) {
            (Change::Exists(0) | Change::Verified(true), Some(Change::Exists(ts))) => {
                Change::Exists(ts)
            }
            // An event of the batch has removed it.
            (Change::Verified(false), Some(Change::Removed)) => Change::Removed,
            _ => self,
        }
    }

    fn argument(self) -> String {
        match self {
            Change::Exists(0) => "0".to_owned(),
            Change::Exists(ts) => time_of(ts).to_string(),
            Change::Removed => "-".to_owned(),
            Change::Verified(true) => "+".to_owned(),
            Change::Verified(false) => "~".to_owned(),
        }
    }
}

/// The changes of a timeline whose facts have one form.
#[derive(Debug, PartialEq, Eq)]
pub struct TimelineUpdate {
    older: Option<String>,
    is_table: bool,
    keep: u32,
    changes: BTreeMap<Id, Change>,
}

/// The changes of timelines in a batch.
#[derive(Debug, Default)]
pub struct Timelines {
    /// By the key of the newest facts.
    updates: BTreeMap<String, TimelineUpdate>,
    /// The changes that are forwarded to other partitions.
    forwarded: BTreeMap<Partition, BTreeMap<(Id, Name, Entity), Change>>,
    count: usize,
    /// The key of the audit, if checks have read facts of the timelines.
    audit: Option<String>,
}

/// The key of the newest facts of an id's form, that of the older ones, and whether the former is a table.
pub(super) fn keys_of(
    keys: TimelineKeys,
    backend: CounterBackend,
    member: &Id,
) -> (String, Option<String>, bool) {
    match backend.writes_tables() && member.number().is_some() {
        true => (keys.newest_table, keys.older_ids, true),
        false => (keys.newest_set, keys.older_set, false),
    }
}

impl Timelines {
    /// Adds a change of a fact to a timeline, which keeps the times of the `keep` newest facts.
    pub fn add(
        &mut self,
        (keys, backend): (TimelineKeys, CounterBackend),
        keep: u32,
        member: &Id,
        change: Change,
    ) {
        let (newest, older, is_table) = keys_of(keys, backend, member);
        let update = self
            .updates
            .entry(newest)
            .or_insert_with(|| TimelineUpdate {
                older,
                is_table,
                keep,
                changes: BTreeMap::new(),
            });
        let before = update.changes.get(member).copied();
        self.count += usize::from(before.is_none());
        update.changes.insert(member.clone(), change.after(before));
    }

    /// Checks have read facts of the timelines. Corrections are entries of the audit with this key.
    pub fn enable_audit(&mut self, key: String) {
        self.audit = Some(key);
    }

    /// Adds a change of a user's fact that is forwarded to the user's partition.
    pub fn forward(
        &mut self,
        to: Partition,
        uid: &Id,
        metric: &Name,
        entity: &Entity,
        change: Change,
    ) {
        let changes = self.forwarded.entry(to).or_default();
        let fact = (uid.clone(), metric.clone(), entity.clone());
        let before = changes.get(&fact).copied();
        self.count += usize::from(before.is_none());
        changes.insert(fact, change.after(before));
    }

    /// The number of changes.
    pub fn len(&self) -> usize {
        self.count
    }

    /// The number of timelines that change.
    pub fn update_count(&self) -> usize {
        self.updates.len()
    }

    /// Whether changes are forwarded.
    pub fn forwards(&self) -> bool {
        !self.forwarded.is_empty()
    }

    /// The changes that are forwarded, by partition.
    pub fn forwarded(&self) -> impl Iterator<Item = (Partition, Vec<Rev>)> {
        self.forwarded.iter().map(|(to, changes)| {
            let revs = changes.iter().map(|((uid, metric, entity), change)| {
                let (exists, ts) = match change {
                    Change::Exists(ts) => (true, *ts),
                    Change::Removed => (false, 0),
                    Change::Verified(exists) => (*exists, 0),
                };
                Rev {
                    uid: uid.clone(),
                    metric: metric.clone(),
                    entity: entity.clone(),
                    exists,
                    ts,
                    is_verified: matches!(change, Change::Verified(_)),
                }
            });
            (*to, revs.collect())
        })
    }

    /// The keys that the commit needs, in the order of timelines.lua.
    pub fn keys(&self) -> Vec<&String> {
        let updates = self.updates.iter();
        updates
            .flat_map(|(newest, update)| std::iter::once(newest).chain(&update.older))
            .collect()
    }

    /// Adds the arguments of timelines.lua.
    pub fn add_arguments(&self, call: &mut Cmd) {
        call.arg(self.updates.len());
        for update in self.updates.values() {
            call.arg(match update.is_table {
                true => "table",
                false => "set",
            });
            call.arg(u8::from(update.older.is_some()));
            call.arg(update.keep).arg(update.changes.len());
            for (member, change) in &update.changes {
                call.arg(member.as_str()).arg(change.argument());
            }
        }
    }
}

/// The audit of timelines that were wrong (verified.lua). The timelines themselves are other arguments of the commit.
impl CommitSection for Timelines {
    fn keys(&self) -> Vec<String> {
        self.audit.iter().cloned().collect()
    }

    fn add_arguments(&self, config: &Config, keys: Keys, call: &mut Cmd) -> usize {
        if self.audit.is_none() {
            call.arg(0);
            return 1;
        }
        call.arg(1)
            .arg(config.audit.retain_per_stream(keys))
            .arg(now_ms());
        3
    }
}
