//! The ages of the sweeps that compare counters. They are computed when the metrics are read, so they grow while no sweep goes on.

use crate::domain::event::now_ms;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What a sweep compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sweep {
    /// The counters of the entities of this process.
    Entities,
    /// Received counters of users.
    Authors,
    /// The facts on users.
    Followers,
    /// Facts of entities, compared with the timelines of users.
    Facts,
}

impl Sweep {
    const ALL: [Sweep; 4] = [
        Sweep::Entities,
        Sweep::Authors,
        Sweep::Followers,
        Sweep::Facts,
    ];

    fn gauge(self) -> &'static str {
        match self {
            Sweep::Entities => "countd_reconcile_sweep_seconds",
            Sweep::Authors => "countd_author_sweep_seconds",
            Sweep::Followers => "countd_follower_sweep_seconds",
            Sweep::Facts => "countd_fact_sweep_seconds",
        }
    }
}

/// Since when sweeps run or have ended, in milliseconds since 1970. Cheap to clone.
#[derive(Clone, Default)]
pub struct SweepAges(Arc<Mutex<BTreeMap<Sweep, u64>>>);

impl SweepAges {
    /// Sets since when a sweep runs or has ended. If that is not known, its age begins now, unless it has one.
    pub fn set(&self, sweep: Sweep, since: Option<u64>) {
        let mut ages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match since {
            Some(since) => drop(ages.insert(sweep, since)),
            None => drop(ages.entry(sweep).or_insert_with(now_ms)),
        }
    }

    /// Removes the age of a sweep that this process does not run.
    pub fn remove(&self, sweep: Sweep) {
        let mut ages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ages.remove(&sweep);
    }

    /// Sets the gauges. A sweep without age has 0.
    pub fn report(&self) {
        let ages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for sweep in Sweep::ALL {
            let age = ages
                .get(&sweep)
                .map(|since| now_ms().saturating_sub(*since));
            metrics::gauge!(sweep.gauge()).set(age.unwrap_or(0) as f64 / 1000.0);
        }
    }
}
