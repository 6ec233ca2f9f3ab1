//! The increments of a batch that go to rows of tables.

use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{Keys, Partition};
use hashbrown::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};

/// The tables with the same entity type and schema, one for each partition; or those of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableFamily(u32);

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableRef {
    /// Its family.
    pub family: TableFamily,
    /// Its partition.
    pub partition: Partition,
}

impl TableRef {
    /// The table of the users of a partition.
    pub fn of_users(partition: Partition) -> TableRef {
        let family = TableFamily(0);
        TableRef { family, partition }
    }
}

/// The increments of one table.
#[derive(Debug, PartialEq, Eq)]
pub struct TableUpdate {
    /// The key of the table.
    pub key: String,
    /// The number of counters per row to which the commit extends the table.
    pub len: usize,
    /// Whether the commit is rejected if the table does not exist.
    pub is_required: bool,
    /// The row, the idx and the increment of each counter, in ascending order: the commit then walks the pages of the table in order.
    pub deltas: Vec<(u64, u16, i64)>,
}

/// The tables of an entity type, or of users, in a batch.
#[derive(Debug)]
struct Family {
    /// The schema and the entity type, except for users.
    names: Option<(Name, Name)>,
    /// The number of counters per row.
    len: usize,
}

/// The increments of a batch that go to rows of tables.
#[derive(Debug)]
pub struct TableUpdates {
    families: Vec<Family>,
    tables: HashSet<TableRef>,
    /// The rows that checks correct, by table.
    checked: BTreeMap<TableRef, BTreeSet<u64>>,
    /// The tables without which the commit is rejected.
    required: HashSet<TableRef>,
    /// The increments by table, row and idx. A lookup here is most of what an event costs, so it is the only one.
    deltas: HashMap<(TableRef, u64, u16), i64>,
}

impl Default for TableUpdates {
    fn default() -> TableUpdates {
        let users = Family {
            names: None,
            len: 0,
        };
        TableUpdates {
            families: vec![users],
            tables: HashSet::new(),
            checked: BTreeMap::new(),
            required: HashSet::new(),
            deltas: HashMap::new(),
        }
    }
}

impl TableUpdates {
    /// The family of the tables of an entity type, which has the same number for the whole batch.
    pub fn family(&mut self, schema: &Name, etype: &Name) -> TableFamily {
        let families = &mut self.families;
        let is_it = |family: &Family| match &family.names {
            Some((s, e)) => s == schema && e == etype,
            None => false,
        };
        let at = families.iter().position(is_it).unwrap_or_else(|| {
            families.push(Family {
                names: Some((schema.clone(), etype.clone())),
                len: 0,
            });
            families.len() - 1
        });
        TableFamily(at as u32)
    }

    /// The key of a table.
    pub fn key(&self, keys: Keys, table: TableRef) -> String {
        let family = self.families.get(table.family.0 as usize);
        match family.and_then(|family| family.names.as_ref()) {
            None => keys.user_table(table.partition),
            Some((schema, etype)) => keys.table(schema, etype, table.partition),
        }
    }

    /// Adds to a counter of a row. The commit extends the table to `len` counters per row.
    pub fn add(&mut self, table: TableRef, len: usize, (id, idx): (u64, u16), delta: i64) {
        // The schema can be extended while the batch accumulates.
        if let Some(family) = self.families.get_mut(table.family.0 as usize) {
            family.len = family.len.max(len);
        }
        let sum = self.deltas.entry((table, id, idx)).or_insert_with(|| {
            self.tables.insert(table);
            0
        });
        *sum = sum.saturating_add(delta);
    }

    /// A check may correct a counter of a row: if the table was lost, the correction would create it with that row alone.
    pub fn check(&mut self, table: TableRef, id: u64) {
        self.checked.entry(table).or_default().insert(id);
    }

    /// What is added to a counter of a row.
    pub fn delta(&self, table: TableRef, (id, idx): (u64, u16)) -> i64 {
        self.deltas.get(&(table, id, idx)).copied().unwrap_or(0)
    }

    /// The increments of each table, ordered by table. Required tables without increments come last.
    pub fn updates(&self, keys: Keys) -> Vec<TableUpdate> {
        let deltas = self.deltas.iter();
        let mut sorted: Vec<_> = deltas.map(|(counter, sum)| (*counter, *sum)).collect();
        sorted.sort_unstable_by_key(|(counter, _)| *counter);
        let of_tables = sorted.chunk_by(|((one, ..), _), ((other, ..), _)| one == other);
        let of_tables = of_tables.filter_map(|deltas| {
            let ((table, ..), _) = *deltas.first()?;
            let deltas = deltas.iter();
            let deltas = deltas.map(|((_, id, idx), sum)| (*id, *idx, *sum));
            Some((table, deltas.collect()))
        });
        let is_without = |table: &&TableRef| !self.tables.contains(*table);
        let only_checked = self.checked.keys().filter(is_without);
        let only_checked = only_checked.filter(|table| self.required.contains(*table));
        let all = of_tables.chain(only_checked.map(|table| (*table, Vec::new())));
        let updates = all.filter_map(|(table, deltas)| {
            Some(TableUpdate {
                key: self.key(keys, table),
                len: self.families.get(table.family.0 as usize)?.len,
                is_required: self.required.contains(&table),
                deltas,
            })
        });
        updates.collect()
    }

    /// The commit is rejected if one of these tables, which it may change, does not exist. The function gets schema, entity type and
    /// partition of each table of entities.
    pub fn require(&mut self, is_required: impl Fn(&Name, &Name, Partition) -> bool) {
        let families = &self.families;
        let changed = self.tables.iter().chain(self.checked.keys());
        let tables = changed.copied().filter(|table| {
            let family = families.get(table.family.0 as usize);
            let names = family.and_then(|family| family.names.as_ref());
            names.is_some_and(|(schema, etype)| is_required(schema, etype, table.partition))
        });
        self.required = tables.collect();
    }

    /// The entities whose rows in the table at this key the commit changes or checks, and their schema.
    pub fn entities_at(&self, keys: Keys, key: &str) -> Option<(&Name, Vec<Entity>)> {
        let mut tables = self.tables.iter().chain(self.checked.keys());
        let table = tables.find(|table| self.key(keys, **table) == key)?;
        let (schema, etype) = self.families.get(table.family.0 as usize)?.names.as_ref()?;
        let rows = self.deltas.keys().filter(|(of, ..)| of == table);
        let rows = rows.map(|(_, row, _)| *row);
        let checked = self.checked.get(table).into_iter().flatten();
        let rows: HashSet<u64> = rows.chain(checked.copied()).collect();
        let ids = rows.iter().filter_map(|row| Id::new(row.to_string()).ok());
        let entities = ids.map(|eid| Entity {
            etype: etype.clone(),
            eid,
        });
        Some((schema, entities.collect()))
    }

    /// The users that have rows in the table at this key; `None` if it is not a table of users.
    pub fn users_at(&self, keys: Keys, key: &str) -> Option<BTreeSet<Id>> {
        let mut tables = self.tables.iter();
        let table = tables
            .find(|of| **of == TableRef::of_users(of.partition) && self.key(keys, **of) == key)?;
        let rows = self.deltas.keys().filter(|(of, ..)| of == table);
        let users = rows.filter_map(|(_, row, _)| Id::new(row.to_string()).ok());
        Some(users.collect())
    }

    /// The number of tables.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// The number of counters that change.
    pub fn increment_count(&self) -> usize {
        self.deltas.len()
    }
}
