//! Events of all kinds, and where they go.

use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, envelope, event, read};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::{Mock, Record};
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::workload::StopOnDrop;
use crate::support::{metric, on_note, with};
use countint_tests::wait_until;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

for_each_store! {
    [module plain cluster]
    events_of_every_kind_are_counted
    the_first_read_of_a_partition_is_counted_beside_likes
    records_of_other_clients_are_counted
}

/// The events of a topic that are not copies.
fn own(records: &[Record]) -> Vec<&Record> {
    let records = records.iter();
    records.filter(|record| record.source().is_none()).collect()
}

fn events_of_every_kind_are_counted(store: TestStore) {
    let setup = Setup::with(store, "");
    let api = setup.api();
    for note in 0..40 {
        for uid in 1..=3 {
            api.act("read", on_note(note, uid));
        }
        api.act(
            "read",
            with(on_note(note, 9), json!({ "idempotencyKey": "k" })),
        );
        api.act(
            "read",
            with(on_note(note, 9), json!({ "idempotencyKey": "k" })),
        );
        let lines = ["read", "comment", "like"].map(|metric| {
            with(on_note(note, 4), json!({ "metric": metric, "author": 77 })).to_string()
        });
        let (status, _) = api
            .try_post("/actions", &lines.join("\n"))
            .expect("a response");
        assert_eq!(status, 200);
        api.act("like", on_note(note, 5));
        api.act("publish", on_note(note, 77));
        let (_, sent) = envelope(&format!("e-{note}"), note);
        for _ in 0..2 {
            let (status, response) = api.try_post("/events", &sent).expect("a response");
            assert_eq!(status, 200, "{response}");
        }
    }
    api.act("follow", json!({ "eid": "5", "uid": "6" }));
    let records = setup.drain();
    for note in 0..40 {
        let expected = json!({ "read": 5, "like": 2, "fav": 0, "comment": 2, "repost": 0 });
        assert_eq!(api.counts(note), expected, "note {note}");
    }
    assert_eq!(api.user(77)["likesReceived"], 80);
    assert_eq!(api.user(77)["posts"], 40);
    assert_eq!(api.user(5)["followers"], 1);
    // Three reads, and the envelope twice. The others have a key, or name an author for the first time.
    let own = own(&records);
    assert_eq!(own.len(), 40 * 5);
    for record in own {
        let json = record.json();
        let (etype, eid) = match json["event_id"].is_string() {
            true => (&json["aggregate_type"], &json["aggregate_id"]),
            false => (&json["etype"], &json["eid"]),
        };
        let [etype, eid] = [etype, eid].map(|id| id.as_str().expect("a text"));
        assert_eq!(record.key, Some(format!("{etype}:{eid}")));
        let partition = TestStore::partition(record.key.as_deref().unwrap_or(""), PARTITIONS);
        assert_eq!(record.partition, i32::from(partition) % TOPIC_PARTITIONS);
    }
    assert_eq!(metric(&api, "countd_events_duplicated_total"), 40);
    assert_invariants(&setup.store.server, &setup.config);
}

/// The position of a partition has advanced, and the table of its counters does not exist: it may have been lost, so the commit of the first
/// read is rejected, and an entry of the stream checks its counters by their facts. The entry, and likes of another note, are read again
/// before the read.
fn the_first_read_of_a_partition_is_counted_beside_likes(store: TestStore) {
    let metrics = "[metrics.read]\nnature = \"repeatable\"\ncount = \"batched\"\n[metrics.like]\nnature = \"once\"\ncount = \"now\"\n\
        [metrics.fav]\nnature = \"once\"\ncount = \"batched\"\n";
    let setup = Setup::with(store, metrics);
    let partition = |note: u64| TestStore::partition(&format!("note:{note}"), PARTITIONS);
    let of_topic = |note| i32::from(partition(note)) % TOPIC_PARTITIONS;
    let is_beside = |note: &u64| partition(*note) != partition(0) && of_topic(*note) == of_topic(0);
    let note = (1..).find(is_beside).expect("a note");
    setup.topic.produce(&[read(0, 1)]);
    let field = format!("topic:{}", partition(note));
    let position = format!("HGET {} {field}", setup.store.positions(partition(note)));
    let mut client = setup.store.server.client();
    wait_until("the position has advanced", || {
        client.run(&position) == "\"1\""
    });
    let (api, stop) = (setup.api(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut users = 1..;
            while !stop.load(Relaxed) {
                api.act("like", on_note(0, users.next().expect("a user")));
            }
        });
        let _running = StopOnDrop(&stop);
        setup.topic.produce(&[read(note, 1)]);
        wait_until("the read is counted", || api.counts(note)["read"] == 1);
    });
    setup.assert_exact();
    assert_invariants(&setup.store.server, &setup.config);
}

fn records_of_other_clients_are_counted(store: TestStore) {
    let setup = Setup::with(store, "");
    let records: Vec<_> = (0..3_000).map(|i| read(i % 100, i)).collect();
    setup.topic.produce(&records);
    // Envelopes, as objects and as texts, twice each.
    let mut records: Vec<_> = (0..200)
        .map(|i| envelope(&format!("e-{i}"), i % 100))
        .collect();
    for (_, value) in records.iter_mut().skip(100) {
        let mut json: serde_json::Value = serde_json::from_str(value).expect("JSON");
        json["payload"] = json!(json["payload"].to_string());
        *value = json.to_string();
    }
    setup.topic.produce(&[records.clone(), records].concat());
    setup.topic.produce(&[event(
        5,
        &json!({ "delta": -2, "traceId": "t", "more": [1] }),
    )]);
    setup.assert_exact();
    let counts = setup.api().counts(5);
    assert_eq!(
        (&counts["read"], &counts["comment"]),
        (&json!(28), &json!(2))
    );
    assert_invariants(&setup.store.server, &setup.config);
}

/// A topic with one partition, and with as many as the data.
#[test]
fn any_power_of_two_of_partitions_is_counted() {
    for partitions in [1, 16] {
        let setup = Setup::on(Mock::start(partitions), module(), "");
        setup
            .topic
            .produce(&(0..500).map(|i| read(i % 50, i)).collect::<Vec<_>>());
        for note in 0..50 {
            setup.api().act("read", on_note(note, 1));
        }
        setup.assert_exact();
        assert_eq!(setup.api().counts(7)["read"], 11);
    }
}

/// It produces; the other process consumes.
#[test]
fn a_process_that_only_serves_produces() {
    let setup = Setup::start();
    let serving = setup.another("serve");
    for note in 0..20 {
        serving.api().act("read", on_note(note, 1));
    }
    setup.assert_exact();
    assert_eq!(serving.api().counts(3)["read"], 1);
    assert_eq!(metric(&serving.api(), "countd_events_applied_total"), 0);
}
