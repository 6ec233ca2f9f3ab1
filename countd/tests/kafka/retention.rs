//! Records that the topic has removed before they were counted, by Kafka's `DeleteRecords` and by retention, while no process runs and while
//! one lags. These scenarios need real brokers: see [`brokers`](super::brokers).

use super::{
    PARTITIONS, Setup, TOPIC_PARTITIONS, assert_equals_records, read, start, wait_for_metric,
};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::{Brokers, Record, config, wait_until_counted};
use crate::support::stores::TestStore;
use crate::support::{Countd, metric, on_note};
use countint_tests::wait_until;
use std::thread;
use std::time::Duration;

const LOST: &str = "countd_kafka_lost_records_total";

/// Waits until the positions of all partitions are at the end, also of those without records: these advance every two seconds.
fn wait_until_published_offsets(setup: &Setup<&Brokers>) {
    let ends: Vec<i64> = setup
        .topic
        .watermarks()
        .iter()
        .map(|marks| marks.1)
        .collect();
    wait_until("all positions are at the end", || {
        setup.topic.committed("countd") == ends
    });
}

/// The number of notes that [`Setup::produce`] reads.
const NOTES: u64 = 40;

/// The partition of the topic that has the records of a note.
fn topic_partition(note: u64) -> i32 {
    let partition = TestStore::partition(&format!("note:{note}"), PARTITIONS);
    i32::from(partition) % TOPIC_PARTITIONS
}

/// A note that [`Setup::produce`] reads and whose records are in this partition of the topic.
pub(super) fn note_in(of_topic: i32) -> u64 {
    let note = (0..NOTES).find(|note| topic_partition(*note) == of_topic);
    note.expect("one of 40 notes")
}

/// Why the process does not read records before they are removed.
#[derive(Clone, Copy)]
enum Absence {
    /// It is killed, and started again.
    Killed,
    /// It lags: it is suspended, and goes on from the offsets in its memory.
    Suspended,
}

impl Absence {
    fn begin(self, countd: &mut Countd) {
        match self {
            Absence::Killed => countd.kill(),
            Absence::Suspended => {
                countd.suspend();
                // Its fetch requests wait for records at the brokers, and end without any before records are produced.
                thread::sleep(Duration::from_secs(1));
            }
        }
    }

    fn end(self, countd: &mut Countd) {
        match self {
            Absence::Killed => countd.launch(),
            Absence::Suspended => countd.resume(),
        }
    }
}

/// Counts some records, and produces others while the process is absent. The first of these are removed in one partition: returns their
/// number, and the records that can be counted.
fn lose_records(setup: &mut Setup<&Brokers>, absence: Absence) -> (u64, Vec<Record>) {
    setup.produce(1);
    setup.assert_exact();
    wait_until_published_offsets(setup);
    absence.begin(&mut setup.countd);
    let counted = setup.topic.records();
    let ends = setup.topic.watermarks();
    setup.produce(2);
    let (_, end) = ends[1];
    setup.brokers.delete_records(1, end + 20);
    let left = setup.topic.records();
    let left = left
        .into_iter()
        .filter(|record| record.partition != 1 || record.offset >= end + 20);
    let earlier = counted.into_iter().filter(|record| record.partition == 1);
    absence.end(&mut setup.countd);
    (20, left.chain(earlier).collect())
}

/// Counting stops in a partition whose records were removed before they were counted.
pub(super) fn uncounted_records_are_removed(mut setup: Setup<&Brokers>) {
    let (lost, _) = lose_records(&mut setup, Absence::Killed);
    assert_stopped(&setup, lost);
}

/// The process finds by itself that its next records are gone.
pub(super) fn uncounted_records_are_removed_under_a_process(mut setup: Setup<&Brokers>) {
    let (lost, _) = lose_records(&mut setup, Absence::Suspended);
    assert_stopped(&setup, lost);
}

/// The broker removes whole segments of all partitions because of `retention.ms`. Those of one partition have records that the process has
/// not counted.
pub(super) fn retention_removes_records_under_a_process(mut setup: Setup<&Brokers>) {
    const LOST_READS: u64 = 20;
    setup.produce(1);
    setup.assert_exact();
    wait_until_published_offsets(&setup);
    Absence::Suspended.begin(&mut setup.countd);
    let lost = (0..LOST_READS).map(|uid| read(note_in(1), uid));
    setup.topic.produce(&lost.collect::<Vec<_>>());
    setup.brokers.configure("retention.ms", "1");
    wait_until("all records are removed", || {
        let marks = setup.topic.watermarks();
        marks.iter().all(|(first, end)| *end > 0 && first == end)
    });
    setup.brokers.configure("retention.ms", "-1");
    // Brokers learn the setting from the controller.
    thread::sleep(Duration::from_secs(2));
    Absence::Suspended.end(&mut setup.countd);
    setup.produce(2);
    assert_stopped(&setup, LOST_READS);
}

/// Waits until the process reports the lost records of partition 1, and asserts that it counts no record of that partition after those of
/// the first call of [`Setup::produce`], and that it counts the second call in all others.
#[track_caller]
fn assert_stopped(setup: &Setup<&Brokers>, lost: u64) {
    let api = setup.api();
    let reported = format!("up to {lost} records of its partition 1 ");
    wait_until("the lost records are reported", || {
        setup.countd.log().contains(&reported)
    });
    wait_until("the process is not ready", || api.get("/readyz").0 == 503);
    // Nothing is skipped.
    assert_eq!(metric(&api, LOST), 0);
    // Others are counted, also facts of entities in the partition.
    assert_eq!(api.act("like", on_note(note_in(1), 5))["count"], 1);
    let (stopped, others): (Vec<u64>, Vec<u64>) =
        (0..NOTES).partition(|note| topic_partition(*note) == 1);
    wait_until("other partitions go on", || {
        let mut others = others.iter();
        others.all(|note| api.counts(*note)["read"] == 20)
    });
    for note in stopped {
        assert_eq!(api.counts(note)["read"], 10, "note {note}");
    }
    assert_eq!(api.get("/readyz").0, 503);
}

/// The line of `[kafka]` that [`removed_records_are_skipped`] needs.
pub(super) const SKIP: &str = "lost_records = \"skip\"";

pub(super) fn removed_records_are_skipped(setup: Setup<&Brokers>) {
    assert_skipped(setup, Absence::Killed);
}

/// Counting has stopped, and goes on when a process starts that is told to skip what is lost.
pub(super) fn removed_records_are_skipped_after_a_stop(mut setup: Setup<&Brokers>) {
    let (lost, countable) = lose_records(&mut setup, Absence::Killed);
    assert_stopped(&setup, lost);
    setup.countd.kill();
    setup.config = config(&setup.brokers.addresses(), PARTITIONS, SKIP);
    setup.countd = start(&setup.store, &setup.config, "all");
    assert_counts_without(&setup, lost, &countable);
}

pub(super) fn removed_records_are_skipped_under_a_process(setup: Setup<&Brokers>) {
    assert_skipped(setup, Absence::Suspended);
}

fn assert_skipped(mut setup: Setup<&Brokers>, absence: Absence) {
    let (lost, countable) = lose_records(&mut setup, absence);
    assert_counts_without(&setup, lost, &countable);
}

/// Asserts that the process skips the lost records, and counts these.
#[track_caller]
fn assert_counts_without(setup: &Setup<&Brokers>, lost: u64, countable: &[Record]) {
    let api = setup.api();
    wait_until_counted(&setup.store, &setup.topic, PARTITIONS);
    wait_for_metric(&api, LOST, |records| records == lost);
    assert_equals_records(&api, countable);
    assert_eq!(api.get("/readyz").0, 200);
    assert!(setup.countd.log().contains("they are skipped"));
    assert_invariants(&setup.store.server, &setup.config);
}

/// What was counted may be removed.
pub(super) fn counted_records_are_removed(mut setup: Setup<&Brokers>) {
    setup.produce(1);
    setup.assert_exact();
    wait_until_published_offsets(&setup);
    let records = setup.topic.records();
    for (partition, (_, end)) in (0..).zip(setup.topic.watermarks()) {
        setup.brokers.delete_records(partition, end);
    }
    for is_killed in [false, true] {
        if is_killed {
            setup.countd.kill();
            setup.countd.launch();
        }
        setup.topic.produce(&[read(100, 1)]);
        wait_until_counted(&setup.store, &setup.topic, PARTITIONS);
    }
    assert_equals_records(&setup.api(), &records);
    assert_eq!(setup.api().counts(100)["read"], 2);
    // Partitions without records since then have older positions: nothing is lost.
    assert_eq!(metric(&setup.api(), LOST), 0);
    assert_eq!(setup.api().get("/readyz").0, 200);
    assert_invariants(&setup.store.server, &setup.config);
}
