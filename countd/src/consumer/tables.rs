//! The increments of a batch that go to rows of tables.

use crate::domain::ids::Name;
use crate::domain::keys::{Keys, Partition};
use hashbrown::HashMap;

/// The tables with the same entity type and schema, one for each partition; or those of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableFamily(u32);

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// The increments by row and idx.
    deltas: HashMap<(u64, u16), i64>,
}

impl TableUpdate {
    /// The row, the idx and the increment of each counter, in ascending order: the commit then walks the pages of the table in order.
    pub fn sorted_deltas(&self) -> Vec<(u64, u16, i64)> {
        let deltas = self.deltas.iter();
        let mut sorted: Vec<_> = deltas.map(|((id, idx), sum)| (*id, *idx, *sum)).collect();
        sorted.sort_unstable();
        sorted
    }
}

/// The increments of a batch that go to rows of tables.
#[derive(Debug, Default)]
pub struct TableUpdates {
    /// The schema and the entity type of each family, except the users' one.
    families: Vec<(Name, Name)>,
    tables: HashMap<TableRef, TableUpdate>,
    increments: usize,
}

impl TableUpdates {
    /// The family of the tables of an entity type, which has the same number for the whole batch.
    pub fn family(&mut self, schema: &Name, etype: &Name) -> TableFamily {
        let families = &mut self.families;
        let known = families.iter().position(|(s, e)| s == schema && e == etype);
        let at = known.unwrap_or_else(|| {
            families.push((schema.clone(), etype.clone()));
            families.len() - 1
        });
        TableFamily(at as u32 + 1)
    }

    /// The key of a table.
    pub fn key(&self, keys: Keys, table: TableRef) -> String {
        key_of(&self.families, keys, table)
    }

    /// Adds to a counter of a row. The commit extends the table to `len` counters per row.
    pub fn add(
        &mut self,
        keys: Keys,
        table: TableRef,
        len: usize,
        (id, idx): (u64, u16),
        delta: i64,
    ) {
        let update = self.tables.entry(table).or_insert_with(|| TableUpdate {
            key: key_of(&self.families, keys, table),
            len,
            deltas: HashMap::new(),
        });
        // The schema can be extended while the batch accumulates.
        update.len = update.len.max(len);
        let sum = update.deltas.entry((id, idx)).or_insert_with(|| {
            self.increments += 1;
            0
        });
        *sum = sum.saturating_add(delta);
    }

    /// What is added to a counter of a row.
    pub fn delta(&self, table: TableRef, counter: (u64, u16)) -> i64 {
        let update = self.tables.get(&table);
        let delta = update.and_then(|update| update.deltas.get(&counter));
        delta.copied().unwrap_or(0)
    }

    /// The tables.
    pub fn iter(&self) -> impl Iterator<Item = &TableUpdate> {
        self.tables.values()
    }

    /// The number of tables.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// The number of counters that change.
    pub fn increment_count(&self) -> usize {
        self.increments
    }
}

fn key_of(families: &[(Name, Name)], keys: Keys, table: TableRef) -> String {
    let TableRef { family, partition } = table;
    match family.0.checked_sub(1) {
        None => keys.user_table(partition),
        Some(at) => {
            let (schema, etype) = &families[at as usize];
            keys.table(schema, etype, partition)
        }
    }
}
