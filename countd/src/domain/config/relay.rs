//! The configuration of `countd relay`.

use super::database::{DatabaseUrl, check_column, check_ranges, check_table, check_url};
use super::error::ConfigError;
use super::sections::optional_address;
use serde::Deserialize;
use std::net::SocketAddr;
use std::time::Duration;

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

/// What happens to rows whose events are in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SentRows {
    /// They are deleted.
    Delete,
    /// Their column `sent_at` is set.
    Mark,
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
        check_url("relay.url", &self.url)?;
        check_table("relay.table", &self.table)?;
        check_column("relay.key", &self.key)?;
        check_ranges(&[
            ("relay.batch", self.batch as u64, 10_000),
            ("relay.connections", self.connections.into(), 64),
            ("relay.poll_ms", self.poll_ms, 60_000),
            ("relay.timeout_ms", self.timeout_ms, 600_000),
        ])
    }
}
