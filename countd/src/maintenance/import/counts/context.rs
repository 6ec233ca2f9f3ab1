//! An import of counts, and its records.

use super::super::record::Origin;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::{CounterLocation, Partition};
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use crate::storage::moves::TypesInRows;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// What happens to existing values of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The counts are added.
    Add,
    /// The counts replace them.
    Set,
}

impl Mode {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Add => "add",
            Mode::Set => "set",
        }
    }
}

/// How it is known what was applied before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// By the number of a chunk, which is the same in each run.
    Chunks,
    /// By the ID of the entity.
    Entities,
    /// By the ID of the entity, for each metric.
    Counters,
}

/// The scope of ids that do not depend on a metric.
pub const ALL: &str = "all";

/// Applies and verifies counts.
pub struct CountImport {
    pub(super) store: Store,
    pub(super) catalog: Catalog,
    pub(super) name: Name,
    pub(super) mode: Mode,
    pub(super) tracking: Tracking,
    /// The types that a migration moves and whose counters are in rows, by partition.
    pub(super) in_rows: Mutex<BTreeMap<Partition, TypesInRows>>,
}

impl CountImport {
    /// Applies counts as the import `name`.
    pub fn new(catalog: Catalog, store: Store, name: &Name, how: (Mode, Tracking)) -> CountImport {
        CountImport {
            catalog,
            store,
            name: name.clone(),
            mode: how.0,
            tracking: how.1,
            in_rows: Mutex::default(),
        }
    }
}

/// A record with the location of its counters.
pub(super) struct Located<'a> {
    pub origin: &'a Origin,
    pub entity: &'a Entity,
    pub at: CounterLocation,
    pub len: usize,
    pub min_len: usize,
    /// Index, name and value of each counter.
    pub values: Vec<(usize, Name, u64)>,
}
