//! Errors of all layers.

mod schema;
mod store;

pub use schema::{MAX_NAMES, SchemaError, words};
pub(crate) use store::is_no_script;
pub use store::{ConnectError, StoreError, needs_operator, rejected_by_foreign_last_id};

use super::health::FailedPartition;
use super::ids::{Invalid, Name};

/// An id that a way of keeping facts cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this metric keeps user ids as numbers from 0 to {0}")]
pub struct UnsupportedUserId(pub u64);

/// Why a request is not done.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It is malformed.
    #[error("{0}")]
    Malformed(String),
    /// A name or an id in it is none.
    #[error("{0}: {1}")]
    Invalid(String, Invalid),
    /// There is no such metric.
    #[error("there is no metric {0}")]
    NoMetric(String),
    /// There is no such type of entity.
    #[error("there is no type of entity {0}")]
    NoType(Name),
    /// Well-formed, but it makes no sense for this metric or this entity.
    #[error("{0}")]
    Unfit(String),
    /// It has more items than are allowed.
    #[error("at most {0} items in a request")]
    TooMany(usize),
    /// A client does more than it may.
    #[error("too much of this {of}: try again in {retry_after} s")]
    Limited {
        /// What is limited: an address, a device or a user.
        of: &'static str,
        /// When it is worth another try, in seconds.
        retry_after: u64,
    },
    /// Requests that are under way have taken all the memory for bodies and items.
    #[error("too many bodies or items are under way: try again")]
    Busy,
    /// The user's id does not fit.
    #[error(transparent)]
    UnsupportedUserId(#[from] UnsupportedUserId),
    /// The schema cannot be used.
    #[error(transparent)]
    Schema(SchemaError),
    /// Some partitions of this process are not counted.
    #[error("{}", in_words(.0))]
    Failed(Vec<FailedPartition>),
    /// The consumer does not get its share of the partitions.
    #[error("the consumer gets no partitions: {0}")]
    NoShare(String),
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How many failed partitions are named in a sentence.
const NAMED: usize = 3;

fn in_words(failed: &[FailedPartition]) -> String {
    let some = failed.iter().take(NAMED);
    let mut words: Vec<String> = some
        .map(|one| format!("partition {}: {}", one.partition, one.reason))
        .collect();
    if failed.len() > NAMED {
        words.push(format!("and {} more", failed.len() - NAMED));
    }
    words.join("; ")
}

impl From<SchemaError> for Problem {
    fn from(error: SchemaError) -> Problem {
        match error {
            SchemaError::Store(error) => Problem::Store(error),
            error => Problem::Schema(error),
        }
    }
}

impl From<redis::RedisError> for Problem {
    fn from(error: redis::RedisError) -> Problem {
        Problem::Store(error.into())
    }
}

impl Problem {
    /// One word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Problem::Malformed(_) | Problem::Invalid(..) => "malformed",
            Problem::NoMetric(_) => "unknown_metric",
            Problem::NoType(_) => "unknown_type",
            Problem::Unfit(_) | Problem::UnsupportedUserId(_) => "unfit",
            Problem::TooMany(_) => "too_many",
            Problem::Limited { .. } => "limited",
            Problem::Busy => "busy",
            Problem::Schema(_) => "schema",
            Problem::Failed(_) | Problem::NoShare(_) => "not_counting",
            Problem::Store(StoreError::Unavailable(_)) => "unavailable",
            Problem::Store(StoreError::WrongType(_)) => "damaged",
            Problem::Store(_) => "internal",
        }
    }
}
