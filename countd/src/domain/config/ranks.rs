//! `[rank]`: rankings of entities by their weighted counts of the last days.

use crate::domain::ids::Name;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The default of `top`.
const DEFAULT_TOP: u32 = 1_000;
/// The maximum of `top`. A process reads that many entities at once.
pub(super) const MAX_TOP: u32 = 10_000;
/// The sorted set of a ranking has up to this many times `top` members.
const KEPT_FACTOR: u32 = 4;
/// The maximum absolute weight. Sums of weighted counts are exact up to 2^53.
pub(super) const MAX_WEIGHT: i64 = 1_000_000;
/// The minimum half-life in hours: counts are kept by day.
pub(super) const MIN_HALF_LIFE: u32 = 24;
/// A decaying score includes this many half-lives.
const HALF_LIVES: u32 = 10;
/// The maximum of `cache_ms`.
pub(super) const MAX_CACHE_MS: u64 = 60_000;

/// `[rank]`
#[derive(Clone, Debug, Deserialize)]
pub struct RanksConfig {
    /// How long a process answers from the entities that it has read, in milliseconds.
    pub cache_ms: u64,
    /// The rankings by name.
    #[serde(flatten)]
    pub(super) rankings: BTreeMap<Name, Ranking>,
}

/// `[rank.NAME]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranking {
    /// The weight of each metric.
    pub(super) weights: BTreeMap<Name, i64>,
    /// The number of days that count, up to today.
    #[serde(default)]
    pub(super) window_days: Option<u16>,
    /// The time in which the weight of a count halves, in hours.
    #[serde(default)]
    pub(super) half_life_hours: Option<u32>,
    /// The number of entities that are listed.
    #[serde(default)]
    top: Option<u32>,
    /// The entity types; `None` means all that have one of the metrics.
    #[serde(default)]
    pub(super) entities: Option<Vec<Name>>,
}

impl Ranking {
    /// The number of entities that are listed.
    pub fn top(&self) -> u32 {
        self.top.unwrap_or(DEFAULT_TOP)
    }

    /// The maximum number of members of a sorted set.
    pub fn kept(&self) -> u32 {
        self.top() * KEPT_FACTOR
    }

    /// The number of days that a score includes.
    pub fn window(&self) -> u32 {
        match self.half_life_hours {
            Some(hours) => hours.saturating_mul(HALF_LIVES).div_ceil(24),
            None => self.window_days.unwrap_or(1).into(),
        }
    }

    /// The half-life in hours; 0 if all days weigh the same.
    pub fn half_life(&self) -> u32 {
        self.half_life_hours.unwrap_or(0)
    }
}

impl RanksConfig {
    /// Whether there are no rankings.
    pub fn is_empty(&self) -> bool {
        self.rankings.is_empty()
    }
}
