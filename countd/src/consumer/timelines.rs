//! The changes of facts in a batch that go to timelines: the facts of users, and the latest users of entities.

use super::rules::Rules;
use crate::domain::config::{Nature, Order};
use crate::domain::event::Rev;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{Partition, TimelineKeys};
use crate::redis::script::CounterBackend;
use crate::redis::timeline::time_of;
use crate::storage::locator::Locator;
use redis::Cmd;
use std::collections::BTreeMap;

/// The last change of a fact in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It exists; the time of the action in milliseconds since 1970, 0 if it is not known.
    Exists(u64),
    /// It does not exist.
    Removed,
}

impl Change {
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
            (Change::Exists(0), Some(Change::Exists(ts))) => Change::Exists(ts),
            _ => self,
        }
    }

    fn argument(self) -> String {
        match self {
            Change::Exists(0) => "0".to_owned(),
            Change::Exists(ts) => time_of(ts).to_string(),
            Change::Removed => "-".to_owned(),
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
}

/// The key of the newest facts of an id's form, that of the older ones, and whether the former is a table.
fn keys_of(
    keys: TimelineKeys,
    backend: CounterBackend,
    member: &Id,
) -> (String, Option<String>, bool) {
    match backend == CounterBackend::Module && member.number().is_some() {
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
                };
                Rev {
                    uid: uid.clone(),
                    metric: metric.clone(),
                    entity: entity.clone(),
                    exists,
                    ts,
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

/// The timelines that the facts of a metric change.
#[derive(Clone, Debug)]
pub struct TimelineRule {
    /// The name of the metric.
    metric: Name,
    /// Whether the facts are kept for users.
    is_reverse: bool,
    /// Whether the latest users of entities are kept.
    is_ordered: bool,
    /// The number of newest facts whose times are kept.
    keep: u32,
}

impl TimelineRule {
    /// The rule of a metric; `None` if its facts change no timeline.
    pub fn of(metric: &Name, rules: &Rules<'_>) -> Option<TimelineRule> {
        let (name, config) = rules.config.metrics.get(metric.as_str())?;
        let rule = TimelineRule {
            metric: name.clone(),
            is_reverse: rules.locator.layout().is_reverse(name),
            is_ordered: config.order == Order::Time,
            keep: config.latest(),
        };
        let is_used = config.nature == Nature::Once && (rule.is_reverse || rule.is_ordered);
        is_used.then_some(rule)
    }

    /// Checks that the keys that the change of a fact needs are usable.
    ///
    /// # Errors
    /// Why one of them is not.
    pub fn check(&self, rules: &Rules<'_>, entity: &Entity, uid: &Id) -> Result<(), String> {
        if rules.unusable_keys.is_empty() {
            return Ok(());
        }
        let keys = rules.locator.keys();
        let home = keys.of_entity(entity);
        if self.is_reverse && keys.can_combine(home, keys.of_user(uid)) {
            self.check_reverse(rules, entity, uid)?;
        }
        if self.is_ordered {
            check_keys(rules, keys.latest_users(&self.metric, entity), uid)?;
        }
        Ok(())
    }

    /// Checks that the keys of a user's fact are usable.
    ///
    /// # Errors
    /// Why one of them is not.
    pub fn check_reverse(
        &self,
        rules: &Rules<'_>,
        entity: &Entity,
        uid: &Id,
    ) -> Result<(), String> {
        let keys = rules.locator.keys();
        let keys = keys.reverse(&self.metric, &entity.etype, uid);
        check_keys(rules, keys, &entity.eid)
    }

    /// Adds a change of a fact on an entity. The change of the user's timeline is forwarded if it is in another slot.
    pub fn add(
        &self,
        (locator, timelines): (&Locator, &mut Timelines),
        entity: &Entity,
        uid: &Id,
        change: Change,
    ) {
        let (keys, backend) = (locator.keys(), locator.layout().backend);
        if self.is_reverse {
            let home = keys.of_user(uid);
            match keys.can_combine(keys.of_entity(entity), home) {
                true => self.add_reverse((locator, timelines), entity, uid, change),
                false => timelines.forward(home, uid, &self.metric, entity, change),
            }
        }
        if self.is_ordered {
            let keys = keys.latest_users(&self.metric, entity);
            timelines.add((keys, backend), self.keep, uid, change);
        }
    }

    /// Adds a change of a fact to the user's timeline.
    pub fn add_reverse(
        &self,
        (locator, timelines): (&Locator, &mut Timelines),
        entity: &Entity,
        uid: &Id,
        change: Change,
    ) {
        let keys = locator.keys();
        let keys = keys.reverse(&self.metric, &entity.etype, uid);
        let backend = locator.layout().backend;
        timelines.add((keys, backend), self.keep, &entity.eid, change);
    }
}

fn check_keys(rules: &Rules<'_>, keys: TimelineKeys, member: &Id) -> Result<(), String> {
    let (newest, older, _) = keys_of(keys, rules.locator.layout().backend, member);
    let mut keys = std::iter::once(newest).chain(older);
    keys.try_for_each(|key| rules.check_key(&key))
}
