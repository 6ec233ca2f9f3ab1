//! `[hot]`: hot entities, and the cache of their counters.

use super::error::{ConfigError, invalid};
use crate::domain::ids::SHARDS;
use serde::Deserialize;
use std::time::Duration;

/// The range of `cache_ms`, unless it is 0.
const CACHE_MS: std::ops::RangeInclusive<u64> = 100..=1_000;
/// The maximum of `max_entities`.
const MAX_ENTITIES: usize = 1_000;

/// `[hot]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotConfig {
    /// Whether the process finds hot entities.
    pub enabled: bool,
    /// The requests per second from which on an entity is hot, over all processes.
    pub min_rate: u32,
    /// The maximum number of entities that a process reports, and whose counters it caches.
    pub max_entities: usize,
    /// How long counters of hot entities are cached, in milliseconds; 0 for not at all.
    pub cache_ms: u64,
    /// The maximum age of an accumulated batch with events of a hot entity under load, in milliseconds.
    pub max_batch_age_ms: u64,
    /// The writes per second from which on a process that consumes splits an entity, over all processes; 0 for never.
    pub split_rate: u32,
    /// The number of shards of an entity that is split so.
    pub split_shards: u16,
}

impl HotConfig {
    /// How long counters of hot entities are cached. `None` if they are not.
    pub fn cache(&self) -> Option<Duration> {
        (self.cache_ms > 0).then(|| Duration::from_millis(self.cache_ms))
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.min_rate == 0 {
            return Err(invalid("hot.min_rate", "must be at least 1"));
        }
        if !(1..=MAX_ENTITIES).contains(&self.max_entities) {
            let problem = format!("must be 1 to {MAX_ENTITIES}");
            return Err(invalid("hot.max_entities", problem));
        }
        if self.cache_ms > 0 && !CACHE_MS.contains(&self.cache_ms) {
            let (from, to) = (CACHE_MS.start(), CACHE_MS.end());
            return Err(invalid(
                "hot.cache_ms",
                format!("must be 0, or {from} to {to}"),
            ));
        }
        if self.cache_ms > 0 && !self.enabled {
            return Err(invalid("hot.cache_ms", "requires hot.enabled"));
        }
        if self.split_rate > 0 && self.split_rate < self.min_rate {
            return Err(invalid(
                "hot.split_rate",
                "must be 0, or at least hot.min_rate",
            ));
        }
        match SHARDS.contains(&self.split_shards) {
            true => Ok(()),
            false => {
                let problem = format!("must be {} to {}", SHARDS.start(), SHARDS.end());
                Err(invalid("hot.split_shards", problem))
            }
        }
    }
}
