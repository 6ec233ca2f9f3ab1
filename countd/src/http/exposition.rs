//! What `/metrics` shows: its names and what they mean. Those without labels are there from the start, at 0.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

const COUNTERS: [(&str, &str); 15] = [
    (
        "countd_events_appended_total",
        "Events that requests have appended to the log",
    ),
    (
        "countd_actions_duplicated_total",
        "Actions that had been done before and changed nothing",
    ),
    (
        "countd_events_applied_total",
        "Entries of the log that were counted",
    ),
    (
        "countd_events_duplicated_total",
        "Entries of the log that had been counted before: envelopes sent again, events handed over again",
    ),
    (
        "countd_events_dead_total",
        "Entries of the log that could not be counted",
    ),
    (
        "countd_dead_letters_removed_total",
        "Dead letters that were removed since their stream had more bytes than dead.max_bytes",
    ),
    (
        "countd_commits_total",
        "Batches that were counted, each in one script",
    ),
    (
        "countd_counter_writes_total",
        "Counters' objects that these scripts have changed, one command each",
    ),
    (
        "countd_consumer_retries_total",
        "Times that counting had to wait, because Redis could not do it",
    ),
    (
        "countd_commit_conflicts_total",
        "Batches that another consumer had already committed",
    ),
    (
        "countd_events_renumbered_total",
        "Entries that others appended to a log under ids that are none of its own, and that got its next ones.",
    ),
    (
        "countd_facts_folded_total",
        "Users whose day was folded into the set of all days",
    ),
    (
        "countd_limit_failures_total",
        "Times that users were not limited, because Redis could not do it",
    ),
    (
        "countd_http_requests_total",
        "Requests, by route, method and status",
    ),
    (
        "countd_limited_total",
        "Items that a limit refused, by what it is of: address, device or user",
    ),
];

/// The last ones have labels.
const WITH_LABELS: usize = 2;

const GAUGES: [(&str, &str); 3] = [
    (
        "countd_lag_events",
        "Entries of this process's partitions that wait to be counted; absent while that is unknown of one of them",
    ),
    (
        "countd_lag_seconds",
        "Age of the oldest of them that says when it happened; 0 if there is none; absent while that is unknown",
    ),
    (
        "countd_partitions_failed",
        "Partitions of this process that cannot be counted; /readyz and the log name them",
    ),
];

const HISTOGRAMS: [(&str, &str, Unit); 5] = [
    (
        "countd_http_request_seconds",
        "From a request's headers to its answer, by route",
        Unit::Seconds,
    ),
    (
        "countd_redis_seconds",
        "From a command or a pipeline to its reply",
        Unit::Seconds,
    ),
    (
        "countd_event_age_seconds",
        "Age of the oldest event of a batch when it is counted",
        Unit::Seconds,
    ),
    (
        "countd_batch_events",
        "Entries of the log in a batch",
        Unit::Count,
    ),
    (
        "countd_commands_per_event",
        "Commands that write, for a batch, by its entries",
        Unit::Count,
    ),
];

const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
const EVENTS: [f64; 9] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4];
const RATIOS: [f64; 10] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0];

/// Begins to measure.
///
/// # Errors
/// Somebody measures already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_batch_events".to_owned()), &EVENTS)?
        .set_buckets_for_metric(Matcher::Suffix("_per_event".to_owned()), &RATIOS)?
        .install_recorder()?;
    for (name, help) in COUNTERS {
        describe_counter!(name, help);
    }
    for (name, _) in &COUNTERS[..COUNTERS.len() - WITH_LABELS] {
        metrics::counter!(*name).increment(0);
    }
    for (name, help) in GAUGES {
        describe_gauge!(name, help);
        metrics::gauge!(name).set(0.0);
    }
    for (name, help, unit) in HISTOGRAMS {
        describe_histogram!(name, unit, help);
    }
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_page_explains_every_metric() {
        let page = include_str!("../../../docs/countd/operations.md");
        let names = COUNTERS.map(|(name, _)| name).into_iter();
        let names = names.chain(GAUGES.map(|(name, _)| name));
        for name in names.chain(HISTOGRAMS.map(|(name, ..)| name)) {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
}
