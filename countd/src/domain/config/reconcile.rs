//! `[reconcile]` and `[audit]`.

use super::error::{ConfigError, invalid};
use crate::domain::keys::Keys;
use serde::Deserialize;

/// The maximum of `interval_seconds`: a day.
const MAX_INTERVAL: u64 = 24 * 3600;

/// `[reconcile]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReconcileConfig {
    /// Whether consumers compare counters with facts.
    pub enabled: bool,
    /// The interval between two rounds, in seconds.
    pub interval_seconds: u64,
    /// The number of rounds in which every entity is compared once.
    pub sample: u64,
    /// A counter is corrected if it differs by more than this.
    pub min_difference: u64,
    /// A counter is corrected if it differs by more than this share of the right value, in percent.
    pub min_percent: f64,
    /// The maximum number of entities that a process compares per second.
    pub entities_per_second: u64,
    /// The maximum number of facts per second that are compared with the timelines of users.
    pub facts_per_second: u64,
    /// The minimum time between two verifications of a user on reading, in seconds.
    pub user_seconds: u64,
}

/// `[audit]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditConfig {
    /// The number of corrections of counters that are retained.
    pub retain: u64,
}

impl AuditConfig {
    /// The number of entries that each of the streams retains. In a cluster each partition has one.
    pub fn retain_per_stream(&self, keys: Keys) -> u64 {
        let streams = if keys.tagged() { keys.partitions() } else { 1 };
        (self.retain / u64::from(streams)).max(1)
    }
}

impl ReconcileConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=MAX_INTERVAL).contains(&self.interval_seconds) {
            let problem = format!("must be 1 to {MAX_INTERVAL}");
            return Err(invalid("reconcile.interval_seconds", problem));
        }
        for (setting, value) in [
            ("reconcile.sample", self.sample),
            ("reconcile.entities_per_second", self.entities_per_second),
            ("reconcile.facts_per_second", self.facts_per_second),
            ("reconcile.user_seconds", self.user_seconds),
        ] {
            if value == 0 {
                return Err(invalid(setting, "must be at least 1"));
            }
        }
        match (0.0..=100.0).contains(&self.min_percent) {
            true => Ok(()),
            false => Err(invalid("reconcile.min_percent", "must be 0 to 100")),
        }
    }
}
