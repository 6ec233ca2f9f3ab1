//! Why a migration stopped.

use crate::domain::error::{ConnectError, SchemaError, StoreError};
use redis::RedisError;

/// Why a migration stopped. What was moved stays moved; the next run continues.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The data or the processes do not allow it.
    #[error("{0}")]
    Refused(String),
    /// Another run has taken over.
    #[error("another migration has taken the lock, or the lock expired; run the command again")]
    LockLost,
    /// Objects cannot be moved.
    #[error(
        "{0} objects cannot be moved: repair or delete them and run the command again, or leave them as they are with --skip-damaged"
    )]
    Damaged(u64),
    /// Redis failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The layout cannot be read.
    #[error(transparent)]
    Layout(#[from] ConnectError),
    /// A schema cannot be read.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

impl From<RedisError> for MigrationError {
    fn from(error: RedisError) -> MigrationError {
        MigrationError::Store(error.into())
    }
}

impl MigrationError {
    /// Whether a retry of the same step may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            MigrationError::Store(error) | MigrationError::Schema(SchemaError::Store(error)) => {
                matches!(error, StoreError::Unavailable(_))
            }
            MigrationError::Layout(error) => error.is_transient(),
            _ => false,
        }
    }
}
