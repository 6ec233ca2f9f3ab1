//! Where the counters of an entity or a user are.

/// Where the counters of an entity or a user are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CounterLocation {
    /// A row of a table of the module.
    Row {
        /// The key of the table.
        table: String,
        /// The id of the row.
        id: u64,
    },
    /// An object of its own: the module's, or a String on data without the module.
    Object {
        /// Its key.
        key: String,
    },
    /// An object or a row, while a migration moves counters from objects to rows. Scripts decide by the phase of the slot.
    Either(Box<MovingCounters>),
}

/// Counters of a type that a migration moves from objects to rows of tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MovingCounters {
    /// The key of the object.
    pub object: String,
    /// The key of the table.
    pub table: String,
    /// The id of the row.
    pub id: u64,
    /// The key of the Hash with the phases of the slot.
    pub phases: String,
    /// The field of the type in that Hash.
    pub field: String,
}

/// How the counters of a type are stored, as the stored layout records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoragePhase {
    /// As an object each.
    Object,
    /// As objects or as rows: a migration moves them.
    Moving,
    /// As rows of tables. IDs that are not unsigned 64-bit integers have objects.
    Table,
}

impl StoragePhase {
    /// Its name in the stored layout.
    pub fn name(self) -> &'static str {
        match self {
            StoragePhase::Object => "object",
            StoragePhase::Moving => "moving",
            StoragePhase::Table => "table",
        }
    }

    /// The phase with this name.
    pub fn from_name(name: &str) -> Option<StoragePhase> {
        [
            StoragePhase::Object,
            StoragePhase::Moving,
            StoragePhase::Table,
        ]
        .into_iter()
        .find(|phase| phase.name() == name)
    }
}

impl CounterLocation {
    /// The key of the table or the object. Counters that may be in either have the key of the object.
    pub fn key(&self) -> &str {
        match self {
            CounterLocation::Row { table, .. } => table,
            CounterLocation::Object { key } => key,
            CounterLocation::Either(moving) => &moving.object,
        }
    }

    /// The id of the row; `None` for an object.
    pub fn row(&self) -> Option<u64> {
        match self {
            CounterLocation::Row { id, .. } => Some(*id),
            CounterLocation::Object { .. } => None,
            CounterLocation::Either(moving) => Some(moving.id),
        }
    }

    /// The counters, if a migration moves them.
    pub fn moving(&self) -> Option<&MovingCounters> {
        match self {
            CounterLocation::Either(moving) => Some(moving),
            CounterLocation::Row { .. } | CounterLocation::Object { .. } => None,
        }
    }
}
