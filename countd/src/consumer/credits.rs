//! The entities of a batch whose authors are credited.
//!
//! The commit compares the counters of such an entity with what its author was credited with, and adds the difference to the author's
//! counters (lua/credits.lua). The consumer does not know the authors: only the step that commits reads them.

use crate::domain::config::{BUILT_IN_COUNTERS, Storage, USER, UserCounter};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{Keys, Partition, StoragePhase};
use crate::redis::author::author_keys;
use crate::redis::layout::Authors;
use crate::storage::locator::Locator;
use crate::storage::moves::Moves;
use hashbrown::HashMap;
use redis::Cmd;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A metric that feeds the authors of entities of a type.
#[derive(Debug, PartialEq, Eq)]
pub struct CreditedMetric {
    /// Its name.
    pub name: Name,
    /// Its index in the schema of the entities.
    pub idx: usize,
    /// The counters of authors that it feeds, each with its place in the stored list of counters that metrics feed.
    pub counters: Vec<(usize, UserCounter)>,
}

/// How the authors of entities of a type are credited.
#[derive(Debug, PartialEq, Eq)]
pub struct CreditRule {
    /// The schema of the entities.
    pub schema: Name,
    /// How their counters are stored.
    pub storage: Storage,
    /// Whether a migration moves them.
    pub is_moving: bool,
    /// The minimum length of an existing object.
    pub min_len: usize,
    /// The number of counters of users.
    pub user_len: usize,
    /// The metrics that feed authors.
    pub metrics: Vec<CreditedMetric>,
}

/// An entity whose author is credited.
#[derive(Debug, Default)]
struct Credit {
    /// The first author that an event of the batch names. They become the author if the entity never had one.
    named: Option<Id>,
    /// What the batch adds to counters, by the index of the metric in the rule.
    deltas: BTreeMap<usize, i64>,
}

/// The entities of a type and a partition.
#[derive(Debug)]
struct CreditGroup {
    rule: Arc<CreditRule>,
    entities: HashMap<Id, Credit>,
}

/// The entities of a batch whose authors are credited.
#[derive(Debug, Default)]
pub struct Credits {
    groups: BTreeMap<Name, BTreeMap<Partition, CreditGroup>>,
    entities: usize,
    group_count: usize,
}

impl Credits {
    /// Adds an entity, the author that an event names, and what the event adds to a counter.
    pub fn add(
        &mut self,
        rule: &Arc<CreditRule>,
        (entity, partition): (&Entity, Partition),
        named: Option<&Id>,
        delta: Option<(usize, i64)>,
    ) {
        let by_partition = match self.groups.get_mut(&entity.etype) {
            Some(by_partition) => by_partition,
            None => self.groups.entry(entity.etype.clone()).or_default(),
        };
        let group = by_partition.entry(partition).or_insert_with(|| {
            self.group_count += 1;
            CreditGroup {
                rule: Arc::clone(rule),
                entities: HashMap::new(),
            }
        });
        // The schema can be extended while the batch accumulates.
        if !Arc::ptr_eq(&group.rule, rule) {
            group.replace_rule(rule);
        }
        let credit = match group.entities.get_mut(&entity.eid) {
            Some(credit) => credit,
            None => {
                self.entities += 1;
                group.entities.entry(entity.eid.clone()).or_default()
            }
        };
        if credit.named.is_none() {
            credit.named = named.cloned();
        }
        if let Some((metric, delta)) = delta {
            let sum = credit.deltas.entry(metric).or_default();
            *sum = sum.saturating_add(delta);
        }
    }

    /// The number of entities.
    pub fn len(&self) -> usize {
        self.entities
    }

    /// The number of groups of entities that the commit reads together.
    pub fn group_count(&self) -> usize {
        self.group_count
    }

    fn groups(&self) -> impl Iterator<Item = (&Name, Partition, &CreditGroup)> {
        let groups = self.groups.iter();
        groups.flat_map(|(etype, by_partition)| {
            let groups = by_partition.iter();
            groups.map(move |(partition, group)| (etype, *partition, group))
        })
    }

    /// The entities whose authors are credited and whose counters are in the table at this key, and their schema.
    pub fn entities_at(&self, keys: Keys, key: &str) -> Option<(&Name, Vec<Entity>)> {
        self.groups().find_map(|(etype, partition, group)| {
            let schema = &group.rule.schema;
            if group.rule.storage != Storage::Table || keys.table(schema, etype, partition) != key {
                return None;
            }
            let ids = group.entities.keys();
            let ids = ids.filter(|eid| Storage::Table.row(eid).is_some());
            let entities = ids.map(|eid| Entity {
                etype: etype.clone(),
                eid: eid.clone(),
            });
            Some((schema, entities.collect()))
        })
    }

    /// The keys that the commit needs, in the order of credits.lua.
    pub fn keys(&self, locator: &Locator) -> Vec<String> {
        let keys = locator.keys();
        let mut all = Vec::new();
        for (etype, partition, group) in self.groups() {
            all.extend(author_keys(keys, etype, partition));
            let CreditRule {
                schema, storage, ..
            } = &*group.rule;
            if *storage == Storage::Table {
                all.push(keys.table(schema, etype, partition));
            }
            for eid in group.entities.keys() {
                if storage.row(eid).is_none() {
                    let mut key = String::new();
                    let entity = Entity {
                        etype: etype.clone(),
                        eid: eid.clone(),
                    };
                    keys.write_counters(&mut key, schema, &entity, partition);
                    all.push(key);
                }
            }
        }
        all
    }

    /// Adds the arguments of credits.lua. `moves` are those of the batch.
    pub fn add_arguments(&self, locator: &Locator, moves: &Moves, call: &mut Cmd) {
        let Authors::Registry { feeds } = &locator.layout().authors else {
            return;
        };
        if self.entities == 0 {
            return;
        }
        let keys = locator.keys();
        call.arg(match (locator.storage_of_users(), moves.in_rows(USER)) {
            _ if keys.tagged() => "",
            // The commit checks that the batch has chosen the place where they are.
            (StoragePhase::Moving, false) => StoragePhase::Object.name(),
            (phase, _) => phase.name(),
        });
        let mut rules: Vec<&Arc<CreditRule>> = Vec::new();
        for (_, _, group) in self.groups() {
            if !rules.contains(&&group.rule) {
                rules.push(&group.rule);
            }
        }
        let user_len = rules.iter().map(|rule| rule.user_len).max();
        call.arg(user_len.unwrap_or_default())
            .arg(BUILT_IN_COUNTERS.len())
            .arg(feeds.len())
            .arg(rules.len());
        for rule in &rules {
            rule.add_arguments(call);
        }
        call.arg(self.group_count);
        for (_, _, group) in self.groups() {
            let rule = rules.iter().position(|rule| **rule == group.rule);
            call.arg(rule.unwrap_or_default() + 1)
                .arg(u8::from(group.rule.storage == Storage::Table))
                .arg(group.entities.len());
            for (eid, credit) in &group.entities {
                let named = credit.named.as_ref();
                call.arg(eid.as_str()).arg(named.map_or("", Id::as_str));
                call.arg(named.map_or(0, |uid| keys.of_user(uid)));
                call.arg(credit.deltas.len());
                for (metric, delta) in &credit.deltas {
                    call.arg(metric + 1).arg(delta);
                }
            }
        }
    }
}

impl CreditGroup {
    /// Replaces the rule. The deltas refer to metrics by their index in it.
    fn replace_rule(&mut self, rule: &Arc<CreditRule>) {
        if self.rule == *rule {
            self.rule = Arc::clone(rule);
            return;
        }
        let place = |metric: &usize| {
            let name = &self.rule.metrics[*metric].name;
            rule.metrics.iter().position(|metric| metric.name == *name)
        };
        for credit in self.entities.values_mut() {
            let deltas = credit.deltas.iter();
            credit.deltas = deltas
                .filter_map(|(metric, delta)| Some((place(metric)?, *delta)))
                .collect();
        }
        self.rule = Arc::clone(rule);
    }
}

impl CreditRule {
    /// The place of a metric in the rule.
    pub fn position(&self, metric: &Name) -> Option<usize> {
        let mut metrics = self.metrics.iter();
        metrics.position(|credited| credited.name == *metric)
    }

    fn add_arguments(&self, call: &mut Cmd) {
        call.arg(self.min_len).arg(self.metrics.len());
        for metric in &self.metrics {
            call.arg(metric.idx).arg(metric.counters.len());
            for (column, counter) in &metric.counters {
                // Lua counts from 1.
                call.arg(column + 1)
                    .arg(counter.index())
                    .arg(counter.name().as_str());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(metrics: &[(&str, usize)]) -> Arc<CreditRule> {
        let name = |text: &str| Name::new(text).expect("a name");
        let metrics = metrics.iter().map(|(metric, idx)| CreditedMetric {
            name: name(metric),
            idx: *idx,
            counters: vec![(0, UserCounter::new(3, name("likesReceived")))],
        });
        Arc::new(CreditRule {
            schema: name("v1"),
            storage: Storage::Table,
            is_moving: false,
            min_len: 5,
            user_len: 5,
            metrics: metrics.collect(),
        })
    }

    fn note(eid: &str) -> Entity {
        Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new(eid).expect("an ID"),
        }
    }

    fn credit(credits: &Credits, entity: &Entity) -> (Option<String>, Vec<(usize, i64)>) {
        let credit = &credits.groups[&entity.etype][&7].entities[&entity.eid];
        let named = credit.named.as_ref().map(Id::to_string);
        (named, credit.deltas.clone().into_iter().collect())
    }

    #[test]
    fn an_entity_is_credited_once_for_all_its_events() {
        let (mut credits, rule) = (Credits::default(), rule(&[("like", 1), ("fav", 2)]));
        let (one, two) = (note("1"), note("2"));
        let (author, other) = (note("8").eid, note("9").eid);
        credits.add(&rule, (&one, 7), None, Some((0, 1)));
        credits.add(&rule, (&one, 7), Some(&author), Some((1, 2)));
        credits.add(&rule, (&one, 7), Some(&other), Some((0, -3)));
        credits.add(&rule, (&two, 7), None, None);
        assert_eq!((credits.len(), credits.group_count()), (2, 1));
        // The first author that an event names counts.
        let expected = (Some("8".to_owned()), vec![(0, -2), (1, 2)]);
        assert_eq!(credit(&credits, &one), expected);
        assert_eq!(credit(&credits, &two), (None, Vec::new()));
    }

    #[test]
    fn sums_stay_with_their_metric_when_the_schema_is_extended() {
        let mut credits = Credits::default();
        let one = note("1");
        credits.add(&rule(&[("like", 1)]), (&one, 7), None, Some((0, 4)));
        let extended = rule(&[("fav", 6), ("like", 1)]);
        credits.add(&extended, (&one, 7), None, Some((0, 2)));
        assert_eq!(credit(&credits, &one), (None, vec![(0, 2), (1, 4)]));
        // An equal rule of a later read.
        let again = rule(&[("fav", 6), ("like", 1)]);
        credits.add(&again, (&one, 7), None, Some((1, 1)));
        assert_eq!(credit(&credits, &one), (None, vec![(0, 2), (1, 5)]));
        assert_eq!(credits.group_count(), 1);
    }
}
