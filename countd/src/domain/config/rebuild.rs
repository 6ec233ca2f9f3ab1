//! `[rebuild]`: the rebuild of lost counters on reads; and `[counter.rebuild]`: that of all counters from the archive.

use serde::Deserialize;
use std::time::Duration;

/// `[counter]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterConfig {
    /// The rebuild of counters from the event archive.
    pub rebuild: ArchiveRebuildConfig,
}

/// `[counter.rebuild]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveRebuildConfig {
    /// Whether a consumer rebuilds all counters from the archive when it starts.
    pub enabled: bool,
}

/// `[rebuild]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RebuildConfig {
    /// How long a read waits for the rebuild by another process, in milliseconds.
    pub wait_ms: u64,
    /// How long counters of 0, and lengths of objects, are not verified again, in seconds.
    pub zero_seconds: u64,
}

impl RebuildConfig {
    /// How long a read waits for the rebuild by another process.
    pub fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms)
    }

    /// How long counters of 0, and lengths of objects, are not verified again.
    pub fn zero(&self) -> Duration {
        Duration::from_secs(self.zero_seconds)
    }
}
