//! Why the filters are not known to be complete.

use crate::domain::error::{ConnectError, StoreError};
use crate::domain::keys::Partition;
use redis::RedisError;

/// Why the filters are not known to be complete.
#[derive(Debug, thiserror::Error)]
pub(super) enum FeedError {
    /// Facts may move between keys while the filters are built.
    #[error("an entity is being split or merged, or the layout has changed")]
    Layout,
    /// The stored layout cannot be read.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The address of a node is invalid.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Redis is unavailable, or rejects a command.
    #[error("Redis: {0}")]
    Redis(#[from] RedisError),
    /// The connection was lost, or all data was deleted.
    #[error("notices of changes may have been lost")]
    Lost,
    /// A node that is not tracked may have been written, or keys may move while the filters are built.
    #[error("the cluster: {0}")]
    Cluster(&'static str),
    /// The log was trimmed, reset, renumbered or changed by another client.
    #[error("the log of partition {0} is not continued where it was read last")]
    Irregular(Partition),
    /// There are more facts than configured.
    #[error("there are more than {0} facts (prefilter.max_facts)")]
    TooMany(usize),
}
