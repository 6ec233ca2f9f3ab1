//! Errors of Redis, classified by how a caller can react.

use crate::domain::ids::Name;
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why a Redis operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A retry may succeed: the server is unreachable, starting, out of memory or read-only. If the connection broke, the command
    /// may have been executed.
    #[error("Redis is not available: {0}")]
    Unavailable(RedisError),
    /// The commands were executed, but are not as safe as `redis.ack` requires.
    #[error(
        "executed, but not acknowledged as redis.ack requires ({0}): it may be lost; retry it, with the same idempotency key"
    )]
    NotAcknowledged(String),
    /// A key holds a value of another type, or an object with too few counters.
    #[error("a key holds the wrong kind of value: {0}")]
    WrongType(RedisError),
    /// The server rejected the command; a retry cannot succeed.
    #[error("Redis rejected the command: {0}")]
    Rejected(RedisError),
    /// The reply has an unexpected form.
    #[error("unexpected reply: {0}")]
    Unexpected(String),
    /// Processes or uncounted events change counters in other steps than this process, so that no comparison is exact.
    #[error("counters cannot be compared: processes or uncounted events have other settings")]
    OtherSettings,
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> StoreError {
        let error = first_of_pipeline(error);
        if error.code() == Some(NOT_ACKNOWLEDGED) {
            let reason = error.detail().unwrap_or_default().trim();
            return StoreError::NotAcknowledged(reason.to_owned());
        }
        // A log with a foreign last ID is repaired by the next reader or writer, or by an operator.
        if is_transient(&error) || rejected_by_foreign_last_id(&error) || needs_operator(&error) {
            StoreError::Unavailable(error)
        } else if matches!(error.code(), Some("WRONGTYPE" | "TOOSHORT")) {
            StoreError::WrongType(error)
        } else {
            StoreError::Rejected(error)
        }
    }
}

impl StoreError {
    /// Whether the server replied with an error, so the command was certainly not executed.
    pub fn is_server_reply(&self) -> bool {
        match self {
            StoreError::Unavailable(e) | StoreError::WrongType(e) | StoreError::Rejected(e) => {
                e.code().is_some()
            }
            StoreError::NotAcknowledged(_)
            | StoreError::Unexpected(_)
            | StoreError::OtherSettings => false,
        }
    }
}

/// The first error of a pipeline: its own error has only codes that the client library knows, so neither `OOM` nor `WRONGTYPE`.
fn first_of_pipeline(error: RedisError) -> RedisError {
    if error.code().is_some() {
        return error;
    }
    let errors = error.clone().into_server_errors();
    let first = errors.as_deref().and_then(<[_]>::first);
    first.map_or(error, |(_, first)| first.clone().into())
}

/// Whether the server refused to change a counter that a rebuild may correct: it is lost, or its key is damaged. Nothing has changed.
pub fn is_lost_counter(error: &RedisError) -> bool {
    matches!(error.code(), Some("NOCOUNTER" | "WRONGTYPE" | "TOOSHORT"))
}

/// The code of [`not_acknowledged`] errors.
const NOT_ACKNOWLEDGED: &str = "NOTACKNOWLEDGED";

/// The error of commands that were executed, but are not as safe as `redis.ack` requires.
pub fn not_acknowledged(reason: &str) -> RedisError {
    redis::make_extension_error(NOT_ACKNOWLEDGED.to_owned(), Some(reason.to_owned()))
}

/// Error codes of a server that is temporarily unable to serve.
const TRANSIENT: [&str; 14] = [
    "LOADING",
    "OOM",
    "READONLY",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "BUSY",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "MOVED",
    "ASK",
    "NOSCRIPT",
    // The counter of a fact is being rebuilt by another process.
    "NOCOUNTER",
    // The process is about to follow an adoption (adoption_fence.lua).
    "OLDLAYOUT",
];

fn is_transient(error: &RedisError) -> bool {
    match error.code() {
        Some(code) => TRANSIENT.contains(&code),
        None => {
            error.is_io_error()
                || error.is_timeout()
                || error.is_connection_dropped()
                || error.is_connection_refusal()
        }
    }
}

/// Whether the server does not have the script in its cache.
pub(crate) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Why countd cannot use a Redis server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL is invalid, or the server is unreachable.
    #[error("cannot connect to Redis: {0}")]
    Redis(#[from] RedisError),
    /// The data was created with the module, and the module is not loaded.
    #[error(
        "the server at {0} has not loaded the module `countint`, and this data was created with it"
    )]
    NoModule(String),
    /// The facts of a metric were created with another fact store.
    #[error(
        "{setting} is {configured}, but this data was created with {found}: existing facts would not be found"
    )]
    Facts {
        /// The name of the setting.
        setting: String,
        /// The value in the configuration.
        configured: String,
        /// The value in Redis.
        found: String,
    },
    /// The data was created with another number of partitions.
    #[error(
        "this data has {found} partitions, but log.partitions is {configured}: existing keys would not be found"
    )]
    Partitions {
        /// The value in Redis.
        found: String,
        /// The value in the configuration.
        configured: u16,
    },
    /// A newer version created the data, or the layout is damaged.
    #[error("{field} of this data is {value:?}, which this version does not support")]
    UnknownLayout {
        /// The field of the layout.
        field: String,
        /// Its value.
        value: String,
    },
    /// A metric feeds the registered authors of entities without counting it for the entities.
    #[error(
        "metrics.{0}.users: \"author\" requires count = \"now\" or \"batched\": an author is credited with the counters of their entities"
    )]
    UncountedCredit(Name),
    /// The stored counters of users differ from the configuration.
    #[error(
        "users.counters does not match this data, whose users have the counters {0}: counters can be appended, but not removed, renamed or moved"
    )]
    UserCounters(String),
    /// A schema is unusable, or has other counters than the configuration.
    #[error("{0}")]
    Schema(String),
    /// The columns of the counters of a type have changed while the process ran.
    #[error(
        "the counters of {etype}, whose schema is {schema} for this process, have other columns now: start the process again"
    )]
    Columns {
        /// The type.
        etype: Name,
        /// Its schema in the configuration.
        schema: Name,
    },
    /// The ACL of the Redis user lacks permissions.
    #[error("the user of redis.url may not use: {0}")]
    MissingPermissions(String),
    /// The data is archived, but no directory is configured.
    #[error(
        "counted entries of this data are archived: set log.archive.dir, or end the archive with `countd archive end`"
    )]
    Archive,
    /// The archive belongs to other data, or is newer than the data.
    #[error("{0}")]
    ArchiveRefused(String),
    /// A restore of the data is under way.
    #[error("this data is being restored: let `countd restore` finish, and then start countd")]
    Restoring,
    /// Seeds are configured, and the server is no node of a cluster.
    #[error("redis.seeds is set, but the server at {0} is not a node of a cluster")]
    Seeds(String),
    /// The server cannot make writes as safe as configured.
    #[error("redis.ack is {0}, but {1}")]
    Ack(String, String),
    /// Some slots of the cluster have no master.
    #[error("some slots of the cluster have no master")]
    Cluster,
}

impl ConnectError {
    /// Whether a later attempt may succeed: the server is unreachable or starting.
    pub fn is_transient(&self) -> bool {
        match self {
            ConnectError::Redis(error) => is_transient(error),
            ConnectError::Cluster => true,
            _ => false,
        }
    }
}

/// Error codes of the renumbering script for a log that only an operator can repair.
const NEEDS_OPERATOR: [&str; 3] = ["RESTARTED", "USEDUP", "DAMAGED"];

/// Whether an append was rejected because the stream's last ID is foreign.
pub fn rejected_by_foreign_last_id(error: &RedisError) -> bool {
    // The messages for an ID that is too small, for a stream that ends with the greatest ID, and for a last ID whose sequence
    // number is the greatest.
    let messages = [
        "smaller than the target stream top item",
        "exhausted the last possible ID",
        "Elements are too large to be stored",
    ];
    let error = error.to_string();
    messages.iter().any(|message| error.contains(message))
}

/// Whether only an operator can repair the log. The command was not executed and may be retried.
pub fn needs_operator(error: &RedisError) -> bool {
    error
        .code()
        .is_some_and(|code| NEEDS_OPERATOR.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str) -> RedisError {
        redis::make_extension_error(code.to_owned(), Some("words".to_owned()))
    }

    #[test]
    fn transient_errors_are_unavailable_and_others_are_not() {
        for code in TRANSIENT {
            let error = StoreError::from(error(code));
            assert!(matches!(error, StoreError::Unavailable(_)), "{code}");
            assert!(error.is_server_reply(), "{code}");
        }
        let lost = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let lost = StoreError::from(RedisError::from(lost));
        assert!(matches!(lost, StoreError::Unavailable(_)) && !lost.is_server_reply());
        let unacknowledged = StoreError::from(not_acknowledged("0 of 1 replicas"));
        assert!(!unacknowledged.is_server_reply(), "it was executed");
        assert!(unacknowledged.to_string().contains("(0 of 1 replicas)"));
        assert!(matches!(
            StoreError::from(error("WRONGTYPE")),
            StoreError::WrongType(_)
        ));
        for code in ["NOPERM", "CROSSSLOT", "EXECABORT"] {
            assert!(
                matches!(StoreError::from(error(code)), StoreError::Rejected(_)),
                "{code}"
            );
        }
    }
}
