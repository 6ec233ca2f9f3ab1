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
}

impl CounterLocation {
    /// The key of the table or the object.
    pub fn key(&self) -> &str {
        match self {
            CounterLocation::Row { table, .. } => table,
            CounterLocation::Object { key } => key,
        }
    }

    /// The id of the row; `None` for an object.
    pub fn row(&self) -> Option<u64> {
        match self {
            CounterLocation::Row { id, .. } => Some(*id),
            CounterLocation::Object { .. } => None,
        }
    }
}
