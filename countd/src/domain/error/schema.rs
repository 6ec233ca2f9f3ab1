//! Errors of schemas.

use super::store::{ConnectError, StoreError};
use crate::domain::ids::{Invalid, Name};

/// The maximum number of names in a schema. An object may have 65,535 fields, but each page of a feed carries all of them.
pub const MAX_NAMES: usize = 1_000;

/// Why a schema could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A name is invalid.
    #[error("{0}: {1}")]
    Name(String, Invalid),
    /// A name occurs twice.
    #[error("duplicate name {0}")]
    DuplicateName(Name),
    /// The schema has no names, or too many.
    #[error("a schema has 1 to {MAX_NAMES} names")]
    InvalidLength,
    /// The schema exists with other names.
    #[error("schema {id} exists with other names: {}; use `countd schema extend` to add names", join_names(.names))]
    Exists {
        /// The ID of the schema.
        id: Name,
        /// The names of the existing schema.
        names: Vec<Name>,
    },
    /// The stored schema and the configured one do not agree as far as both go.
    #[error("the configured counters of schema {id} do not match this data, whose schema has: {}; counters can be appended, but not removed, renamed or moved", join_names(.names))]
    Differs {
        /// The ID of the schema.
        id: Name,
        /// The names of the stored schema.
        names: Vec<Name>,
    },
    /// The schema does not exist.
    #[error("there is no schema {0}")]
    Missing(Name),
    /// The stored schema is damaged.
    #[error("{0} is damaged: {1}")]
    Damaged(String, String),
    /// Redis returned an error or is unavailable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<redis::RedisError> for SchemaError {
    fn from(error: redis::RedisError) -> SchemaError {
        SchemaError::Store(error.into())
    }
}

impl From<SchemaError> for ConnectError {
    fn from(error: SchemaError) -> ConnectError {
        match error {
            SchemaError::Store(StoreError::Unavailable(error) | StoreError::Rejected(error)) => {
                ConnectError::Redis(error)
            }
            error => ConnectError::Schema(error.to_string()),
        }
    }
}

/// Names, separated by spaces.
pub fn join_names(names: &[Name]) -> String {
    let names: Vec<&str> = names.iter().map(Name::as_str).collect();
    names.join(" ")
}
