//! Why a rebuild stopped.

use crate::domain::error::{ConnectError, Problem, SchemaError, StoreError};
use crate::domain::ids::Name;
use crate::log::archive::ArchiveError;
use crate::log::kafka::TopicError;
use crate::maintenance::storage::MigrationError;
use redis::RedisError;

/// Why a rebuild or a baseline stopped. A rebuild continues if the command is run again.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// The archive cannot be read, or is incomplete.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The topic cannot be read, or is another one.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// Redis failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The layout of the data cannot be read.
    #[error(transparent)]
    Layout(#[from] ConnectError),
    /// A schema cannot be read.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// An entry was rejected.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// It must not run now.
    #[error("{0}")]
    Refused(String),
    /// A migration moves the counters of a type.
    #[error("counters of {0} are moved: finish `countd storage migrate {0}` first")]
    Moving(Name),
    /// Entries that are needed may have been trimmed.
    #[error("the hold on the logs has expired: run the command again")]
    HoldLost,
    /// The shadows are not those that this process knows.
    #[error(
        "the rebuild has advanced elsewhere, or Redis has lost its last writes: run the command again"
    )]
    Elsewhere,
    /// Other changes do not let it finish.
    #[error("counters of partition {0} change too often without events: run the command again")]
    Busy(u16),
}

impl From<RedisError> for RebuildError {
    fn from(error: RedisError) -> RebuildError {
        RebuildError::Store(error.into())
    }
}

impl From<MigrationError> for RebuildError {
    fn from(error: MigrationError) -> RebuildError {
        match error {
            MigrationError::Store(error) => RebuildError::Store(error),
            other => RebuildError::Refused(other.to_string()),
        }
    }
}

pub(super) fn panicked(error: tokio::task::JoinError) -> RebuildError {
    RebuildError::Store(StoreError::Unexpected(error.to_string()))
}

pub(super) fn unexpected(error: impl std::fmt::Display) -> RebuildError {
    StoreError::Unexpected(format!("a rebuild: {error}")).into()
}
