//! `[monitor]`: the state of Redis and of the logs in the metrics.

use super::error::{ConfigError, invalid};
use serde::Deserialize;
use std::time::Duration;

/// The maximum of `interval_seconds`.
const MAX_INTERVAL: u64 = 300;

/// `[monitor]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorConfig {
    /// The interval between two collections, in seconds; 0 for none.
    pub interval_seconds: u64,
}

impl MonitorConfig {
    /// The interval between two collections. `None` if nothing is collected.
    pub fn interval(&self) -> Option<Duration> {
        (self.interval_seconds > 0).then(|| Duration::from_secs(self.interval_seconds))
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        match self.interval_seconds > MAX_INTERVAL {
            true => Err(invalid(
                "monitor.interval_seconds",
                format!("must be 0 to {MAX_INTERVAL}"),
            )),
            false => Ok(()),
        }
    }
}
