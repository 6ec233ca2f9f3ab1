//! Errors of Redis, by what a caller can do about them.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It may work later: the server is gone, starting, full or read-only. It may have been done when the connection broke.
    #[error("the store is not available: {0}")]
    Unavailable(RedisError),
    /// A key holds what it should not: another type, or too few counters.
    #[error("a key holds something else: {0}")]
    WrongType(RedisError),
    /// The server refused the command, and will again.
    #[error("the store refused: {0}")]
    Refused(RedisError),
    /// The server answered what no sound one answers.
    #[error("unexpected reply: {0}")]
    Unexpected(String),
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> StoreError {
        // A log that is closed is opened by the next who reads or appends, or by an operator.
        if is_transient(&error) || rejected_by_foreign_last_id(&error) || needs_operator(&error) {
            StoreError::Unavailable(error)
        } else if matches!(error.code(), Some("WRONGTYPE" | "TOOSHORT")) {
            StoreError::WrongType(error)
        } else {
            StoreError::Refused(error)
        }
    }
}

impl StoreError {
    /// Whether the server itself answered, so that the command was certainly not done.
    pub fn is_answer(&self) -> bool {
        match self {
            StoreError::Unavailable(e) | StoreError::WrongType(e) | StoreError::Refused(e) => {
                e.code().is_some()
            }
            StoreError::Unexpected(_) => false,
        }
    }
}

/// What a server says while it cannot work but will again.
const TRANSIENT: [&str; 12] = [
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

/// Whether a script has to be loaded first.
pub(crate) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is none, or nobody answers there.
    #[error("cannot connect to Redis: {0}")]
    Redis(#[from] RedisError),
    /// The module is not loaded, and the data was begun with it.
    #[error(
        "the server at {0} has not loaded the module `countint`, with which this data was begun"
    )]
    NoModule(String),
    /// Facts of a metric were begun in another way.
    #[error(
        "{setting} is {configured}, and this data was begun with {found}: facts would not be found"
    )]
    Facts {
        /// Where it is configured.
        setting: String,
        /// In the configuration.
        configured: String,
        /// In the data.
        found: String,
    },
    /// The data was begun with another number of partitions.
    #[error(
        "this data has {found} partitions, and log.partitions is {configured}: an entity's keys would not be found"
    )]
    Partitions {
        /// In the data.
        found: String,
        /// In the configuration.
        configured: u16,
    },
    /// The user of Redis may not do something.
    #[error("the user of redis.url may not use: {0}")]
    Rights(String),
    /// Some slots of the cluster have no master.
    #[error("nobody serves some of the cluster's slots")]
    Cluster,
}

impl ConnectError {
    /// Whether it may work later: the server is not there, or starting.
    pub fn may_pass(&self) -> bool {
        match self {
            ConnectError::Redis(why) => is_transient(why),
            ConnectError::Cluster => true,
            _ => false,
        }
    }
}

/// What the script that renumbers replies for a log that only an operator can repair.
const NEEDS_OPERATOR: [&str; 3] = ["RESTARTED", "USEDUP", "DAMAGED"];

/// Whether a log refused an entry since it ends with an id that is none of its own.
pub fn rejected_by_foreign_last_id(error: &RedisError) -> bool {
    // What servers say of ids that are too small, of the greatest one in the log, and of the greatest with these digits.
    let signs = [
        "smaller than the target stream top item",
        "exhausted the last possible ID",
        "Elements are too large to be stored",
    ];
    let words = error.to_string();
    signs.iter().any(|sign| words.contains(sign))
}

/// Whether a log was refused that only an operator can repair: nothing of what was asked was done, and it may be asked again.
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
    fn what_passes_is_told_from_what_stays() {
        for code in TRANSIENT {
            let error = StoreError::from(error(code));
            assert!(matches!(error, StoreError::Unavailable(_)), "{code}");
            assert!(error.is_answer(), "{code}");
        }
        let lost = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let lost = StoreError::from(RedisError::from(lost));
        assert!(matches!(lost, StoreError::Unavailable(_)) && !lost.is_answer());
        assert!(matches!(
            StoreError::from(error("WRONGTYPE")),
            StoreError::WrongType(_)
        ));
        for code in ["NOPERM", "CROSSSLOT", "EXECABORT"] {
            assert!(
                matches!(StoreError::from(error(code)), StoreError::Refused(_)),
                "{code}"
            );
        }
    }
}
