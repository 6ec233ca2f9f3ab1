//! Why a request failed: the error that handlers return, with its code and message.

use super::code::ErrorCode;
use super::schema::SchemaError;
use super::store::StoreError;
use crate::domain::health::FailedPartition;
use crate::domain::ids::{Entity, Id, Invalid, Name};

/// A user ID that a fact store cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this metric requires numeric user IDs from 0 to {0}")]
pub struct UnsupportedUserId(pub u64);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The request is malformed.
    #[error("{0}")]
    Malformed(String),
    /// A parameter is not a valid name or ID.
    #[error("{0}: {1}")]
    Invalid(String, Invalid),
    /// The credentials are missing or invalid.
    #[error("valid credentials are required: Authorization: Bearer")]
    Unauthorized,
    /// The credentials lack a right.
    #[error("{0}")]
    Forbidden(String),
    /// The request is for another user than the credentials.
    #[error("the token is of another user: uid must be its sub")]
    UidMismatch,
    /// The path does not exist.
    #[error("unknown path; see /openapi.json")]
    NoRoute,
    /// The path does not support the method.
    #[error("this path does not support the method; see /openapi.json")]
    NoMethod,
    /// The body is longer than the maximum.
    #[error("the body is longer than http.max_body_bytes")]
    TooLarge,
    /// The path and query are too long.
    #[error("the path and query are too long")]
    UriTooLong,
    /// The headers are too long or too many.
    #[error("the headers are too long or too many")]
    HeadersTooLarge,
    /// The content type of the body is not supported.
    #[error("the content type of the body must be {0}")]
    UnsupportedMediaType(&'static str),
    /// The counter of users does not exist.
    #[error("there is no counter {0} of users")]
    UnknownCounter(String),
    /// The metric is not configured.
    #[error("there is no metric {0}")]
    UnknownMetric(String),
    /// The entity type is not configured.
    #[error("there is no entity type {0}")]
    UnknownType(Name),
    /// The request is well-formed, but not possible for this metric, entity or user.
    #[error("{0}")]
    Unprocessable(String),
    /// The metric has no counts by day.
    #[error("the metric {0} has no counts by day: its configuration needs daily = true")]
    NoHistory(Name),
    /// The ranking is not configured.
    #[error("there is no ranking {0}")]
    UnknownRanking(String),
    /// The entities of the ranking are being read for the first time.
    #[error("the ranking {0} is being filled: retry later")]
    RankingNotFilled(Name),
    /// Facts and counters of the entity are being copied from its shards.
    #[error("{}:{} is being merged: retry later", .0.etype, .0.eid)]
    Merging(Entity),
    /// The facts of the user are at a shard of the entity.
    #[error("the facts of the user are at a shard of the entity")]
    AtShard,
    /// The facts of the metric are not kept for users.
    #[error("{}", no_reverse(.metric, *.is_configured))]
    NoReverse {
        /// The metric.
        metric: Name,
        /// Whether the configuration says that they are.
        is_configured: bool,
    },
    /// The action names another author than the entity has.
    #[error("the author of this entity is {0}")]
    AuthorMismatch(Id),
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// The request has more items than allowed.
    #[error("a request has at most {0} items")]
    TooMany(usize),
    /// The job does not exist.
    #[error("there is no job {0}")]
    UnknownJob(String),
    /// There are too many jobs.
    #[error("{0} jobs have not ended: retry later")]
    TooManyJobs(usize),
    /// Another process runs the job.
    #[error("another process has claimed the job")]
    LeaseLost,
    /// The client exceeds a rate limit.
    #[error("rate limit of this {scope} exceeded: retry after {retry_after} s")]
    Limited {
        /// Whose limit it is: `address`, `device` or `user`.
        scope: &'static str,
        /// Seconds until a retry can succeed.
        retry_after: u64,
    },
    /// The request took too long.
    #[error("the request took longer than http.timeout_ms")]
    Timeout,
    /// The process has received SIGTERM.
    #[error("the process is stopping")]
    Stopping,
    /// The memory budget for request bodies and items is used up.
    #[error("too many request bodies or items are in progress: retry later")]
    Busy,
    /// As many clients follow the changes as allowed.
    #[error("at most {0} clients can follow the changes: changes.max_streams")]
    TooManyStreams(usize),
    /// The metric's fact store cannot hold the user's ID.
    #[error(transparent)]
    UnsupportedUserId(#[from] UnsupportedUserId),
    /// The schema is missing or unusable.
    #[error(transparent)]
    Schema(SchemaError),
    /// Partitions assigned to this process have failed.
    #[error("{}", summary(.0))]
    Failed(Vec<FailedPartition>),
    /// The consumer has no assignment.
    #[error("the consumer has no partitions assigned: {0}")]
    NoAssignment(String),
    /// The topic does not accept events. If it is not reachable, it may have accepted this one.
    #[error("the event is not in the log: {0}")]
    TopicUnavailable(String),
    /// Redis returned an error or is unavailable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn no_reverse(metric: &Name, is_configured: bool) -> String {
    match is_configured {
        true => format!(
            "{metric} was not kept for users from the start of this data: run countd reverse backfill {metric}"
        ),
        false => format!("{metric} is not kept for users: reverse = true"),
    }
}

/// The number of failed partitions that an error message names.
const MAX_IN_SUMMARY: usize = 3;

fn summary(failed: &[FailedPartition]) -> String {
    let first = failed.iter().take(MAX_IN_SUMMARY);
    let mut parts: Vec<String> = first
        .map(|failure| format!("partition {}: {}", failure.partition, failure.reason))
        .collect();
    if failed.len() > MAX_IN_SUMMARY {
        parts.push(format!("and {} more", failed.len() - MAX_IN_SUMMARY));
    }
    parts.join("; ")
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
    /// The error code in the response body.
    pub fn code(&self) -> ErrorCode {
        match self {
            Problem::Malformed(_) | Problem::Invalid(..) => ErrorCode::Malformed,
            Problem::Unauthorized => ErrorCode::Unauthorized,
            Problem::Forbidden(_) => ErrorCode::Forbidden,
            Problem::UidMismatch => ErrorCode::UidMismatch,
            Problem::NoRoute => ErrorCode::NoRoute,
            Problem::NoMethod => ErrorCode::NoMethod,
            Problem::TooLarge => ErrorCode::TooLarge,
            Problem::UriTooLong => ErrorCode::UriTooLong,
            Problem::HeadersTooLarge => ErrorCode::HeadersTooLarge,
            Problem::UnsupportedMediaType(_) => ErrorCode::UnsupportedMediaType,
            Problem::UnknownCounter(_) => ErrorCode::UnknownCounter,
            Problem::UnknownMetric(_) => ErrorCode::UnknownMetric,
            Problem::UnknownType(_) => ErrorCode::UnknownType,
            Problem::Unprocessable(_) | Problem::UnsupportedUserId(_) => ErrorCode::Unprocessable,
            Problem::NoHistory(_) => ErrorCode::NoHistory,
            Problem::UnknownRanking(_) => ErrorCode::UnknownRanking,
            Problem::RankingNotFilled(_) => ErrorCode::NotFilled,
            Problem::NoReverse { .. } => ErrorCode::NoReverse,
            Problem::AuthorMismatch(_) => ErrorCode::AuthorMismatch,
            Problem::KeyReused => ErrorCode::KeyReused,
            Problem::TooMany(_) => ErrorCode::TooMany,
            Problem::Limited { .. } => ErrorCode::Limited,
            Problem::Timeout => ErrorCode::Timeout,
            Problem::Stopping => ErrorCode::Stopping,
            Problem::UnknownJob(_) => ErrorCode::UnknownJob,
            Problem::Busy | Problem::TooManyJobs(_) | Problem::TooManyStreams(_) => ErrorCode::Busy,
            Problem::Merging(_) => ErrorCode::Merging,
            Problem::LeaseLost | Problem::AtShard => ErrorCode::Internal,
            Problem::Schema(_) => ErrorCode::Schema,
            Problem::Failed(_) | Problem::NoAssignment(_) => ErrorCode::NotCounting,
            Problem::TopicUnavailable(_) | Problem::Store(StoreError::Unavailable(_)) => {
                ErrorCode::Unavailable
            }
            Problem::Store(StoreError::NotAcknowledged(_)) => ErrorCode::NotAcknowledged,
            Problem::Store(StoreError::WrongType(_)) => ErrorCode::Damaged,
            Problem::Store(_) => ErrorCode::Internal,
        }
    }

    /// The request field that the problem concerns.
    pub fn field(&self) -> Option<&str> {
        match self {
            Problem::Invalid(field, _) => Some(field),
            _ => None,
        }
    }
}
