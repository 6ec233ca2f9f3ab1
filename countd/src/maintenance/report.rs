//! What comparisons of counters have found.

use crate::domain::ids::Name;
use crate::repair::{Found, Outcome};
use serde::Serialize;
use std::collections::BTreeMap;

/// What was found of the counters of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MetricReport {
    /// The number of counters that were compared.
    pub checked: u64,
    /// Those of them that differed from their facts.
    pub differing: u64,
    /// Those of them that were corrected.
    pub corrected: u64,
    /// The sum of the absolute differences.
    pub difference: u64,
    /// The largest absolute difference.
    pub largest: u64,
    /// The number of counters that could not be compared.
    pub unchecked: u64,
}

/// What was found, by metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The metrics.
    pub metrics: BTreeMap<Name, MetricReport>,
}

impl Report {
    /// Adds a counter that was compared by plain reads and is right.
    pub fn add_equal(&mut self, metric: &Name) {
        self.of(metric).checked += 1;
    }

    /// Adds a counter that could not be compared.
    pub fn add_unchecked(&mut self, metric: &Name) {
        self.of(metric).unchecked += 1;
    }

    /// Adds what an exact comparison has found.
    pub fn add(&mut self, metric: &Name, found: Found) {
        self.add_difference(metric, found.difference, found.outcome);
    }

    /// Adds a counter with this absolute difference.
    pub fn add_difference(&mut self, metric: &Name, difference: u64, outcome: Outcome) {
        if outcome == Outcome::Unchecked {
            return self.add_unchecked(metric);
        }
        let of = self.of(metric);
        of.checked += 1;
        of.differing += u64::from(outcome != Outcome::Equal);
        of.corrected += u64::from(outcome == Outcome::Corrected);
        of.difference += difference;
        of.largest = of.largest.max(difference);
    }

    /// Adds another report.
    pub fn merge(&mut self, other: Report) {
        for (metric, other) in other.metrics {
            let of = self.of(&metric);
            of.checked += other.checked;
            of.differing += other.differing;
            of.corrected += other.corrected;
            of.difference += other.difference;
            of.largest = of.largest.max(other.largest);
            of.unchecked += other.unchecked;
        }
    }

    /// The same without counters that are right or could not be compared.
    pub fn only_differing(mut self) -> Report {
        self.metrics.retain(|_, of| of.differing > 0);
        for of in self.metrics.values_mut() {
            (of.checked, of.unchecked) = (of.differing, 0);
        }
        self
    }

    /// The number of counters that differ still.
    pub fn left(&self) -> u64 {
        let metrics = self.metrics.values();
        metrics.map(|of| of.differing - of.corrected).sum()
    }

    fn of(&mut self, metric: &Name) -> &mut MetricReport {
        self.metrics.entry(metric.clone()).or_default()
    }
}
