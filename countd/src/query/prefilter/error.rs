//! Why the filters are not known to be complete.

use crate::domain::keys::Partition;
use redis::RedisError;

/// Why the filters are not known to be complete.
#[derive(Debug, thiserror::Error)]
pub(super) enum FeedError {
    /// An entity is split.
    #[error("an entity is split")]
    Split,
    /// Redis is unavailable, or rejects a command.
    #[error("Redis: {0}")]
    Redis(#[from] RedisError),
    /// The connection was lost, or all data was deleted.
    #[error("notices of changes may have been lost")]
    Lost,
    /// The log was trimmed, reset, renumbered or changed by another client.
    #[error("the log of partition {0} is not continued where it was read last")]
    Irregular(Partition),
    /// There are more facts than configured.
    #[error("there are more than {0} facts (prefilter.max_facts)")]
    TooMany(usize),
}
