//! Committed offsets of the group: countd publishes them for tools that show the lag, and never reads them.

use super::{Setup, TOPIC_PARTITIONS};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::Brokers;
use crate::support::on_note;
use crate::support::workload::StopOnDrop;
use countint_tests::wait_until;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// The consumer group whose offsets countd publishes.
pub(super) const GROUP: &str = "countd";

/// Commits an offset of each partition for the group, which depends on the partition and its end.
pub(super) fn commit<B>(setup: &Setup<B>, offset: fn(i32, i64) -> i64) {
    let ends = ends(setup);
    let offset = |partition: i32| offset(partition, ends[partition as usize]);
    setup.topic.commit(GROUP, offset);
}

/// The next offset of each partition.
fn ends<B>(setup: &Setup<B>) -> Vec<i64> {
    let marks = setup.topic.watermarks();
    marks.into_iter().map(|(_, end)| end).collect()
}

#[test]
fn committed_offsets_change_nothing() {
    offsets_are_committed(Setup::start());
}

/// Offsets are committed while a process runs, and again before it continues with records that were produced meanwhile.
pub(super) fn offsets_are_committed<B>(mut setup: Setup<B>) {
    let offsets: [fn(i32, i64) -> i64; 5] = [
        |_, _| 0,
        |_, _| 1_000_000,
        |partition, _| i64::from(7 * partition),
        |_, _| 1,
        // As after a reset to the latest offsets: a consumer of the group would skip all records that are not counted.
        |_, end| end,
    ];
    for (round, offset) in (0..).zip(offsets) {
        setup.produce(2 * round);
        commit(&setup, offset);
        setup.countd.kill();
        setup.produce(2 * round + 1);
        commit(&setup, offset);
        setup.countd.launch();
        setup.assert_exact();
    }
    assert_eq!(setup.api().counts(3)["read"], 100);
    assert_invariants(&setup.store.server, &setup.config);
}

#[test]
fn offsets_are_published_for_tools() {
    let setup = Setup::start();
    setup.produce(1);
    setup.drain();
    let ends = ends(&setup);
    assert_eq!(ends.len(), TOPIC_PARTITIONS as usize);
    wait_until_published(&setup, &ends);
}

fn wait_until_published<B>(setup: &Setup<B>, ends: &[i64]) {
    wait_until("the group has the offsets of what is counted", || {
        setup.topic.committed(GROUP) == ends
    });
}

/// The mock cluster cannot delete a group.
pub(super) fn committed_offsets_are_deleted(mut setup: Setup<&Brokers>) {
    for round in 0..3 {
        setup.produce(round);
        setup.assert_exact();
        wait_until_published(&setup, &ends(&setup));
        // Of a process that runs.
        setup.brokers.delete_group(GROUP);
        setup.produce(round + 20);
        setup.assert_exact();
        wait_until_published(&setup, &ends(&setup));
        setup.countd.kill();
        setup.brokers.delete_group(GROUP);
        setup.produce(round + 10);
        setup.countd.launch();
    }
    setup.assert_exact();
    assert_invariants(&setup.store.server, &setup.config);
}

/// Consumers of another program join the group of countd, get partitions, commit what they have read, and leave, in the midst of batches. The
/// mock cluster assigns them nothing while countd commits.
pub(super) fn other_consumers_join_and_leave_the_group(setup: Setup<&Brokers>) {
    const RECORDS: usize = 50;
    let (topic, stop) = (&setup.topic, AtomicBool::new(false));
    thread::scope(|scope| {
        let others = scope.spawn(|| {
            let _stop = StopOnDrop(&stop);
            // The second one joins while the first one reads, so that partitions move from it.
            thread::scope(|scope| {
                for delay in [0, 500] {
                    scope.spawn(move || {
                        thread::sleep(Duration::from_millis(delay));
                        for _ in 0..3 {
                            topic.consume(GROUP, RECORDS);
                        }
                    });
                }
            });
        });
        let mut round = 0;
        while !stop.load(Relaxed) {
            setup.produce(round);
            setup.api().act("read", on_note(round % 40, round));
            round += 1;
        }
        others.join().expect("they have read their records");
    });
    setup.produce(1_000);
    setup.assert_exact();
    // When the group has no members, countd can commit again.
    wait_until_published(&setup, &ends(&setup));
    assert_invariants(&setup.store.server, &setup.config);
}
