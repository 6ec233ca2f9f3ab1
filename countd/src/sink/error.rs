//! Errors of the sink.

use crate::database::DatabaseError;
use crate::domain::error::{ConnectError, Problem, StoreError};
use crate::log::kafka::TopicError;

/// What a table of the sink lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLack {
    /// The table itself.
    Table,
    /// A column.
    Column(&'static str),
    /// The type of a column.
    Type(&'static str),
    /// A unique index on these columns together.
    Unique(&'static [&'static str]),
    /// The user's permission to write.
    Permission,
}

/// Why the sink stops, or why a transaction failed. A failed transaction changes nothing, and is repeated.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The setting is missing.
    #[error("sink.url is not set")]
    NoDatabase,
    /// A table cannot be used. A retry cannot succeed.
    #[error("the table {table} {problem}")]
    Table {
        /// The table.
        table: String,
        /// What is wrong with it.
        problem: String,
        /// What it lacks.
        lack: TableLack,
    },
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
    /// The topic cannot be read.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// An entity is split: the tables have no rows for shards.
    #[error("{0} is split: run countd hot merge {0} first")]
    Split(String),
    /// Another process has taken over.
    #[error("another process writes to the tables")]
    Replaced,
}

impl From<redis::RedisError> for SinkError {
    fn from(error: redis::RedisError) -> SinkError {
        SinkError::Store(error.into())
    }
}
