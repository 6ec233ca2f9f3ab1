//! Adds increments to a batch: to a row of a table, or to an object.

use super::batch::Batch;
use super::checks::CheckItem;
use super::counter_key::ObjectLength;
use super::credit_rules::credit_rule;
use super::credits::CreditRule;
use super::rules::{Place, Rules};
use super::sums::{SumColumns, sum_columns};
use super::tables::{TableFamily, TableRef};
use crate::domain::config::{Storage, USER};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{CounterLocation, Partition};
use crate::repair::{Outcome, record_difference};
use hashbrown::HashMap;
use std::sync::Arc;

/// A counter that entities of a type have.
#[derive(Clone, Copy)]
pub struct EntityField<'a> {
    /// The schema of the entities.
    schema: &'a Name,
    /// The index of the counter.
    idx: u16,
    /// The lengths of the entities' objects. A row has as many counters as the table.
    length: ObjectLength,
    /// The family of their tables.
    family: TableFamily,
    /// Where their counters are.
    place: Place,
}

/// A batch, with the rules by which it is built.
pub struct Increments<'a> {
    /// The rules.
    pub rules: Rules<'a>,
    /// The batch.
    pub batch: &'a mut Batch,
    user_place: Place,
    /// How authors are credited, by the type of their entities.
    credit_rules: HashMap<Name, Option<Arc<CreditRule>>>,
    /// The columns of credits that feed a known counter.
    sum_columns: Option<Arc<SumColumns>>,
    /// Whether the tables that were used are usable.
    checked_tables: HashMap<TableRef, Result<(), String>>,
    /// A buffer for keys.
    key: String,
}

impl<'a> Increments<'a> {
    /// Adds to this batch.
    pub fn new(rules: Rules<'a>, batch: &'a mut Batch) -> Increments<'a> {
        let user_place = rules.place_of(USER);
        if user_place.is_moving {
            let in_rows = user_place.storage == Storage::Table;
            batch.moves.choose(USER, in_rows);
        }
        Increments {
            user_place,
            rules,
            batch,
            credit_rules: HashMap::new(),
            sum_columns: None,
            checked_tables: HashMap::new(),
            key: String::new(),
        }
    }

    /// How the authors of entities of a type are credited. `None` if the data does not register authors, or the entities have none.
    pub fn credit_rule(&mut self, etype: &Name) -> Option<Arc<CreditRule>> {
        if let Some(rule) = self.credit_rules.get(etype) {
            return rule.clone();
        }
        let rule = credit_rule(&self.rules, etype).map(Arc::new);
        self.choose_place(etype);
        self.credit_rules.insert(etype.clone(), rule.clone());
        rule
    }

    /// The commit credits the author of an entity: the author that an event names, and what the batch adds to a counter, by the index of the
    /// metric in the rule. The credit is added to the sums of a sweep, too.
    pub fn credit(
        &mut self,
        rule: &Arc<CreditRule>,
        (entity, partition): (&Entity, Partition),
        named: Option<&Id>,
        delta: Option<(usize, i64)>,
    ) {
        self.move_credited(rule, entity, partition);
        self.enable_sums(partition);
        let credits = &mut self.batch.credits;
        credits.add(rule, (entity, partition), named, delta);
    }

    /// The commit credits authors of entities of a partition, or changes sums of its users.
    pub fn enable_sums(&mut self, partition: Partition) {
        let rules = &self.rules;
        let columns = self
            .sum_columns
            .get_or_insert_with(|| Arc::new(sum_columns(rules)));
        self.batch.sums.enable(rules, columns, partition);
    }

    /// The counter with this index of the entities of a type.
    pub fn entity_field(
        &mut self,
        schema: &'a Name,
        etype: &Name,
        idx: u16,
        length: ObjectLength,
    ) -> EntityField<'a> {
        EntityField {
            schema,
            idx,
            length,
            family: self.batch.tables.family(schema, etype),
            place: self.choose_place(etype),
        }
    }

    /// Where the counters of a type are. If a migration moves them, the batch depends on it.
    fn choose_place(&mut self, etype: &Name) -> Place {
        let place = self.rules.place_of(etype.as_str());
        if place.is_moving {
            let in_rows = place.storage == Storage::Table;
            self.batch.moves.choose(etype.as_str(), in_rows);
        }
        place
    }

    /// The commit moves the counters of an entity, whose author is credited, if a migration moves the counters of its type.
    fn move_credited(&mut self, rule: &CreditRule, entity: &Entity, partition: Partition) {
        if let (true, Some(id)) = (rule.is_moving, rule.storage.row(&entity.eid)) {
            let keys = self.rules.locator.keys();
            keys.write_counters(&mut self.key, &rule.schema, entity, partition);
            let table = || keys.table(&rule.schema, &entity.etype, partition);
            self.batch.moves.add(&self.key, table, id, rule.min_len);
        }
    }

    /// Adds to a counter of an entity of a partition.
    ///
    /// # Errors
    /// Why the counter is not usable. Nothing was added.
    pub fn add_to_entity(
        &mut self,
        field: EntityField<'_>,
        entity: &Entity,
        partition: Partition,
        delta: i64,
    ) -> Result<(), String> {
        let (keys, length) = (self.rules.locator.keys(), field.length);
        if let Some(id) = field.place.storage.row(&entity.eid) {
            let family = field.family;
            let table = TableRef { family, partition };
            self.check_table(table)?;
            if field.place.is_moving {
                keys.write_counters(&mut self.key, field.schema, entity, partition);
                self.rules.check_key(&self.key)?;
                let key = || keys.table(field.schema, &entity.etype, partition);
                self.batch.moves.add(&self.key, key, id, length.min_len);
            }
            let counter = (id, field.idx);
            self.batch.tables.add(table, length.len, counter, delta);
        } else {
            keys.write_counters(&mut self.key, field.schema, entity, partition);
            self.rules.check_key(&self.key)?;
            self.batch.add(&self.key, length, field.idx.into(), delta);
        }
        Ok(())
    }

    /// Where a counter of an entity of a partition is, and what the batch adds to it so far. `None` if it cannot be checked: it is
    /// damaged, or a migration moves it.
    pub fn checked_counter(
        &mut self,
        field: EntityField<'_>,
        entity: &Entity,
        partition: Partition,
    ) -> Option<((CounterLocation, ObjectLength, u16), i64)> {
        let family = field.family;
        let table = TableRef { family, partition };
        let at = self.rules.locator.entity(field.schema, entity);
        if field.place.is_moving || self.rules.check_key(at.key()).is_err() {
            return None;
        }
        let prefix = prefix(self.batch, table, &at, field.idx);
        Some(((at, field.length, field.idx), prefix))
    }

    /// The commit may create the row of a checked counter.
    pub fn check_row(&mut self, field: EntityField<'_>, entity: &Entity, partition: Partition) {
        if let Some(id) = field.place.storage.row(&entity.eid) {
            let family = field.family;
            let table = TableRef { family, partition };
            self.batch.tables.check(table, id);
        }
    }

    /// Adds the check of a counter of a user of a partition, unless it cannot be checked now. All increments before it are in the batch or
    /// committed.
    pub fn check_user_counter(
        &mut self,
        (uid, partition): (&Id, Partition),
        idx: u16,
        item: CheckItem,
    ) {
        let at = self.rules.locator.user(uid);
        if self.user_place.is_moving || self.rules.check_key(at.key()).is_err() {
            record_difference(item.source.as_str(), 0, Outcome::Unchecked);
            return;
        }
        if self.rules.config.changes.enabled {
            self.batch.changes.add_user(uid);
        }
        let length = ObjectLength::of_users(self.rules.user_counter_count());
        let prefix = prefix(self.batch, TableRef::of_users(partition), &at, idx);
        let item = CheckItem { prefix, ..item };
        let keys = self.rules.locator.keys();
        self.batch.checks.add(keys, (at, length, idx), item);
    }

    /// Checks that the counters of a user of a partition are usable.
    ///
    /// # Errors
    /// Why they are not.
    pub fn check_user(&mut self, uid: &Id, partition: Partition) -> Result<(), String> {
        if self.rules.unusable_keys.is_empty() {
            return Ok(());
        }
        if self.user_place.storage.row(uid).is_some() {
            self.check_table(TableRef::of_users(partition))?;
            if !self.user_place.is_moving {
                return Ok(());
            }
        }
        let keys = self.rules.locator.keys();
        keys.write_user_counters(&mut self.key, uid, partition);
        self.rules.check_key(&self.key)
    }

    /// Adds to the counter with this index of a user of a partition.
    pub fn add_to_user(&mut self, uid: &Id, partition: Partition, idx: u16, delta: i64) {
        let keys = self.rules.locator.keys();
        let length = ObjectLength::of_users(self.rules.user_counter_count());
        if self.rules.config.changes.enabled {
            self.batch.changes.add_user(uid);
        }
        if let Some(id) = self.user_place.storage.row(uid) {
            if self.user_place.is_moving {
                keys.write_user_counters(&mut self.key, uid, partition);
                let table = || keys.user_table(partition);
                let moves = &mut self.batch.moves;
                moves.add(&self.key, table, id, length.min_len);
            }
            let table = TableRef::of_users(partition);
            let counter = (id, idx);
            self.batch.tables.add(table, length.len, counter, delta);
        } else {
            keys.write_user_counters(&mut self.key, uid, partition);
            self.batch.add(&self.key, length, idx.into(), delta);
        }
    }

    /// Checks that a table is usable. The result is cached, because it costs a key.
    fn check_table(&mut self, table: TableRef) -> Result<(), String> {
        if self.rules.unusable_keys.is_empty() {
            return Ok(());
        }
        let (rules, tables) = (&self.rules, &self.batch.tables);
        let check = || rules.check_key(&tables.key(rules.locator.keys(), table));
        self.checked_tables
            .entry(table)
            .or_insert_with(check)
            .clone()
    }
}

/// The counter of a metric of entities of a type, in the schema with this ID.
pub fn find_field<'a>(
    (id, etype): (Option<&Name>, &Name),
    metric: &Name,
    increments: &mut Increments<'a>,
) -> Result<EntityField<'a>, String> {
    let rules = &increments.rules;
    let id = id.ok_or_else(|| format!("there is no type of entity {etype}"))?;
    let (id, schema) = rules
        .schemas
        .get_key_value(id)
        .ok_or_else(|| format!("there is no schema {id}"))?;
    let idx = schema.index_of(metric.as_str());
    let idx = idx.and_then(|idx| u16::try_from(idx).ok());
    let idx = idx.ok_or_else(|| format!("schema {id} has no metric {metric}"))?;
    let length = ObjectLength {
        len: schema.len(),
        min_len: schema.min_len(),
    };
    Ok(increments.entity_field(id, etype, idx, length))
}

/// What a batch so far adds to a counter. All of it comes from the log of the counter's own entity.
fn prefix(batch: &Batch, table: TableRef, at: &CounterLocation, idx: u16) -> i64 {
    match at {
        CounterLocation::Row { id, .. } => batch.tables.delta(table, (*id, idx)),
        _ => {
            let update = batch.counters.get(at.key());
            let deltas = update.map_or(&[][..], |update| &update.deltas);
            let found = deltas.iter().find(|(field, _)| *field == usize::from(idx));
            found.map_or(0, |(_, delta)| *delta)
        }
    }
}
