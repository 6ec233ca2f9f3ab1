//! Concurrent likes of one note, which are executed in groups: one entry of a stream has many users. Reads of the note are records.

use super::TOPIC_PARTITIONS;
use super::beside::{assert_copies_are_complete, assert_reads_count_once, beside_reads};
use crate::changes::kills::{CONFIG as CHANGES, assert_cache_is_right_after_kills};
use crate::groups::{CONFIG, NOTE, assert_exact_under_kills};
use crate::support::kafka::{Log, Mock, copies};
use crate::support::stores::{TestStore, for_each_store};

for_each_store! {
    [module cluster]
    grouped_likes_count_once_under_kills
    a_cache_that_follows_the_changes_is_right_under_kills
}

fn grouped_likes_count_once_under_kills(mut store: TestStore) {
    let mock = Mock::start(TOPIC_PARTITIONS);
    let log = Log::topic_of(&mock, CONFIG);
    let reads = beside_reads(&log, NOTE..NOTE + 5, || {
        assert_exact_under_kills(&mut store, &log.config, 50);
    });
    assert_reads_count_once(&store, &log, &reads);
    assert_copies_are_complete(&store, &log);
    // An entry has several copies.
    let records = log.topic().records();
    let is_in_group = |index| copies(&records).keys().any(|source| source.index == index);
    assert!(is_in_group(1) && is_in_group(2));
}

fn a_cache_that_follows_the_changes_is_right_under_kills(store: TestStore) {
    let mock = Mock::start(TOPIC_PARTITIONS);
    let log = Log::topic_of(&mock, CHANGES);
    let reads = beside_reads(&log, 40..60, || {
        assert_cache_is_right_after_kills(&store, &log);
    });
    assert_reads_count_once(&store, &log, &reads);
    assert_copies_are_complete(&store, &log);
}
