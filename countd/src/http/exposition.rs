//! The metrics of `/metrics` and their descriptions. Metrics without labels exist from the start, with the value 0.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

const COUNTERS: [(&str, &str); 37] = [
    (
        "countd_hot_commits_total",
        "Commits of batches with events of hot entities",
    ),
    (
        "countd_replica_reads_total",
        "Commands and pipelines that replicas have answered",
    ),
    (
        "countd_replica_fallbacks_total",
        "Commands and pipelines that the primary has answered, because a replica did not",
    ),
    (
        "countd_redis_not_acknowledged_total",
        "Commands and pipelines that were executed, but were not as safe as redis.ack requires in redis.ack_timeout_ms",
    ),
    (
        "countd_events_appended_total",
        "Events appended to the log by requests",
    ),
    (
        "countd_actions_duplicated_total",
        "Repeated actions, which changed nothing",
    ),
    ("countd_events_applied_total", "Log entries committed"),
    (
        "countd_events_duplicated_total",
        "Log entries skipped as duplicates: repeated envelopes and derived events",
    ),
    (
        "countd_events_dead_total",
        "Log entries moved to the dead letters",
    ),
    (
        "countd_dead_letters_removed_total",
        "Dead letters removed because their stream exceeded dead.max_bytes",
    ),
    ("countd_commits_total", "Batches committed, one script each"),
    (
        "countd_counter_writes_total",
        "Objects, tables of counters and tables of authors changed by commits",
    ),
    (
        "countd_author_mismatches_total",
        "Entities in batches whose events named another author than the registered one",
    ),
    (
        "countd_consumer_retries_total",
        "Retries of the consumer after a Redis error",
    ),
    (
        "countd_archived_entries_total",
        "Entries of the log written to the archive",
    ),
    (
        "countd_commit_conflicts_total",
        "Batches that another consumer had already committed",
    ),
    (
        "countd_events_renumbered_total",
        "Log entries with foreign IDs that were renumbered",
    ),
    (
        "countd_relay_sent_total",
        "Rows of the outbox table whose events are in the log",
    ),
    (
        "countd_relay_dead_total",
        "Rows of the outbox table that were set aside because they cannot be counted",
    ),
    (
        "countd_relay_retries_total",
        "Retries of the relay after an error of the database or of Redis",
    ),
    (
        "countd_sink_rows_total",
        "Rows that the sink has written or deleted",
    ),
    (
        "countd_sink_skipped_total",
        "Facts and counters that the sink has not written, because a column cannot hold their ID or their key is damaged",
    ),
    (
        "countd_sink_passes_total",
        "Comparisons of all rows of the sink with Redis",
    ),
    (
        "countd_sink_retries_total",
        "Retries of the sink after an error of the database or of Redis",
    ),
    (
        "countd_facts_compacted_total",
        "Facts of the daily fact store that were compacted",
    ),
    (
        "countd_rebuilds_total",
        "Entities whose counters were rebuilt from facts",
    ),
    (
        "countd_lost_tables_total",
        "Tables of counters that were lost",
    ),
    (
        "countd_limit_failures_total",
        "Scripts of user limits that failed, so the users were not limited",
    ),
    (
        "countd_checks_skipped_total",
        "Counters that could not be compared with their facts",
    ),
    (
        "countd_hot_cache_hits_total",
        "Counters of hot entities answered from memory",
    ),
    (
        "countd_hot_cache_misses_total",
        "Counters of hot entities read from Redis, because they were not in memory",
    ),
    (
        "countd_prefilter_answers_total",
        "Facts that the prefilter knew not to exist",
    ),
    (
        "countd_prefilter_builds_total",
        "Builds of the prefilter from all facts",
    ),
    ("countd_corrections_total", "Counters corrected, by source"),
    (
        "countd_http_requests_total",
        "HTTP requests by route, method and status code",
    ),
    (
        "countd_token_requests_total",
        "Requests with a valid token, by the name of the token (`jwt` for JSON Web Tokens)",
    ),
    (
        "countd_limited_total",
        "Items rejected by a rate limit, by scope: address, device or user",
    ),
];

/// The number of counters with labels, which are at the end of the list.
const WITH_LABELS: usize = 4;

const GAUGES: [(&str, &str); 19] = [
    (
        "countd_replicas",
        "Replicas that answer, unless their data becomes too old",
    ),
    (
        "countd_archive_failed",
        "Whether the archive cannot be written",
    ),
    (
        "countd_relay_failed",
        "Whether the relay cannot use the database or Redis",
    ),
    (
        "countd_sink_failed",
        "Whether the sink cannot use the database or Redis",
    ),
    (
        "countd_sink_leads",
        "Whether this process of the sink writes",
    ),
    (
        "countd_sink_lag",
        "Counted log entries that the sink has not written",
    ),
    (
        "countd_lag_events",
        "Uncommitted log entries of the assigned partitions; absent if unknown",
    ),
    (
        "countd_lag_seconds",
        "Age of the oldest uncommitted log entry with a timestamp, 0 without one; absent if unknown",
    ),
    (
        "countd_hot_entities",
        "Hot entities that the process knows, of all processes",
    ),
    (
        "countd_prefilter_facts",
        "Facts in the prefilter, 0 while it is being built",
    ),
    ("countd_prefilter_bytes", "Memory of the prefilter in bytes"),
    (
        "countd_partitions_failed",
        "Assigned partitions that have failed; see /readyz and the log",
    ),
    (
        "countd_unconverged",
        "Counters of the assigned partitions that differed from their facts in three rounds in a row",
    ),
    (
        "countd_reconcile_sweep_seconds",
        "Age of the oldest unfinished sweep over the counters of the assigned partitions",
    ),
    (
        "countd_reconcile_stopped",
        "Whether the last round compared no counters, because processes or uncounted events have other settings, or Redis failed",
    ),
    (
        "countd_author_sweep_seconds",
        "Time since the last sweep over authors ended",
    ),
    (
        "countd_follower_sweep_seconds",
        "Time since the last sweep over the facts on users ended",
    ),
    (
        "countd_fact_sweep_seconds",
        "Time since the last sweep over the facts of users ended",
    ),
    (
        "countd_metrics_without_source",
        "Once metrics that are not compared with their facts, because events without facts were counted",
    ),
];

const HISTOGRAMS: [(&str, &str, Unit); 6] = [
    (
        "countd_http_request_seconds",
        "Duration from the headers of a request to its response, by route",
        Unit::Seconds,
    ),
    (
        "countd_redis_seconds",
        "Duration from a command or pipeline to its reply, by kind",
        Unit::Seconds,
    ),
    (
        "countd_event_age_seconds",
        "Age of the oldest event of a batch when it is committed",
        Unit::Seconds,
    ),
    (
        "countd_counter_difference",
        "Absolute difference between a counter and its facts when they were compared, by source",
        Unit::Count,
    ),
    ("countd_batch_events", "Log entries per batch", Unit::Count),
    (
        "countd_commands_per_event",
        "Write commands of a commit divided by its log entries",
        Unit::Count,
    ),
];

const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
const EVENTS: [f64; 9] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4];
const DIFFERENCES: [f64; 6] = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4];
const RATIOS: [f64; 10] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0];

/// Installs the recorder.
///
/// # Errors
/// A recorder is installed already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_batch_events".to_owned()), &EVENTS)?
        .set_buckets_for_metric(Matcher::Suffix("_difference".to_owned()), &DIFFERENCES)?
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
    fn the_operations_page_documents_every_metric() {
        let page = include_str!("../../../docs/countd/operations.md");
        let names = COUNTERS.map(|(name, _)| name).into_iter();
        let names = names.chain(GAUGES.map(|(name, _)| name));
        for name in names.chain(HISTOGRAMS.map(|(name, ..)| name)) {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
}
