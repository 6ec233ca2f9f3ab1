//! Data that is converted while its events are in streams and in the topic, and other clients produce more.

use super::TOPIC_PARTITIONS;
use super::beside::{assert_reads_count_once, beside_reads};
use crate::adopt::setup::not_converted;
use crate::migrate::setup::objects_of_numbers;
use crate::schema_migrate::kills::Step;
use crate::support::kafka::{Log, Mock};
use crate::support::stores::{adoptable, cluster_objects, module};
use crate::{adopt, migrate, schema_migrate};
use std::ops::Range;

/// Notes that the clients of the model do not read.
const OTHER_NOTES: Range<u64> = 30_000..30_040;

/// One of the steps of an adoption.
const ADOPTION: [(&str, usize); 1] = [("converting", 1)];

/// Some of the steps of a migration of counters: each process is killed at one of them, and the server at the last one.
const MIGRATION: [(&str, usize); 4] = [
    ("layout: moving", 1),
    ("slots: moving", 1),
    ("moving", 1),
    ("layout: table", 1),
];

/// Some of the steps of a migration of a schema.
const SCHEMA_MIGRATION: [Step; 3] = [
    (&[], "stage: backfill 0"),
    (&["--percent", "100"], "comparison"),
    (&["--done"], "stage: done 100"),
];

#[test]
fn counts_match_the_model_when_counters_move() {
    let mut store = cluster_objects();
    let mock = Mock::start(TOPIC_PARTITIONS);
    let log = Log::topic_of(&mock, &migrate::setup::CONFIG);
    let reads = beside_reads(&log, OTHER_NOTES, || {
        migrate::kills::assert_counts_match_under_kills(&mut store, &log, &MIGRATION);
    });
    assert_reads_count_once(&store, &log, &reads);
    let left = objects_of_numbers(&mut store.server.client());
    assert_eq!(left, [""; 0]);
}

#[test]
fn counts_match_the_model_when_data_is_adopted() {
    let mut store = adoptable();
    let mock = Mock::start(TOPIC_PARTITIONS);
    let log = Log::topic_of(&mock, &adopt::setup::CONFIG);
    let reads = beside_reads(&log, OTHER_NOTES, || {
        adopt::kills::assert_counts_match_under_kills(&mut store, &log, &ADOPTION);
    });
    assert_reads_count_once(&store, &log, &reads);
    let left = not_converted(&store.server);
    assert!(left.is_empty(), "{} are left: {left:.30?}", left.len());
}

#[test]
fn counts_match_the_model_when_schema_migrations_are_killed() {
    let mock = Mock::start(TOPIC_PARTITIONS);
    let log = Log::topic_of(&mock, &schema_migrate::setup::CONFIG);
    // Their reads are counted by the same workers.
    beside_reads(&log, OTHER_NOTES, || {
        schema_migrate::kills::assert_counts_match_under_kills(module(), &log, &SCHEMA_MIGRATION);
    });
}
