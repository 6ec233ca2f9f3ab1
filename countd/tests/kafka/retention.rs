//! Records that the topic has removed before they were counted. Kafka's `DeleteRecords` removes them as retention does. These scenarios need
//! real brokers: see [`three_brokers`](super::three_brokers).

use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, assert_equals_records, read, wait_for_metric};
use crate::support::kafka::{Brokers, Record, wait_until_counted};
use crate::support::stores::TestStore;
use crate::support::{metric, on_note};
use countint_tests::wait_until;

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

/// A note that [`Setup::produce`] reads and whose records are in this partition of the topic.
pub(super) fn note_in(topic_partition: i32) -> u64 {
    let note = (0..40).find(|note| {
        let partition = TestStore::partition(&format!("note:{note}"), PARTITIONS);
        i32::from(partition) % TOPIC_PARTITIONS == topic_partition
    });
    note.expect("one of 40 notes")
}

/// Counts some records, and produces others while no process runs. The first of these are removed in one partition: returns their number,
/// and the records that can be counted.
fn lose_records(setup: &mut Setup<&Brokers>) -> (u64, Vec<Record>) {
    setup.produce(1);
    setup.assert_exact();
    wait_until_published_offsets(setup);
    setup.countd.kill();
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
    (20, left.chain(earlier).collect())
}

/// Counting stops in a partition whose records were removed before they were counted.
pub(super) fn uncounted_records_are_removed(mut setup: Setup<&Brokers>) {
    let (lost, _) = lose_records(&mut setup);
    setup.countd.launch();
    let api = setup.api();
    wait_until("the process is not ready", || api.get("/readyz").0 == 503);
    let log = setup.countd.log();
    assert!(log.contains(&format!("up to {lost} records")), "{log}");
    // Nothing is skipped.
    assert_eq!(metric(&api, LOST), 0);
    // Others are counted, also facts of entities in the partition.
    let [stopped, goes_on] = [1, 2].map(note_in);
    assert_eq!(api.act("like", on_note(stopped, 5))["count"], 1);
    wait_until("other partitions go on", || {
        api.counts(goes_on)["read"] == 20
    });
    assert_eq!(api.counts(stopped)["read"], 10);
}

/// The line of `[kafka]` that [`removed_records_are_skipped`] needs.
pub(super) const SKIP: &str = "lost_records = \"skip\"";

pub(super) fn removed_records_are_skipped(mut setup: Setup<&Brokers>) {
    let (lost, countable) = lose_records(&mut setup);
    setup.countd.launch();
    let api = setup.api();
    wait_until_counted(&setup.store, &setup.topic, PARTITIONS);
    wait_for_metric(&api, LOST, |records| records == lost);
    assert_equals_records(&api, &countable);
    assert_eq!(api.get("/readyz").0, 200);
    assert!(setup.countd.log().contains("they are skipped"));
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
}
