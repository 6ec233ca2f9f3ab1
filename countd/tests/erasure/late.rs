//! Events that are appended while a job waits for earlier ones.

use super::{CONFIG, PARTITIONS, Setup, entities, on, wait_until_done};
use crate::support::kafka::Log;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, Settings, set_schema};
use countint_tests::{reply, wait_until};
use std::thread;
use std::time::Duration;

for_each_store! {
    [module objects plain cluster cluster_objects]
    a_late_event_of_an_erased_entity_leaves_no_counter
}

/// Notes in many partitions, with IDs that no other text contains.
fn note(number: u16) -> String {
    format!("8123456789012340{number:02}")
}

const NOTES: u16 = 40;
/// The number of reads that are appended while the job waits. They are committed in small batches.
const LATE: u64 = 300;

/// The job runs in one process. Another one counts the log of the entity, and is suspended until clients have read the entity. A job
/// that waited only for the entries that the log had at first would delete the counters before these reads are counted.
fn a_late_event_of_an_erased_entity_leaves_no_counter(store: TestStore) {
    let small = "session_timeout_ms = 60000\nbatch = 1\nmax_batch_age_ms = 5";
    let config = &CONFIG.replace("session_timeout_ms = 500", small);
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let suspended = Countd::with(&store.server, &settings("consume"));
    let mut client = store.server.client();
    wait_until("the consumer is a member", || {
        reply::int(client.ok("ZCARD countd:consumers")) == 1
    });
    suspended.suspend();
    // It leaves the partitions of the suspended member alone.
    let _other = Countd::with(&store.server, &settings("consume"));
    let countd = Countd::with(&store.server, &settings("serve"));
    let api = countd.api();
    let setup = Setup {
        store,
        log: Log::streams(config),
        countd,
        api,
    };
    let read = |note: &str| drop(setup.api.act("read", on(note, "1")));
    (0..NOTES).for_each(|number| read(&note(number)));
    let partition = |note: &str| TestStore::partition(&format!("note:{note}"), PARTITIONS);
    let mut uncounted = |setup: &Setup| -> Vec<String> {
        let mut is_uncounted = |note: &String| {
            let partition = partition(note);
            let positions = setup.store.positions(partition);
            let position = client.call(&["HGET", &positions, &partition.to_string()]);
            !matches!(position, countint_tests::Value::BulkString(_))
        };
        (0..NOTES).map(note).filter(&mut is_uncounted).collect()
    };
    // The other consumer counts its partitions within a moment.
    let mut notes = uncounted(&setup);
    wait_until("the other consumer has counted", || {
        thread::sleep(Duration::from_millis(500));
        let before = std::mem::replace(&mut notes, uncounted(&setup));
        before == notes && notes.len() < NOTES.into()
    });
    let erased = notes.first().expect("a note of the suspended consumer");
    let job = setup.delete(&format!("/entity/note/{erased}"));
    wait_until("the job waits for the log", || {
        setup.api.get(&job).1["step"] == "counters"
    });
    thread::sleep(Duration::from_millis(200));
    (0..LATE).for_each(|_| read(erased));
    suspended.resume();
    wait_until_done(&setup.api, &job);
    setup.drain();
    entities::assert_nothing_is_left(&setup, erased);
}
