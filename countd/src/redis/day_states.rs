//! Which metrics have counts by day since when: the Hash `countd:days-init`.

use crate::domain::config::Config;
use crate::domain::day::{Calendar, civil, with_dashes};
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::ids::Name;
use crate::redis::store::Store;
use redis::RedisError;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Commands that this file sends.
pub const PERMISSIONS: &[&str] = &["HGETALL {days_init}", "HSET {days_init} f v"];

/// The state of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaysState {
    /// Days are not kept.
    Off,
    /// Days are kept since this date (`yyyy-mm-dd`). What was counted before is being recorded.
    Filling(String),
    /// Days are kept since this date, and what was counted before is recorded.
    On(String),
}

impl DaysState {
    fn parse(text: &str) -> DaysState {
        match text.split_once('/') {
            Some((date, "filling")) => DaysState::Filling(date.to_owned()),
            Some((date, "on")) => DaysState::On(date.to_owned()),
            _ => DaysState::Off,
        }
    }

    fn text(&self) -> String {
        match self {
            DaysState::Off => "off".to_owned(),
            DaysState::Filling(date) => format!("{date}/filling"),
            DaysState::On(date) => format!("{date}/on"),
        }
    }
}

/// The states of all metrics that have had counts by day.
pub async fn read_states(store: &Store) -> Result<HashMap<Name, DaysState>, RedisError> {
    let fields: HashMap<String, String> = redis::cmd("HGETALL")
        .arg(store.keys().days_init())
        .query_async(&mut store.reads())
        .await?;
    let states = fields.into_iter();
    let states = states
        .filter_map(|(metric, state)| Some((Name::new(metric).ok()?, DaysState::parse(&state))));
    Ok(states.collect())
}

/// The metrics of which all counts are known by day.
///
/// # Errors
/// Redis failed.
pub async fn complete_days(store: &Store) -> Result<HashSet<Name>, RedisError> {
    let states = read_states(store).await?.into_iter();
    let complete = states.filter(|(_, state)| matches!(state, DaysState::On(_)));
    Ok(complete.map(|(metric, _)| metric).collect())
}

/// The metrics that have counts by day, or had them before they were switched off.
///
/// # Errors
/// Redis failed.
pub async fn day_metrics(store: &Store, config: &Config) -> Result<BTreeSet<Name>, StoreError> {
    let states = read_states(store).await?;
    let configured = config.metrics.daily().map(|(name, _)| name.clone());
    Ok(states.into_keys().chain(configured).collect())
}

/// Has what was counted before recorded again for the metrics that are not in `kept`: this process is going to count them without days.
///
/// # Errors
/// Redis failed.
pub async fn interrupt_days(
    store: &Store,
    (kept, calendar): (&BTreeSet<Name>, &Calendar),
) -> Result<(), RedisError> {
    let today = with_dashes(civil(calendar.day_of(now_ms())));
    for (metric, state) in read_states(store).await? {
        if matches!(state, DaysState::On(_)) && !kept.contains(&metric) {
            write_state(store, &metric, &DaysState::Filling(today.clone())).await?;
        }
    }
    Ok(())
}

/// Records the state of a metric.
pub async fn write_state(
    store: &Store,
    metric: &Name,
    state: &DaysState,
) -> Result<(), RedisError> {
    let mut set = redis::cmd("HSET");
    set.arg(store.keys().days_init()).arg(metric.as_str());
    let () = set
        .arg(state.text())
        .query_async(&mut store.commands())
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_parsed() {
        let date = || "2026-12-31".to_owned();
        for state in [
            DaysState::Off,
            DaysState::Filling(date()),
            DaysState::On(date()),
        ] {
            assert_eq!(DaysState::parse(&state.text()), state);
        }
    }
}
