//! A rebuild from a topic is refused where copies are missing, or where a baseline is not of the data any more: it never takes a part for all.

use super::rebuild::{EARLIEST, METRICS, assert_right, baseline, counts};
use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, start};
use crate::reconcile::setup::forge;
use crate::replay::setup::{READ, corrections, rebuild};
use crate::support::kafka::{Mock, config, wait_until_published};
use crate::support::stores::{TestStore, module};
use crate::support::{on_note, printed, run};
use countint_tests::env::TempDir;
use countint_tests::{reply, wait_until};
use serde_json::json;

const SMALL_RECORDS: &str = "properties = { \"message.max.bytes\" = \"2000\" }\n";

/// Asserts that a rebuild is refused for this reason.
#[track_caller]
fn assert_refused(setup: &Setup, from: &[&str], reason: &str) {
    let (output, _) = rebuild(&setup.store.server, &setup.config, from);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && errors.contains(reason),
        "{errors}"
    );
}

/// Asserts that a rebuild from the first entry on is refused for this reason, and that one from a new baseline is right.
#[track_caller]
fn assert_only_from_a_baseline(setup: &Setup, reason: &str) {
    let before = counts(&setup.api());
    assert_refused(setup, &EARLIEST, reason);
    let output = run(&setup.store.server, &setup.config, &["check"]);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(
        text.contains("counted entries of 1 partitions have no copy"),
        "{text}"
    );
    let dir = TempDir::new();
    let name = baseline(&setup.config, &setup.store, &dir);
    let dir = dir.path().to_str().expect("a text");
    // The refused one has begun.
    let from = ["--restart", "--from", &name, "--archive", dir];
    forge(&setup.store, "note:5", READ, 1_000);
    printed(&rebuild(&setup.store.server, &setup.config, &from).0);
    assert_eq!(counts(&setup.api()), before);
    assert_eq!(corrections(&setup.store).len(), 1);
    let api = setup.api();
    for note in 0..5 {
        api.ok(api.post("/action/comment", &on_note(note, 3)));
    }
    setup.drain();
    wait_until_published(&setup.store, PARTITIONS);
    assert_right(setup, &from);
}

/// Appends an event that is larger than a record may be.
fn append_large(setup: &Setup, metric: &str) {
    let event = json!({
        "etype": "note", "eid": "3", "metric": metric, "delta": 1, "uid": "9", "ts": 1_700_000_000_000_u64, "text": "x".repeat(5_000),
    });
    let log = setup.store.log(TestStore::partition("note:3", PARTITIONS));
    let append = format!("XADD {log} 0-* e '{event}'");
    setup.store.server.client().ok(&append);
}

fn comment(setup: &Setup, notes: std::ops::Range<u64>) {
    let api = setup.api();
    for note in notes {
        api.ok(api.post("/action/comment", &on_note(note, 1)));
    }
    setup.drain();
}

#[test]
fn an_event_that_is_too_large_for_the_topic_is_missed_by_no_rebuild() {
    let setup = Setup::with(module(), &format!("{SMALL_RECORDS}{METRICS}"));
    comment(&setup, 0..20);
    wait_until_published(&setup.store, PARTITIONS);
    assert_right(&setup, &EARLIEST);
    append_large(&setup, "comment");
    setup.drain();
    assert_eq!(setup.api().counts(3)["comment"], 2);
    comment(&setup, 0..20);
    wait_until_published(&setup.store, PARTITIONS);
    assert_only_from_a_baseline(&setup, "were not copied to the topic");
}

#[test]
fn a_dead_letter_that_is_too_large_for_the_topic_is_not_needed() {
    let setup = Setup::with(module(), &format!("{SMALL_RECORDS}{METRICS}"));
    append_large(&setup, "clap");
    comment(&setup, 0..20);
    wait_until_published(&setup.store, PARTITIONS);
    assert_right(&setup, &EARLIEST);
}

/// As a process with `log.kind = "streams"` does.
#[test]
fn entries_that_were_trimmed_before_they_were_copied_are_missed_by_no_rebuild() {
    let mut setup = Setup::with(module(), METRICS);
    comment(&setup, 0..20);
    wait_until_published(&setup.store, PARTITIONS);
    setup.brokers.go_away();
    let api = setup.api();
    for uid in 0..3 {
        api.ok(api.post("/action/comment", &on_note(3, uid)));
    }
    wait_until("the comments are counted", || api.counts(3)["comment"] == 4);
    let partition = TestStore::partition("note:3", PARTITIONS);
    let mut client = setup.store.server.client();
    let positions = setup.store.positions(partition);
    wait_until("their entries are counted", || {
        let position = client.ok(&format!("HGET {positions} {partition}"));
        let last = client.ok(&format!(
            "XREVRANGE {} + - COUNT 1",
            setup.store.log(partition)
        ));
        let last = format!("{last:?}");
        let position = reply::text(position);
        let before: u64 = position.parse().expect("an offset");
        last.contains(&format!("0-{}", before - 1))
    });
    setup.countd.kill();
    client.ok(&format!("XTRIM {} MAXLEN 0", setup.store.log(partition)));
    setup.brokers.come_back();
    assert_refused(
        &setup,
        &EARLIEST,
        "is neither in the stream nor in the topic",
    );
    setup.countd.launch();
    wait_until_published(&setup.store, PARTITIONS);
    assert_only_from_a_baseline(&setup, "were not copied to the topic");
}

/// What streams have counted before is not in the topic. A return to streams begins another history.
#[test]
fn data_that_was_counted_in_streams_needs_a_younger_baseline() {
    let store = module();
    let mock = Mock::start(TOPIC_PARTITIONS);
    let config = config(&mock.addresses(), PARTITIONS, METRICS);
    let streams = config.replace("kind = \"kafka\"", "kind = \"streams\"");
    let mut countd = start(&store, &streams, "all");
    for note in 0..20 {
        countd.api().act("comment", on_note(note, 1));
    }
    countd.kill();
    let mut setup = Setup::on(mock, store, METRICS);
    comment(&setup, 0..20);
    assert_refused(
        &setup,
        &EARLIEST,
        "since the beginning of the data: --from BASELINE",
    );
    let dir = TempDir::new();
    let path = dir.path().to_str().expect("a text");
    let name = baseline(&setup.config, &setup.store, &dir);
    let from = ["--from", &name, "--archive", path];
    comment(&setup, 0..20);
    wait_until_published(&setup.store, PARTITIONS);
    assert_right(&setup, &from);
    setup.countd.kill();
    let countd = start(&setup.store, &streams, "all");
    countd.api().act("comment", on_note(3, 1));
    drop(countd);
    assert_refused(&setup, &from, "is no baseline of this topic");
    assert!(corrections(&setup.store).is_empty());
}

#[test]
fn a_baseline_of_lost_writes_is_refused() {
    let mut setup = Setup::with(module(), METRICS);
    setup.store.server.client().ok("CONFIG SET appendonly no");
    setup.store.server.configure("appendonly no");
    comment(&setup, 0..20);
    let (kept, lost) = (TempDir::new(), TempDir::new());
    let kept_name = baseline(&setup.config, &setup.store, &kept);
    setup.store.server.client().ok("SAVE");
    comment(&setup, 0..20);
    let lost_name = baseline(&setup.config, &setup.store, &lost);
    setup.store.server.kill();
    setup.store.server.start_again();
    wait_until("Redis is used again", || {
        let action = on_note(6, 1).to_string();
        let posted = setup.api().try_post("/action/comment", &action);
        posted.is_ok_and(|(status, _)| status == 200)
    });
    // Their offsets are used again.
    comment(&setup, 5..20);
    comment(&setup, 5..20);
    let path = |dir: &TempDir| dir.path().to_str().expect("a text").to_owned();
    let (lost, kept) = (path(&lost), path(&kept));
    let from = ["--restart", "--from", &lost_name, "--archive", &lost];
    assert_refused(&setup, &from, "Redis has lost writes");
    assert!(corrections(&setup.store).is_empty());
    let from = ["--restart", "--from", &kept_name, "--archive", &kept];
    assert_right(&setup, &from);
}
