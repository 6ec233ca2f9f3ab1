//! Errors of the sink.

use crate::database::DatabaseError;
use crate::domain::error::{ConnectError, Problem, StoreError};

/// Why the sink stops, or why a transaction failed. A failed transaction changes nothing, and is repeated.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The setting is missing.
    #[error("sink.url is not set")]
    NoDatabase,
    /// A table cannot be used. A retry cannot succeed.
    #[error("{0}")]
    Table(String),
    /// The database is unavailable, rejected a statement, or did not reply within `sink.timeout_ms`.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Redis is unavailable, or its data is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A schema cannot be read.
    #[error("the counters cannot be read: {0}")]
    Counters(#[from] Problem),
    /// The layout cannot be read.
    #[error(transparent)]
    Layout(#[from] ConnectError),
    /// The layout was not compared for too long, so it is unknown where counters are; or a restore is under way.
    #[error("the data cannot be read now: its layout is not known, or it is being restored")]
    UnknownLayout,
    /// Another process has taken over.
    #[error("another process writes to the tables")]
    Replaced,
}

impl From<redis::RedisError> for SinkError {
    fn from(error: redis::RedisError) -> SinkError {
        SinkError::Store(error.into())
    }
}
