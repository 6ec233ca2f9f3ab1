//! Damaged keys: only their partition fails, the failure is reported, and the partition recovers once the keys are repaired.
//! Acknowledged actions count once.

mod keys;
mod logs;
mod model;
mod users;

use crate::support::stores::TestStore;
use crate::support::{Api, Countd, on_note, printed, run, with};
use countint_tests::wait_until;
use serde_json::{Value as Json, json};

const PARTITIONS: u16 = 4;
const CONFIG: &str =
    "[log]\npartitions = 4\nretain = 10\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 500\n";
/// The partition that is damaged.
const P: u16 = 2;

fn start(store: &TestStore) -> Countd {
    Countd::start(&store.server, CONFIG)
}

/// A note in a partition.
fn note_in(partition: u16) -> u64 {
    let mut notes = 1..;
    let note =
        notes.find(|eid| TestStore::partition(&format!("note:{eid}"), PARTITIONS) == partition);
    note.expect("a note")
}

/// Sends `count` reads of a note in each of these partitions.
fn send_reads(api: &Api, partitions: impl IntoIterator<Item = u16>, count: u64) {
    for partition in partitions {
        for uid in 0..count {
            api.act("read", on_note(note_in(partition), uid));
        }
    }
}

fn read_event(eid: u64) -> String {
    with(on_note(eid, 9), json!({ "metric": "read", "delta": 1 })).to_string()
}

#[track_caller]
fn wait_until_read(api: &Api, partition: u16, count: u64) {
    let eid = note_in(partition);
    wait_until(
        &format!("{count} reads of partition {partition} are counted"),
        || api.counts(eid)["read"] == count,
    );
}

/// The partitions that are not damaged.
fn healthy_partitions() -> impl Iterator<Item = u16> {
    (0..PARTITIONS).filter(|partition| *partition != P)
}

/// The value of a gauge, if it is exposed.
fn gauge(api: &Api, name: &str) -> Option<f64> {
    let (_, text) = api.get("/metrics");
    let mut lines = text.as_str().expect("a text").lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map(|value| value.parse().expect("a number"))
}

/// Asserts that `/readyz`, `countd check`, the metric and the log report the partition and the reason.
#[track_caller]
fn assert_failure_reported(store: &TestStore, countd: &Countd, partition: u16, reason: &str) {
    let api = countd.api();
    wait_until("readyz reports it", || {
        let (status, response) = api.get("/readyz");
        let failed = &response["partitions"];
        let is_expected = |one: &Json| {
            one["partition"] == partition
                && one["reason"]
                    .as_str()
                    .is_some_and(|text| text.contains(reason))
        };
        status == 503
            && failed
                .as_array()
                .is_some_and(|all| all.iter().any(is_expected))
    });
    let (_, response) = api.get("/readyz");
    assert_eq!(response["code"], "not_counting", "{response}");
    let failed = response["partitions"].as_array().map(Vec::len);
    wait_until("the metric counts it", || {
        gauge(&api, "countd_partitions_failed") == failed.map(|count| count as f64)
    });
    let log = countd.log();
    let mut lines = log.lines();
    let is_line = |line: &str| {
        line.contains("a partition has failed")
            && line.contains(&format!("\"partition\":{partition}"))
    };
    assert!(lines.any(is_line), "{log}");
    let checked = run(&store.server, CONFIG, &["check"]);
    let output = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(!checked.status.success(), "{output}");
    assert!(output.contains(reason), "{reason}: {output}");
}

#[track_caller]
fn wait_until_recovered(store: &TestStore, countd: &Countd) {
    let api = countd.api();
    wait_until("it is ready again", || api.get("/readyz").0 == 200);
    wait_until("there is no lag", || {
        gauge(&api, "countd_lag_events") == Some(0.0)
    });
    assert_eq!(gauge(&api, "countd_partitions_failed"), Some(0.0));
    let checked = printed(&run(&store.server, CONFIG, &["check"]));
    assert!(checked.contains("partitions: ok"), "{checked}");
}

/// Foreign IDs that leave no valid offset after them.
const IDS: [&str; 10] = [
    "0-9007199254740991",
    "0-9007199254740992",
    "0-1099511627775",
    "0-1099511627774",
    "0-18446744073709551614",
    "0-18446744073709551615",
    "5-0",
    "18446744073709551615-1",
    // The last ID of a closed log.
    "18446744073709551615-13834321097531834207",
    "18446744073709551615-18446744073709551615",
];
