//! The recorder of the metrics. Metrics without labels exist from the start, with the value 0.

use super::metric_names::{COUNTERS, GAUGES, HISTOGRAMS, LABELLED_COUNTERS, LABELLED_GAUGES, LAG};
use metrics::{describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
const EVENTS: [f64; 9] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4];
const DIFFERENCES: [f64; 6] = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4];

/// Installs the recorder.
///
/// # Errors
/// A recorder is installed already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_batch_events".to_owned()), &EVENTS)?
        .set_buckets_for_metric(Matcher::Suffix("_difference".to_owned()), &DIFFERENCES)?
        .install_recorder()?;
    for (name, help) in COUNTERS {
        describe_counter!(*name, *help);
        metrics::counter!(*name).increment(0);
    }
    for (name, help, label, values) in LABELLED_COUNTERS {
        describe_counter!(*name, *help);
        for value in *values {
            metrics::counter!(*name, *label => *value).increment(0);
        }
    }
    for (name, help) in GAUGES {
        describe_gauge!(*name, *help);
        let is_unknown = LAG.contains(name);
        metrics::gauge!(*name).set(if is_unknown { f64::NAN } else { 0.0 });
    }
    for (name, help) in LABELLED_GAUGES {
        describe_gauge!(*name, *help);
    }
    for (name, help, unit) in HISTOGRAMS {
        describe_histogram!(*name, *unit, *help);
    }
    let (version, revision) = (env!("CARGO_PKG_VERSION"), env!("COUNTD_REVISION"));
    metrics::gauge!("countd_build_info", "version" => version, "revision" => revision).set(1.0);
    Ok(handle)
}
