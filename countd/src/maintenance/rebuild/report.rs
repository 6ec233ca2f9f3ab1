//! What a rebuild has found.

use crate::domain::ids::Name;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a rebuild has found of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MetricReport {
    /// The number of counters that were compared.
    pub compared: u64,
    /// The number of counters that differed.
    pub differing: u64,
    /// The number of counters that were corrected.
    pub corrected: u64,
    /// The sum of the absolute differences.
    pub difference: u64,
}

/// What a rebuild has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The number of entries that this run has read from the archive.
    pub replayed: u64,
    /// By metric.
    pub metrics: BTreeMap<Name, MetricReport>,
}

impl Report {
    pub(super) fn compare(&mut self, metric: &Name, difference: i64) {
        let of = self.metrics.entry(metric.clone()).or_default();
        of.compared += 1;
        of.differing += u64::from(difference != 0);
        of.difference += difference.unsigned_abs();
    }

    pub(super) fn correct(&mut self, metric: &Name) {
        self.metrics.entry(metric.clone()).or_default().corrected += 1;
    }

    /// A counter was corrected, and is compared again with the others of its page.
    pub(super) fn correct_before(&mut self, metric: &Name, difference: i64) {
        let of = self.metrics.entry(metric.clone()).or_default();
        of.differing += 1;
        of.corrected += 1;
        of.difference += difference.unsigned_abs();
    }

    /// Adds another report.
    pub(super) fn merge(&mut self, other: Report) {
        self.replayed += other.replayed;
        for (metric, of) in other.metrics {
            let metric = self.metrics.entry(metric).or_default();
            metric.compared += of.compared;
            metric.differing += of.differing;
            metric.corrected += of.corrected;
            metric.difference += of.difference;
        }
    }

    /// The number of counters that differ still.
    pub fn left(&self) -> u64 {
        let metrics = self.metrics.values();
        metrics
            .map(|of| of.differing.saturating_sub(of.corrected))
            .sum()
    }
}
