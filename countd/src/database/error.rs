//! Errors of databases.

use sqlx::mysql::MySqlDatabaseError;
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

/// What a database refused, as far as an operator reacts to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The user, or their password.
    Login,
    /// The name of the database.
    Database,
    /// A table that does not exist.
    Table,
    /// A column that does not exist.
    Column,
    /// A statement for which the user has no permission.
    Permission,
    /// Something else.
    Other,
}

impl DatabaseError {
    /// Whether a repetition of the statement cannot succeed.
    pub fn is_invalid_statement(&self) -> bool {
        self.code()
            .is_some_and(|code| code.starts_with(INVALID_STATEMENT))
    }

    /// Whether the URL is invalid.
    pub fn is_configuration(&self) -> bool {
        matches!(self, DatabaseError::Failed(sqlx::Error::Configuration(_)))
    }

    /// What the database refused. `None` if it did not answer.
    pub fn refusal(&self) -> Option<Refusal> {
        let code = self.code()?;
        Some(Refusal::of(&code, self.mysql_number()))
    }

    fn code(&self) -> Option<String> {
        let DatabaseError::Failed(error) = self else {
            return None;
        };
        let code = error.as_database_error()?.code()?;
        Some(code.into_owned())
    }

    /// The number of an error of MySQL or MariaDB, whose SQLSTATE often says less.
    fn mysql_number(&self) -> Option<u16> {
        let DatabaseError::Failed(error) = self else {
            return None;
        };
        let error = error.as_database_error()?;
        error
            .try_downcast_ref::<MySqlDatabaseError>()
            .map(MySqlDatabaseError::number)
    }
}

impl Refusal {
    fn of(code: &str, number: Option<u16>) -> Refusal {
        match (code, number) {
            (_, Some(1044 | 1049)) | ("3D000", _) => Refusal::Database,
            (_, Some(1142 | 1143)) | ("42501", _) => Refusal::Permission,
            ("28P01" | "28000", _) => Refusal::Login,
            ("42P01" | "3F000" | "42S02", _) => Refusal::Table,
            ("42703" | "42S22", _) => Refusal::Column,
            _ => Refusal::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_those_of_both_kinds_of_databases() {
        for (code, number, expected) in [
            ("28P01", None, Refusal::Login),
            ("28000", Some(1045), Refusal::Login),
            ("3D000", None, Refusal::Database),
            ("42000", Some(1049), Refusal::Database),
            ("42P01", None, Refusal::Table),
            ("42S02", Some(1146), Refusal::Table),
            ("42703", None, Refusal::Column),
            ("42S22", Some(1054), Refusal::Column),
            ("42501", None, Refusal::Permission),
            ("42000", Some(1142), Refusal::Permission),
            ("42000", Some(1064), Refusal::Other),
        ] {
            assert_eq!(Refusal::of(code, number), expected, "{code} {number:?}");
        }
    }
}
