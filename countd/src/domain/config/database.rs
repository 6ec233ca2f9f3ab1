//! Names and URLs of databases.

use super::error::{ConfigError, invalid};
use serde::Deserialize;
use std::fmt;

/// The maximum length of each part of a table's name, and of a column's. PostgreSQL has 63 bytes, and `_dead` is appended.
const MAX_NAME: usize = 58;

/// The URL of a database, which may contain a password.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct DatabaseUrl(String);

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// PostgreSQL.
    Postgres,
    /// MySQL or MariaDB.
    MySql,
}

impl DatabaseUrl {
    /// The URL, with the password. Not for logs.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The kind of the database; `None` if the scheme is of none.
    pub fn kind(&self) -> Option<DatabaseKind> {
        match self.0.split_once("://")?.0 {
            "postgres" | "postgresql" => Some(DatabaseKind::Postgres),
            "mysql" | "mariadb" => Some(DatabaseKind::MySql),
            _ => None,
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a database URL")
    }
}

/// Checks the URL of a setting. The message does not contain it.
pub(super) fn check_url(setting: &str, url: &DatabaseUrl) -> Result<(), ConfigError> {
    match url.expose().is_empty() || url.kind().is_some() {
        true => Ok(()),
        false => Err(invalid(setting, "must begin with postgres:// or mysql://")),
    }
}

/// Checks the name of a table, optionally with that of a schema or a database before it.
pub(super) fn check_table(setting: &str, name: &str) -> Result<(), ConfigError> {
    let parts: Vec<&str> = name.split('.').collect();
    if parts.len() <= 2 && parts.iter().all(|part| is_name(part)) {
        return Ok(());
    }
    let problem = format!(
        "must be a name, or two with a dot between them, of up to {MAX_NAME} letters, digits and _"
    );
    Err(invalid(setting, problem))
}

/// Checks the name of a column.
pub(super) fn check_column(setting: &str, name: &str) -> Result<(), ConfigError> {
    if is_name(name) {
        return Ok(());
    }
    let problem = format!("must be a name of up to {MAX_NAME} letters, digits and _");
    Err(invalid(setting, problem))
}

/// Checks that settings have values from 1 to a maximum.
pub(super) fn check_ranges(settings: &[(&str, u64, u64)]) -> Result<(), ConfigError> {
    match settings
        .iter()
        .find(|(_, value, max)| !(1..=*max).contains(value))
    {
        Some((setting, _, max)) => Err(invalid(*setting, format!("must be 1 to {max}"))),
        None => Ok(()),
    }
}

/// Whether a name needs no escaping between quotes.
fn is_name(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_valid)
}
