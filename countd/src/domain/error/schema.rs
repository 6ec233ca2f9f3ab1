//! Errors of schemas.

use super::StoreError;
use crate::domain::ids::{Invalid, Name};

/// The most names of a schema. An object may have 65,535 fields, but a page of a feed carries them all.
pub const MAX_NAMES: usize = 1_000;

/// Why a schema could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A name is none.
    #[error("{0}: {1}")]
    Name(String, Invalid),
    /// A name stands there twice.
    #[error("{0} is there already")]
    Repeated(Name),
    /// None, or too many.
    #[error("a schema has 1 to {MAX_NAMES} names")]
    Size,
    /// There is one with other names.
    #[error("schema {id} exists and is: {}; `countd schema extend` adds names", words(.names))]
    Exists {
        /// Its id.
        id: Name,
        /// Its names.
        names: Vec<Name>,
    },
    /// There is none.
    #[error("there is no schema {0}")]
    Missing(Name),
    /// What is stored is no schema.
    #[error("{0} is damaged: {1}")]
    Damaged(String, String),
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<redis::RedisError> for SchemaError {
    fn from(error: redis::RedisError) -> SchemaError {
        SchemaError::Store(error.into())
    }
}

/// Names with spaces between them.
pub fn words(names: &[Name]) -> String {
    let names: Vec<&str> = names.iter().map(Name::as_str).collect();
    names.join(" ")
}
