//! The configuration of `countd relay`.

use super::error::{ConfigError, invalid};
use super::sections::optional_address;
use serde::Deserialize;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// The maximum length of each part of a table's name, and of a column's. PostgreSQL has 63 bytes, and `_dead` is appended.
const MAX_NAME: usize = 58;

/// `[relay]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayConfig {
    /// The URL of the database; empty for none.
    pub url: DatabaseUrl,
    /// The name of the outbox table, optionally with a schema or a database before it.
    pub table: String,
    /// The integer column that identifies and orders the rows.
    pub key: String,
    /// What happens to rows whose events are in the log.
    pub sent: SentRows,
    /// The maximum number of rows of a transaction.
    pub batch: usize,
    /// The number of connections.
    pub connections: u16,
    /// The delay before the table is read again after it had fewer rows than a batch, in milliseconds.
    pub poll_ms: u64,
    /// The timeout of connecting and of each statement, in milliseconds.
    pub timeout_ms: u64,
    /// The number of uncounted entries of the log at which the relay waits; 0: it never waits.
    pub max_lag: u64,
    /// The address for operational requests; `None` disables them.
    #[serde(deserialize_with = "optional_address")]
    pub listen: Option<SocketAddr>,
}

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

/// What happens to rows whose events are in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SentRows {
    /// They are deleted.
    Delete,
    /// Their column `sent_at` is set.
    Mark,
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

impl RelayConfig {
    /// The timeout of connecting and of each statement.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// The delay before the table is read again.
    pub fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms)
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        // The message must not contain the URL.
        if !self.url.expose().is_empty() && self.url.kind().is_none() {
            let problem = "must begin with postgres:// or mysql://";
            return Err(invalid("relay.url", problem));
        }
        let parts: Vec<&str> = self.table.split('.').collect();
        if parts.len() > 2 || !parts.iter().all(|part| is_name(part)) {
            let problem = format!(
                "must be a name, or two with a dot between them, of up to {MAX_NAME} letters, digits and _"
            );
            return Err(invalid("relay.table", problem));
        }
        if !is_name(&self.key) {
            let problem = format!("must be a name of up to {MAX_NAME} letters, digits and _");
            return Err(invalid("relay.key", problem));
        }
        for (setting, value, max) in [
            ("relay.batch", self.batch as u64, 10_000),
            ("relay.connections", self.connections.into(), 64),
            ("relay.poll_ms", self.poll_ms, 60_000),
            ("relay.timeout_ms", self.timeout_ms, 600_000),
        ] {
            if !(1..=max).contains(&value) {
                return Err(invalid(setting, format!("must be 1 to {max}")));
            }
        }
        Ok(())
    }
}

/// Whether a name needs no escaping between quotes.
fn is_name(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_valid)
}
