//! Why a migration of a schema stopped.

use crate::domain::error::{ConnectError, SchemaError, StoreError};
use crate::domain::ids::Name;
use crate::maintenance::reconcile::ReconcileError;
use crate::maintenance::storage::MigrationError;
use redis::RedisError;

/// Why a migration of a schema stopped. The stage that it has reached stays; the next run continues.
#[derive(Debug, thiserror::Error)]
pub enum SchemaMigrationError {
    /// The schemas, the data or the stage do not allow it.
    #[error("{0}")]
    Refused(String),
    /// The stage was changed by another run.
    #[error(
        "another run has changed the stage of the migration of schema {0}; run the command again"
    )]
    Changed(Name),
    /// Counters differ from what they count.
    #[error(
        "{differing} of {compared} compared counters differ from what they count, so reads do not switch: run `countd reconcile --all --exact`, and then this command again"
    )]
    Differences {
        /// The number of counters that differ.
        differing: u64,
        /// The number of counters that were compared.
        compared: u64,
    },
    /// Counters of the sample could not be compared.
    #[error(
        "{0} counters could not be compared, so reads do not switch: their keys have a wrong type, or processes have other settings; `countd reconcile` lists them by metric"
    )]
    NotCompared(u64),
    /// Counts by day of a metric are not complete, so its counters cannot be compared.
    #[error(
        "counts by day of {0} are not complete, so its counters cannot be compared: consumers, all with the same settings, are still recording what it counted before; run this command again later"
    )]
    DaysIncomplete(Name),
    /// A process is too old, another migration is running, or the lock was lost.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// Counters could not be compared.
    #[error(transparent)]
    Reconcile(#[from] ReconcileError),
    /// A schema cannot be read or extended.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Redis failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The layout cannot be read.
    #[error(transparent)]
    Layout(#[from] ConnectError),
}

impl From<RedisError> for SchemaMigrationError {
    fn from(error: RedisError) -> SchemaMigrationError {
        SchemaMigrationError::Store(error.into())
    }
}

impl SchemaMigrationError {
    /// Whether a retry of the same step may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            SchemaMigrationError::Store(error)
            | SchemaMigrationError::Schema(SchemaError::Store(error)) => {
                matches!(error, StoreError::Unavailable(_))
            }
            SchemaMigrationError::Layout(error) => error.is_transient(),
            _ => false,
        }
    }
}
