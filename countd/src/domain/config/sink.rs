//! The configuration of `countd sink`.

use super::database::{DatabaseUrl, check_ranges, check_table, check_url};
use super::error::{ConfigError, invalid};
use super::metrics::MetricsConfig;
use super::sections::optional_address;
use crate::domain::ids::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// `[sink]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkConfig {
    /// The URL of the database; empty for none.
    pub url: DatabaseUrl,
    /// The tables of facts.
    pub details: Vec<DetailTable>,
    /// The tables of counters.
    pub counts: Vec<CountTable>,
    /// The name of the table with the state of the sink.
    pub state: String,
    /// The maximum number of log entries of a transaction.
    pub batch: usize,
    /// The delay before the logs are read again after there was nothing new, in milliseconds.
    pub poll_ms: u64,
    /// The timeout of connecting and of each statement, in milliseconds.
    pub timeout_ms: u64,
    /// The time for which the logs keep what the sink has not read, in seconds.
    pub hold_seconds: u64,
    /// The time without a sign of life of the leading process after which another one leads, in milliseconds.
    pub takeover_ms: u64,
    /// The address for operational requests; `None` disables them.
    #[serde(deserialize_with = "optional_address")]
    pub listen: Option<SocketAddr>,
}

/// A table with a row for each fact of a metric on entities of a type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DetailTable {
    /// The entity type.
    pub etype: Name,
    /// The metric.
    pub metric: Name,
    /// The name of the table.
    pub table: String,
}

/// A table with a row for each counter of entities of a type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CountTable {
    /// The entity type.
    pub etype: Name,
    /// The name of the table.
    pub table: String,
}

impl SinkConfig {
    /// The timeout of connecting and of each statement.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// The delay before the logs are read again.
    pub fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms)
    }

    /// The time for which the logs keep what the sink has not read.
    pub fn hold(&self) -> Duration {
        Duration::from_secs(self.hold_seconds)
    }

    /// The time without a sign of life of the leading process after which another one leads.
    pub fn takeover(&self) -> Duration {
        Duration::from_millis(self.takeover_ms)
    }

    /// `schema_of` is the schema of an entity type: the inner `None` means users.
    pub(super) fn validate<'a>(
        &self,
        schema_of: impl Fn(&Name) -> Option<Option<&'a Name>>,
        metrics: &MetricsConfig,
    ) -> Result<(), ConfigError> {
        check_url("sink.url", &self.url)?;
        check_ranges(&[
            ("sink.batch", self.batch as u64, 10_000),
            ("sink.poll_ms", self.poll_ms, 60_000),
            ("sink.timeout_ms", self.timeout_ms, 600_000),
            ("sink.hold_seconds", self.hold_seconds, 30 * 24 * 3600),
            ("sink.takeover_ms", self.takeover_ms, 600_000),
        ])?;
        check_table("sink.state", &self.state)?;
        let details = self.details.iter();
        let counts = self.counts.iter();
        let tables = details
            .map(|details| ("sink.details", &details.table))
            .chain(counts.map(|counts| ("sink.counts", &counts.table)));
        let mut names = BTreeSet::from([&self.state]);
        for (setting, table) in tables {
            check_table(setting, table)?;
            if !names.insert(table) {
                let problem = format!("{table} has another use: each table has one");
                return Err(invalid(setting, problem));
            }
        }
        let details = self.details.iter();
        let details = details.map(|of| ("sink.details", &of.etype, Some(&of.metric)));
        let counts = self.counts.iter();
        let counts = counts.map(|of| ("sink.counts", &of.etype, None));
        let mut contents = BTreeSet::new();
        for (setting, etype, metric) in details.chain(counts) {
            if !contents.insert((etype, metric)) {
                let problem = format!("two tables of the type {etype} would have the same rows");
                return Err(invalid(setting, problem));
            }
        }
        // The defaults name a type and a metric that a configuration without a sink may not have.
        if self.url.expose().is_empty() {
            return Ok(());
        }
        for CountTable { etype, .. } in &self.counts {
            if schema_of(etype).flatten().is_none() {
                let problem = format!("there is no entity type {etype} with counters");
                return Err(invalid("sink.counts", problem));
            }
        }
        for DetailTable { etype, metric, .. } in &self.details {
            let known = metrics.get(metric.as_str());
            let has_facts = known.is_some_and(|(name, settings)| {
                name == metric && settings.fact_kind().is_some() && settings.applies_to(etype)
            });
            if !has_facts || schema_of(etype).is_none() {
                let problem = format!("{metric} keeps no facts on entities of type {etype}");
                return Err(invalid("sink.details", problem));
            }
        }
        Ok(())
    }
}
