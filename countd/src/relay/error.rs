//! Errors of the relay.

use crate::database::DatabaseError;
use crate::domain::error::Problem;

/// Why the relay stops, or why a batch failed. A failed batch is read again.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The setting is missing.
    #[error("relay.url is not set")]
    NoDatabase,
    /// The tables cannot be used. A retry cannot succeed.
    #[error("the outbox table cannot be used: {error}")]
    Table {
        /// The table: the outbox, or that of dead rows.
        table: String,
        /// The refusal of the database.
        error: DatabaseError,
    },
    /// The database is unavailable, rejected a statement, or did not reply within `relay.timeout_ms`.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The events could not be validated or appended.
    #[error("the log failed: {0}")]
    Log(#[from] Problem),
    /// The rows were not all changed, so the column is not a unique integer, or a trigger interferes. Nothing was committed.
    #[error(
        "{changed} rows were changed instead of {expected}: is relay.key unique, and does no trigger keep the rows?"
    )]
    Unsettled {
        /// The number of rows that the statement changed.
        changed: u64,
        /// The number of rows of the batch.
        expected: u64,
    },
    /// The batch before failed, so this one must not be appended now.
    #[error("the batch before failed")]
    Before,
}
