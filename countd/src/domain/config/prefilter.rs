//! `[prefilter]`: filters that answer statuses without Redis.

use super::error::{ConfigError, invalid};
use serde::Deserialize;

/// `[prefilter]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefilterConfig {
    /// Whether there are filters.
    pub enabled: bool,
    /// The maximum number of facts. With more, there are no filters.
    pub max_facts: usize,
}

impl PrefilterConfig {
    /// `retain` is the number of counted entries that logs retain.
    pub(super) fn validate(&self, retain: u64) -> Result<(), ConfigError> {
        if self.max_facts == 0 {
            return Err(invalid("prefilter.max_facts", "must be at least 1"));
        }
        match self.enabled && retain == 0 {
            true => Err(invalid(
                "prefilter.enabled",
                "requires log.retain of at least 1",
            )),
            false => Ok(()),
        }
    }
}
