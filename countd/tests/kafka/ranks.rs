//! Rankings, whose scores are of events in streams and in the topic.

use super::TOPIC_PARTITIONS;
use super::beside::{assert_reads_count_once, beside_reads};
use crate::ranks::config;
use crate::ranks::days::assert_day_change_loses_nothing;
use crate::ranks::kills::assert_exact_under_kills;
use crate::support::kafka::{Log, Mock};
use crate::support::stores::{TestStore, for_each_store};

for_each_store! {
    [module cluster]
    kills_leave_the_ranking_exact
    the_day_change_loses_nothing
}

fn kills_leave_the_ranking_exact(mut store: TestStore) {
    let mock = Mock::start(TOPIC_PARTITIONS);
    let log = Log::topic_of(&mock, &config());
    // Other notes: their reads are of days that the ranking does not have.
    let reads = beside_reads(&log, 1_000..1_020, || {
        assert_exact_under_kills(&mut store, &log);
    });
    assert_reads_count_once(&store, &log, &reads);
}

fn the_day_change_loses_nothing(store: TestStore) {
    let mock = Mock::start(TOPIC_PARTITIONS);
    assert_day_change_loses_nothing(&store, &Log::topic_of(&mock, &config()));
}
