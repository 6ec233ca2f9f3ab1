//! An erasure waits until the records that the topic had when it began are counted.

use super::{Setup, TOPIC_PARTITIONS, event, read};
use crate::erasure::CONFIG;
use crate::erasure::kills::erase_under_kills;
use crate::support::kafka::{Log, Mock};
use crate::support::on_note;
use crate::support::stores::{TestStore, for_each_store, module};
use countint_tests::env::deadline;
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

for_each_store! {
    [module cluster]
    erasures_are_exact_when_processes_are_killed
    records_that_were_produced_before_an_erasure_are_erased
}

/// What a user and a note leave in Redis: their reads and comments were in the topic.
fn erasures_are_exact_when_processes_are_killed(store: TestStore) {
    let mock = Mock::start(TOPIC_PARTITIONS);
    erase_under_kills(store, Log::topic_of(&mock, CONFIG), (4, 1));
}

fn erase(setup: &Setup, path: &str) -> String {
    let (status, job) = setup.api().delete(path);
    assert_eq!(status, 202, "{job}");
    job["id"].as_str().expect("an ID").to_owned()
}

fn job(setup: &Setup, id: &str) -> Json {
    setup.api().ok(setup.api().get(&format!("/jobs/{id}")))
}

#[track_caller]
fn wait_until_done(setup: &Setup, id: &str) {
    let limit = Instant::now() + deadline(120);
    loop {
        let job = job(setup, id);
        if job["state"] == "done" {
            return;
        }
        assert!(Instant::now() < limit, "{job}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn records_that_were_produced_before_an_erasure_are_erased(store: TestStore) {
    let setup = Setup::with(store, "");
    let api = setup.api();
    api.act("like", on_note(1, 5));
    for _ in 0..3 {
        let mut records: Vec<_> = (0..3_000).map(|uid| read(1, uid)).collect();
        records.push(event(2, &json!({ "metric": "comment" })));
        setup.topic.produce(&records);
        let id = erase(&setup, "/entity/note/1");
        wait_until_done(&setup, &id);
        setup.drain();
        let counts = api.counts(1);
        assert_eq!((&counts["read"], &counts["like"]), (&json!(0), &json!(0)));
    }
    assert_eq!(api.counts(2)["comment"], 3);
    // A new life.
    setup.topic.produce(&[read(1, 9)]);
    setup.drain();
    assert_eq!(api.counts(1)["read"], 1);
}

#[test]
fn an_erasure_waits_while_brokers_are_away() {
    let setup = Setup::with(module(), "timeout_ms = 1000");
    setup
        .topic
        .produce(&(0..500).map(|uid| read(1, uid)).collect::<Vec<_>>());
    setup.brokers.go_away();
    let entity = erase(&setup, "/entity/note/1");
    std::thread::sleep(Duration::from_millis(1_500));
    let waiting = job(&setup, &entity);
    assert_ne!(waiting["state"], "done", "{waiting}");
    setup.brokers.come_back();
    wait_until_done(&setup, &entity);
    setup.drain();
    assert_eq!(setup.api().counts(1)["read"], 0);
}

/// Reads name their user only in the topic, which countd cannot change: its retention removes them.
#[test]
fn the_erasure_of_a_user_ends() {
    let setup = Setup::start();
    let api = setup.api();
    api.act("like", on_note(1, 812_345_678));
    setup.topic.produce(&[read(1, 812_345_678)]);
    let id = erase(&setup, "/user/812345678");
    wait_until_done(&setup, &id);
    setup.drain();
    assert_eq!(api.counts(1)["like"], 0);
    assert_eq!(api.counts(1)["read"], 1);
}
