//! The metrics that this process records, and their descriptions. Those of Redis and of the logs are in `monitor`.

use metrics::Unit;

/// Counters without labels.
#[rustfmt::skip]
pub const COUNTERS: &[(&str, &str)] = &[
    ("countd_hot_commits_total", "Commits of batches with events of hot entities"),
    ("countd_replica_reads_total", "Commands and pipelines that replicas have answered"),
    ("countd_replica_fallbacks_total", "Commands and pipelines that the primary has answered, because a replica did not"),
    ("countd_redis_not_acknowledged_total", "Commands and pipelines that were executed, but were not as safe as redis.ack requires in redis.ack_timeout_ms"),
    ("countd_events_appended_total", "Events appended to the log by requests"),
    ("countd_actions_duplicated_total", "Repeated actions, which changed nothing"),
    ("countd_events_applied_total", "Log entries committed"),
    ("countd_events_duplicated_total", "Log entries skipped as duplicates: repeated envelopes and derived events"),
    ("countd_events_dead_total", "Log entries moved to the dead letters"),
    ("countd_dead_letters_removed_total", "Dead letters removed because their stream exceeded dead.max_bytes"),
    ("countd_commits_total", "Batches committed, one script each"),
    ("countd_counter_writes_total", "Objects, tables of counters and tables of authors changed by commits"),
    ("countd_author_mismatches_total", "Entities in batches whose events named another author than the registered one"),
    ("countd_consumer_retries_total", "Retries of the consumer after a Redis error"),
    ("countd_archived_entries_total", "Entries of the log written to the archive"),
    ("countd_commit_conflicts_total", "Batches that another consumer had already committed"),
    ("countd_events_renumbered_total", "Log entries with foreign IDs that were renumbered"),
    ("countd_kafka_produced_total", "Records that the topic has confirmed"),
    ("countd_kafka_produce_errors_total", "Records that the topic has not confirmed in kafka.timeout_ms, or has rejected"),
    ("countd_kafka_published_total", "Events of streams that were copied to the topic"),
    ("countd_kafka_lost_records_total", "Records that the topic had removed before they were counted, and that kafka.lost_records = \"skip\" has skipped"),
    ("countd_relay_sent_total", "Rows of the outbox table whose events are in the log"),
    ("countd_relay_dead_total", "Rows of the outbox table that were set aside because they cannot be counted"),
    ("countd_relay_retries_total", "Retries of the relay after an error of the database or of Redis"),
    ("countd_sink_rows_total", "Rows that the sink has written or deleted"),
    ("countd_sink_skipped_total", "Facts and counters that the sink has not written, because a column cannot hold their ID or their key is damaged"),
    ("countd_sink_passes_total", "Comparisons of all rows of the sink with Redis"),
    ("countd_sink_retries_total", "Retries of the sink after an error of the database or of Redis"),
    ("countd_facts_compacted_total", "Facts of the daily fact store that were compacted"),
    ("countd_rebuilds_total", "Entities whose counters were rebuilt from facts"),
    ("countd_lost_tables_total", "Tables of counters that were lost"),
    ("countd_limit_failures_total", "Scripts of user limits that failed, so the users were not limited"),
    ("countd_checks_skipped_total", "Counters that could not be compared with their facts"),
    ("countd_hot_cache_hits_total", "Counters of hot entities answered from memory"),
    ("countd_hot_cache_misses_total", "Counters of hot entities read from Redis, because they were not in memory"),
    ("countd_prefilter_answers_total", "Facts that the prefilter knew not to exist"),
    ("countd_prefilter_builds_total", "Builds of the prefilter from all facts"),
    ("countd_commit_commands_total", "Write commands of commits"),
    ("countd_facts_erased_total", "Facts that jobs removed"),
    ("countd_dead_letters_erased_total", "Dead letters that jobs deleted or redacted"),
    ("countd_days_archived_total", "Counts of days that were archived"),
    ("countd_days_damaged_total", "Entities whose days have another type, when what was counted before is recorded"),
    ("countd_changes_rejected_total", "Commits whose changes were not announced, because the stream is damaged"),
    ("countd_change_resets_total", "Resets that were sent to clients of changes"),
    ("countd_rank_filled_total", "Entities that passes visited to fill rankings"),
    ("countd_rank_refills_total", "Passes that began because entities fell out of a ranking"),
    ("countd_authors_visited_total", "Registrations of authors that the sweep has added to its sums"),
    ("countd_author_sweeps_total", "Sweeps over authors that have ended"),
    ("countd_facts_compared_total", "Facts that the sweep has compared with the facts of users, or the reverse"),
    ("countd_suspect_facts_total", "Compared facts that seemed to differ, most of them because their events wait in the log"),
    ("countd_fact_sweeps_total", "Sweeps over facts that have ended"),
    ("countd_users_verified_total", "Users whose counters were verified because they were read"),
];

/// A counter with a label: its name, its description, its label, and the values of the label that exist from the start.
pub type LabelledCounter = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// Counters with labels. A series that begins with its first increment has no rise that Prometheus could see, so those of alerts exist before.
#[rustfmt::skip]
pub const LABELLED_COUNTERS: &[LabelledCounter] = &[
    ("countd_corrections_total", "Counters corrected, by source", "source", &["reconcile", "check", "user", "reverse", "credits"]),
    ("countd_http_requests_total", "HTTP requests by route, method and status code", "route", &[]),
    ("countd_token_requests_total", "Requests with a valid token, by the name of the token (`jwt` for JSON Web Tokens)", "token", &[]),
    ("countd_limited_total", "Items rejected by a rate limit, by scope: address, device or user", "scope", &["address", "device", "user"]),
    ("countd_jobs_finished_total", "Jobs that have ended, by kind", "kind", &["eraseEntity", "eraseUser"]),
    ("countd_spans_total", "Spans of traces, by result: exported, failed (the collector has not taken them), or dropped because too many waited", "result", &["exported", "failed", "dropped"]),
    ("countd_job_retries_total", "Attempts of jobs that failed or have to wait, by kind", "kind", &["eraseEntity", "eraseUser"]),
];

/// Gauges with labels.
#[rustfmt::skip]
pub const LABELLED_GAUGES: &[(&str, &str)] = &[
    ("countd_build_info", "Always 1; the labels are the version and the revision of the sources"),
];

/// Gauges that are unknown, and not exposed, until the consumer sets them.
pub const LAG: [&str; 2] = ["countd_lag_events", "countd_lag_seconds"];

/// Gauges without labels.
#[rustfmt::skip]
pub const GAUGES: &[(&str, &str)] = &[
    ("countd_replicas", "Replicas that answer, unless their data becomes too old"),
    ("countd_archive_failed", "Whether the archive cannot be written"),
    ("countd_kafka_unreachable", "Whether the offsets of the topic could not be read at the last attempt"),
    ("countd_kafka_topic_refused", "Whether the topic is not read, because it was created again or has got partitions"),
    ("countd_kafka_lag_records", "Records of the assigned partitions of the topic that are not counted; part of countd_lag_events"),
    ("countd_kafka_unpublished_events", "Counted entries of the streams of the assigned partitions that are not yet copied to the topic"),
    ("countd_relay_failed", "Whether the relay cannot use the database or Redis"),
    ("countd_sink_failed", "Whether the sink cannot use the database or Redis"),
    ("countd_sink_leads", "Whether this process of the sink writes"),
    ("countd_sink_lag", "Counted log entries that the sink has not written"),
    ("countd_lag_events", "Uncommitted log entries of the assigned partitions; absent if unknown"),
    ("countd_lag_seconds", "Age of the oldest uncommitted log entry with a timestamp, 0 without one; absent if unknown"),
    ("countd_hot_entities", "Hot entities that the process knows, of all processes"),
    ("countd_prefilter_facts", "Facts in the prefilter, 0 while it is being built"),
    ("countd_prefilter_bytes", "Memory of the prefilter in bytes"),
    ("countd_partitions_failed", "Assigned partitions that have failed; see /readyz and the log"),
    ("countd_unconverged", "Counters of the assigned partitions that differed from their facts in three rounds in a row"),
    ("countd_reconcile_sweep_seconds", "Age of the oldest unfinished sweep over the counters of the assigned partitions"),
    ("countd_reconcile_stopped", "Whether the last round compared no counters, because processes or uncounted events have other settings, or Redis failed"),
    ("countd_author_sweep_seconds", "Time since the last sweep over authors ended"),
    ("countd_follower_sweep_seconds", "Time since the last sweep over the facts on users ended"),
    ("countd_fact_sweep_seconds", "Time since the last sweep over the facts of users ended"),
    ("countd_metrics_without_source", "Once metrics that are not compared with their facts, because events without facts were counted"),
    ("countd_change_streams", "Clients of changes"),
];

/// Histograms.
#[rustfmt::skip]
pub const HISTOGRAMS: &[(&str, &str, Unit)] = &[
    ("countd_http_request_duration_seconds", "Duration from the headers of a request to its response, by route, method and status code", Unit::Seconds),
    ("countd_redis_seconds", "Duration from a command or pipeline to its reply, by kind", Unit::Seconds),
    ("countd_event_age_seconds", "Age of the oldest event of a batch when it is committed", Unit::Seconds),
    ("countd_counter_difference", "Absolute difference between a counter and its facts when they were compared, by source", Unit::Count),
    ("countd_batch_events", "Log entries per batch", Unit::Count),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    fn names() -> BTreeSet<&'static str> {
        let counters = COUNTERS.iter().map(|(name, _)| *name);
        let labelled = LABELLED_COUNTERS.iter().map(|(name, ..)| *name);
        let gauges = GAUGES.iter().chain(LABELLED_GAUGES).map(|(name, _)| *name);
        let histograms = HISTOGRAMS.iter().map(|(name, ..)| *name);
        counters
            .chain(labelled)
            .chain(gauges)
            .chain(histograms)
            .collect()
    }

    #[test]
    fn the_operations_page_documents_every_metric() {
        let page = include_str!("../../../docs/countd/operations.md");
        for name in names() {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }

    /// Texts that begin like a metric: the prefix of environment variables, and the cookie of the console.
    const OTHERS: [&str; 2] = ["countd_", "countd_console"];

    /// Adds the names in quotation marks that the Rust files of a directory record.
    fn add_recorded(directory: &Path, recorded: &mut BTreeSet<String>) {
        for file in fs::read_dir(directory).expect("a directory") {
            let path = file.expect("a file").path();
            if path.is_dir() {
                // The samples of the monitor are not recorded.
                if !path.ends_with("monitor") {
                    add_recorded(&path, recorded);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = fs::read_to_string(&path).expect("a text");
                let code = source.split("#[cfg(test)]").next().unwrap_or_default();
                let words = code
                    .split('"')
                    .filter(|word| word.starts_with("countd_") && !OTHERS.contains(word));
                recorded.extend(words.map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_recorded_metric_is_described() {
        let mut recorded = BTreeSet::new();
        add_recorded(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
            &mut recorded,
        );
        let names = names();
        assert!(recorded.len() > 50, "{recorded:?}");
        for name in recorded {
            assert!(names.contains(name.as_str()), "{name}");
        }
    }
}
