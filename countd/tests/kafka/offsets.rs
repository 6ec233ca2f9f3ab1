//! Committed offsets of the group: countd publishes them for tools that show the lag, and never reads them.

use super::{Setup, TOPIC_PARTITIONS, read};
use crate::support::kafka::Brokers;
use countint_tests::wait_until;

const GROUP: &str = "countd";

fn produce(setup: &Setup, round: u64) {
    let records: Vec<_> = (0..400).map(|i| read(i % 40, round * 1000 + i)).collect();
    setup.topic.produce(&records);
}

#[test]
fn committed_offsets_change_nothing() {
    let mut setup = Setup::start();
    let offsets: [fn(i32) -> i64; 4] = [
        |_| 0,
        |_| 1_000_000,
        |partition| i64::from(7 * partition),
        |_| 1,
    ];
    for (round, offset) in (0..).zip(offsets) {
        produce(&setup, 2 * round);
        setup.topic.commit(GROUP, offset);
        setup.countd.kill();
        setup.topic.commit(GROUP, offset);
        produce(&setup, 2 * round + 1);
        setup.countd.launch();
        setup.assert_exact();
    }
    assert_eq!(setup.api().counts(3)["read"], 80);
}

#[test]
fn offsets_are_published_for_tools() {
    let setup = Setup::start();
    produce(&setup, 1);
    setup.drain();
    let ends: Vec<i64> = setup
        .topic
        .watermarks()
        .iter()
        .map(|marks| marks.1)
        .collect();
    assert_eq!(ends.len(), TOPIC_PARTITIONS as usize);
    wait_until("the group has the offsets of what is counted", || {
        setup.topic.committed(GROUP) == ends
    });
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn deleted_committed_offsets_change_nothing() {
    let brokers = Brokers::start(1, TOPIC_PARTITIONS);
    let mut setup = super::brokers::RealSetup::start(brokers, "");
    for round in 0..3 {
        setup.produce(round);
        setup.assert_exact();
        setup.countd.kill();
        setup.brokers.delete_group(GROUP);
        setup.produce(round + 10);
        setup.countd.launch();
    }
    setup.assert_exact();
}
