//! Reads that another client produces while a test of a feature runs.

use super::{PARTITIONS, read, start};
use crate::support::kafka::{Log, expected_with_copies, wait_until_published};
use crate::support::stores::TestStore;
use crate::support::workload::{Random, StopOnDrop};
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// The number of records in a round, and of rounds. The mock cluster keeps all of them.
const RECORDS: u64 = 20;
const ROUNDS: u64 = 2_000;

/// Reads that were produced, by note.
pub(super) type Reads = BTreeMap<u64, u64>;

/// Runs `work` while another client produces reads of these notes. Returns the reads.
pub(super) fn beside_reads(log: &Log, notes: Range<u64>, work: impl FnOnce()) -> Reads {
    let (topic, stop) = (log.topic(), AtomicBool::new(false));
    thread::scope(|scope| {
        let producing = scope.spawn(|| {
            let (mut random, mut reads) = (Random(5), Reads::new());
            for round in 0..ROUNDS {
                let mut note = || notes.start + random.below(notes.end - notes.start);
                let notes: Vec<u64> = (0..RECORDS).map(|_| note()).collect();
                let records: Vec<_> = notes.iter().map(|note| read(*note, round)).collect();
                topic.produce(&records);
                for note in notes {
                    *reads.entry(note).or_default() += 1;
                }
                if stop.load(Relaxed) {
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
            reads
        });
        let running = StopOnDrop(&stop);
        work();
        drop(running);
        producing.join().expect("it ends")
    })
}

/// Asserts that each of these reads counts once. The notes have no others.
#[track_caller]
pub(super) fn assert_reads_count_once(store: &TestStore, log: &Log, reads: &Reads) {
    let countd = start(store, &log.config, "all");
    log.drain(&store.server, PARTITIONS);
    for (note, reads) in reads {
        assert_eq!(countd.api().counts(*note)["read"], *reads, "note {note}");
    }
}

/// Asserts that the counters of all notes in the topic are the sums of its events and of the copies: all events of the streams have copies.
/// Nothing has changed the counters without an event.
#[track_caller]
pub(super) fn assert_copies_are_complete(store: &TestStore, log: &Log) {
    let countd = start(store, &log.config, "all");
    log.drain(&store.server, PARTITIONS);
    wait_until_published(store, PARTITIONS);
    let records = log.topic().records();
    for ((metric, entity), expected) in expected_with_copies(&records) {
        let Some(eid) = entity.strip_prefix("note:") else {
            continue;
        };
        let eid = eid.parse().expect("a number");
        let counts = countd.api().counts(eid);
        // Some metrics have no counter.
        if let Some(count) = counts.get(&metric) {
            assert_eq!(*count, json!(expected), "{metric} of {entity}");
        }
    }
}
