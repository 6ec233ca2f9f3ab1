//! Errors of databases.

use std::time::Duration;

/// The SQLSTATE class of statements that cannot succeed: no such table or column, or no permission.
const INVALID_STATEMENT: &str = "42";

/// Why a call to a database failed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The database is unavailable, or rejected a statement.
    #[error("the database failed: {0}")]
    Failed(#[from] sqlx::Error),
    /// The database did not reply in time.
    #[error("the database did not reply within {} ms", .0.as_millis())]
    Timeout(Duration),
}

impl DatabaseError {
    /// Whether a repetition of the statement cannot succeed.
    pub fn is_invalid_statement(&self) -> bool {
        let code = match self {
            DatabaseError::Failed(error) => error.as_database_error().and_then(|e| e.code()),
            DatabaseError::Timeout(_) => None,
        };
        code.is_some_and(|code| code.starts_with(INVALID_STATEMENT))
    }

    /// Whether the URL is invalid.
    pub fn is_configuration(&self) -> bool {
        matches!(self, DatabaseError::Failed(sqlx::Error::Configuration(_)))
    }
}
