//! The increments of a batch that go to rows of tables.

use crate::domain::ids::Name;
use crate::domain::keys::{Keys, Partition};
use hashbrown::{HashMap, HashSet};

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

    /// The increments of each table, ordered by table.
    pub fn updates(&self, keys: Keys) -> Vec<TableUpdate> {
        let deltas = self.deltas.iter();
        let mut sorted: Vec<_> = deltas.map(|(counter, sum)| (*counter, *sum)).collect();
        sorted.sort_unstable_by_key(|(counter, _)| *counter);
        let of_tables = sorted.chunk_by(|((one, ..), _), ((other, ..), _)| one == other);
        let updates = of_tables.filter_map(|deltas| {
            let ((table, ..), _) = *deltas.first()?;
            Some(TableUpdate {
                key: self.key(keys, table),
                len: self.families.get(table.family.0 as usize)?.len,
                deltas: deltas
                    .iter()
                    .map(|((_, id, idx), sum)| (*id, *idx, *sum))
                    .collect(),
            })
        });
        updates.collect()
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
