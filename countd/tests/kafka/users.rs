//! Counters and timelines of users, which events in streams and in the topic feed.

use super::TOPIC_PARTITIONS;
use super::beside::{assert_reads_count_once, beside_reads};
use crate::reverse::kills::{assert_killed_backfills_add_each_fact_once, config};
use crate::support::kafka::{Log, Mock, with_topic};
use crate::support::stores::{TestStore, for_each_store, module};
use crate::user_counters::{CONFIG, assert_counters_are_fed_by_every_role};

for_each_store! {
    [module cluster]
    counters_of_users_are_fed_by_every_role
}

fn counters_of_users_are_fed_by_every_role(store: TestStore) {
    let mock = Mock::start(TOPIC_PARTITIONS);
    assert_counters_are_fed_by_every_role(&store, &Log::topic_of(&mock, CONFIG));
}

#[test]
fn killed_backfills_add_each_fact_once() {
    let mut store = module();
    let mock = Mock::start(TOPIC_PARTITIONS);
    let log = Log::topic_of(&mock, &config("reverse = true\n"));
    let reads = beside_reads(&log, 0..20, || {
        let config = |reverse: &str| with_topic(&config(reverse), &mock.addresses());
        assert_killed_backfills_add_each_fact_once(&mut store, 4, config);
    });
    assert_reads_count_once(&store, &log, &reads);
}
