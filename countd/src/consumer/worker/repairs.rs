//! Repairs counters of entities and users that a commit finds damaged or lost, before the events are counted.
//!
//! A table that does not exist although the partition has counted events was lost: its counters would begin at 0, and the loss would be
//! hidden. The worker records the table, so that a round rebuilds all of its rows, appends exact checks of the entities of the batch, and
//! commits the batch after that. The checks do not depend on what is counted meanwhile. A worker that is killed before the commit leaves
//! the table missing, or recorded.

use super::super::accumulator::CommitGroup;
use super::super::counter_key::UnusableKey;
use super::state::Worker;
use crate::domain::config::USER;
use crate::domain::error::StoreError;
use crate::domain::event::CheckMode;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{CounterLocation, Keys};
use crate::repair::{CheckSettings, LostTable, Planner, check_exactly, record_lost};
use std::collections::{BTreeMap, BTreeSet};

/// What the audit names as the source of corrections.
const SOURCE: &str = "rebuild";
/// How often a key is repaired for a group.
const MAX_REPAIRS: u32 = 8;
/// The number of entities that are checked at once.
const PAGE: usize = 500;

/// The entities of a group whose counters are at a key, and their schema.
fn entities_at(group: &CommitGroup, keys: Keys, key: &str) -> Option<(Name, Vec<Entity>)> {
    if let Some((schema, entity)) = keys.entity_of_counters(key) {
        return Some((schema, vec![entity]));
    }
    let rows = group.batch.tables.entities_at(keys, key);
    let credited = group.batch.credits.entities_at(keys, key);
    let schema = rows.as_ref().or(credited.as_ref())?.0.clone();
    let entities = [rows, credited].into_iter().flatten();
    let entities: BTreeSet<_> = entities
        .flat_map(|(_, entities)| entities)
        .map(|entity| (entity.etype, entity.eid))
        .collect();
    let entities = entities
        .into_iter()
        .map(|(etype, eid)| Entity { etype, eid });
    Some((schema, entities.collect()))
}

/// The users of a group whose counters are at a key.
fn users_at(group: &CommitGroup, keys: Keys, key: &str) -> Option<BTreeSet<Id>> {
    match keys.user_of_counters(key) {
        Some(uid) => Some(BTreeSet::from([uid])),
        None => group.batch.tables.users_at(keys, key),
    }
}

impl Worker {
    /// The commit of a group is rejected if a table of counters that partitions have counted does not exist.
    pub(super) fn require_tables(&self, group: &mut CommitGroup) {
        let keys = self.locator.keys();
        let CommitGroup {
            batch,
            repaired_keys,
            ..
        } = group;
        let positions = &batch.positions;
        batch.tables.require(|schema, etype, partition| {
            let has_counted = positions
                .get(&partition)
                .is_some_and(|of| of.from > 1 || of.topic.is_some_and(|topic| topic.from > 0));
            has_counted
                && self.repaired_types.contains(etype)
                && !repaired_keys.contains_key(&keys.table(schema, etype, partition))
        });
    }

    /// Repairs the lost tables that a group requires. Its entries are read again.
    ///
    /// # Errors
    /// The store is unavailable.
    pub(super) async fn repair_missing(
        &mut self,
        mut group: CommitGroup,
        tables: Vec<String>,
    ) -> Result<(), StoreError> {
        let mut entities = Vec::new();
        let mut lost = Vec::new();
        for key in tables {
            if let Some((schema, of_table)) = entities_at(&group, self.locator.keys(), &key) {
                let first = of_table.first();
                lost.extend(first.map(|entity| LostTable::of(&self.store, &schema, entity)));
                entities.extend(of_table);
            }
            group.repaired_keys.insert(key, 1);
        }
        record_lost(&self.store, &lost).await?;
        self.check_exactly(&entities).await?;
        self.accumulator.retry(group);
        Ok(())
    }

    /// Repairs counters at unusable keys. A key that is damaged again and again is repaired a few
    /// times. The group is read again without the keys that are not
    /// repaired.
    ///
    /// # Errors
    /// The store is unavailable.
    pub(super) async fn repair_unusable(
        &mut self,
        mut group: CommitGroup,
        keys: Vec<(String, UnusableKey)>,
    ) -> Result<(), StoreError> {
        let mut unusable = Vec::new();
        // Several parts of a commit may use a key.
        let keys: BTreeMap<String, UnusableKey> = keys.into_iter().collect();
        for (key, cause) in keys {
            let layout = self.locator.keys();
            let found = entities_at(&group, layout, &key);
            let found = found.filter(|(_, entities)| {
                let first = entities.first();
                first.is_some_and(|entity| self.repaired_types.contains(&entity.etype))
            });
            let users = users_at(&group, layout, &key).filter(|_| self.repairs_users());
            let repairs = group.repaired_keys.entry(key.clone()).or_default();
            if *repairs >= MAX_REPAIRS {
                unusable.push((key, cause));
                continue;
            }
            match (found, users) {
                (Some((schema, entities)), _) => {
                    *repairs += 1;
                    self.repair_key(&schema, &entities).await?;
                }
                (None, Some(users)) => {
                    *repairs += 1;
                    // The first one deletes a table of another type. The others have lost their rows.
                    self.rebuilder.users(users).await;
                }
                (None, None) => unusable.push((key, cause)),
            }
        }
        if unusable.is_empty() {
            self.accumulator.retry(group);
            return Ok(());
        }
        self.retry_without(group, unusable, Vec::new())
    }

    /// Whether damaged counters of users are repaired.
    fn repairs_users(&self) -> bool {
        let mut types = self.repaired_types.iter();
        types.any(|etype| etype.as_str() == USER)
    }

    /// Rebuilds the counters of entities that are at one damaged key.
    async fn repair_key(&self, schema: &Name, entities: &[Entity]) -> Result<(), StoreError> {
        let Some(first) = entities.first() else {
            return Ok(());
        };
        if let CounterLocation::Row { .. } = self.locator.entity(schema, first) {
            // A rebuild deletes the table.
            record_lost(&self.store, [&LostTable::of(&self.store, schema, first)]).await?;
        }
        self.rebuilder.entity(first, "-").await;
        self.check_exactly(entities).await
    }

    /// Compares counters of entities with their facts, and corrects every difference. Counters that the consumer changes are corrected
    /// when it reaches the entries that this appends.
    async fn check_exactly(&self, entities: &[Entity]) -> Result<(), StoreError> {
        let source = Name::new(SOURCE)
            .map_err(|error| StoreError::Unexpected(format!("{SOURCE}: {error}")))?;
        let settings = CheckSettings {
            mode: CheckMode::Exact,
            source,
            round: 0,
            report: None,
        };
        let mut planner = Planner::new(&self.catalog, &self.store);
        for entities in entities.chunks(PAGE) {
            let context = (&self.store, &self.catalog);
            check_exactly(context, &mut planner, &settings, entities).await?;
        }
        Ok(())
    }
}
