//! Why a restore stops.

use crate::domain::error::{ConnectError, Problem, StoreError};
use crate::domain::keys::Partition;
use crate::log::archive::ArchiveError;

/// Why a restore stopped.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The archive cannot be read, or is incomplete.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Redis failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The layout of the data cannot be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// An entry cannot be replayed.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// Processes use the data.
    #[error("{0} processes of countd use this data: stop them first")]
    InUse(usize),
    /// Entries that the restore has appended are not counted.
    #[error("{0} entries are not counted or not forwarded: see the log, and run the command again")]
    Stalled(u64),
    /// A log has no usable last offset.
    #[error("the log of partition {0} is damaged: {1}")]
    Log(Partition, String),
}

impl From<redis::RedisError> for RestoreError {
    fn from(error: redis::RedisError) -> RestoreError {
        RestoreError::Store(error.into())
    }
}

impl RestoreError {
    /// A task of the restore has panicked.
    pub(super) fn panicked(error: tokio::task::JoinError) -> RestoreError {
        RestoreError::Store(StoreError::Unexpected(error.to_string()))
    }
}
