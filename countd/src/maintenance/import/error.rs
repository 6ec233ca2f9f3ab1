//! Why an import stopped.

use super::record::Origin;
use crate::domain::error::{ErrorCode, Problem, StoreError};
use redis::RedisError;

/// Why an import stopped. What was applied before stays applied; the next run continues.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A record is invalid, and more of them may not be skipped.
    #[error("{origin}: {problem}")]
    Invalid {
        /// The record.
        origin: Origin,
        /// Why it is invalid.
        problem: String,
    },
    /// A file cannot be read.
    #[error("{file}: {error}")]
    File {
        /// The file.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// The options are invalid, or do not match the state of the import.
    #[error("{0}")]
    Refused(String),
    /// The source cannot be read.
    #[error("the source: {0}")]
    Source(RedisError),
    /// Redis failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record cannot be applied.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// Another run of the same import has started, or the import was forgotten.
    #[error("another run of this import has started, or the import was forgotten")]
    Superseded,
}

impl From<RedisError> for ImportError {
    fn from(error: RedisError) -> ImportError {
        ImportError::Store(error.into())
    }
}

impl ImportError {
    /// Whether a retry of the same step may succeed. All steps can be repeated.
    pub fn is_transient(&self) -> bool {
        match self {
            ImportError::Store(error) => matches!(error, StoreError::Unavailable(_)),
            ImportError::Problem(problem) => {
                [ErrorCode::Unavailable, ErrorCode::Merging].contains(&problem.code())
            }
            _ => false,
        }
    }
}
