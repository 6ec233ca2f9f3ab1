//! Changes of counters: what is announced, to whom, and what happens to clients that are away.

mod corrections;
pub mod kills;
mod limits;
mod resume;
mod routes;

use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, EventStream, metric, on_note, run, wait_until_drained, with};
use countint_tests::wait_until;
use serde_json::json;
use std::time::Duration;

const PARTITIONS: u16 = 16;
const CONFIG: &str =
    "[log]\npartitions = 16\n[changes]\nenabled = true\n[consumer]\nlinger_ms = 5\n";

/// Opens a stream, and waits until it has begun.
fn follow(countd: &Countd, query: &str) -> EventStream {
    let path = format!("/api/v1/changes{query}");
    let mut stream = EventStream::open(countd.port(), &path, &[]);
    assert_eq!(stream.status, 200);
    stream.wait_for_id();
    stream
}

/// Opens a stream that resumes after an event.
fn resume(countd: &Countd, last_id: &str) -> EventStream {
    let headers = [("last-event-id", last_id)];
    let stream = EventStream::open(countd.port(), "/changes", &headers);
    assert_eq!(stream.status, 200);
    stream
}

fn changes_of_every_kind_are_announced(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    let mut stream = follow(&countd, "");
    // A counter that changes with the action, and the credit of the author.
    api.act("like", with(on_note(1, 42), json!({ "author": 7 })));
    stream.wait_for(&["note:1", "user:7"]);
    assert_eq!(api.user(7)["likesReceived"], 1, "announced afterwards");
    stream.forget();
    // Batched counters.
    api.act("read", on_note(2, 42));
    stream.wait_for(&["note:2"]);
    assert_eq!(api.counts(2)["read"], 1);
    // The counters of users.
    api.act("follow", json!({ "eid": 8, "uid": 42 }));
    stream.wait_for(&["user:8", "user:42"]);
    stream.forget();
    // Ids that are not numbers.
    api.act(
        "read",
        json!({ "etype": "note", "eid": "a.b_c-d", "uid": 42 }),
    );
    stream.wait_for(&["note:a.b_c-d"]);
    stream.forget();
    let reset = json!({ "etype": "note", "eid": 2, "metric": "read" });
    assert_eq!(api.ok(api.post("/counter/reset", &reset))["was"], 1);
    stream.wait_for(&["note:2"]);
    stream.forget();
    // A reset of a counter that is 0 changes nothing.
    api.ok(api.post("/counter/reset", &reset));
    // Envelopes of other systems, removed facts and transfers.
    let envelope = json!({
        "event_id": "e", "event_type": "repost", "aggregate_type": "note", "aggregate_id": 4,
        "payload": { "delta": 1, "uid": 42 },
    });
    api.ok(api.post("/events", &envelope));
    api.act("unlike", on_note(1, 42));
    stream.wait_for(&["note:4", "note:1", "user:7"]);
    assert_eq!(api.user(7)["likesReceived"], 0);
    stream.forget();
    api.act("like", on_note(1, 42));
    stream.wait_for(&["user:7"]);
    stream.forget();
    api.ok(api.put("/entity/note/1", &json!({ "author": 9 })));
    stream.wait_for(&["user:7", "user:9"]);
    assert!(!stream.is_reset);
    assert_eq!(metric(&api, "countd_change_streams"), 1);
    assert_eq!(metric(&api, "countd_changes_rejected_total"), 0);
}

fn a_change_is_announced_once_in_a_batch(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    let mut stream = follow(&countd, "");
    let lines: Vec<String> = (0..500)
        .map(|uid| {
            json!({ "metric": "read", "etype": "note", "eid": uid % 2, "uid": uid }).to_string()
        })
        .collect();
    let (status, _) = api
        .try_send("/actions", "application/x-ndjson", &lines.join("\n"))
        .expect("a response");
    assert_eq!(status, 200);
    wait_until_drained(&store.server, PARTITIONS);
    stream.wait_for(&["note:0", "note:1"]);
    let (mut events, mut changes) = (1, 2);
    while let Ok(event) = stream.next_within(Duration::from_millis(600)) {
        let entities = event.entities();
        assert!(
            entities
                .iter()
                .all(|one| one == "note:0" || one == "note:1")
        );
        (events, changes) = (events + 1, changes + entities.len());
    }
    assert!(
        changes <= 2 * events && events < 20,
        "{changes} in {events}"
    );
}

fn a_damaged_stream_does_not_stop_counting(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let (api, mut client) = (countd.api(), store.server.client());
    let mut stream = follow(&countd, "");
    let key = store.changes("note:1", PARTITIONS);
    client.ok(&format!("SET {key} damaged"));
    api.act("read", on_note(1, 42));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["read"], 1);
    assert!(metric(&api, "countd_changes_rejected_total") > 0);
    wait_until("the reader has met the damage", || {
        countd.log().contains("cannot be read")
    });
    client.ok(&format!("DEL {key}"));
    stream.wait_for_reset();
    api.act("read", on_note(1, 42));
    stream.wait_for(&["note:1"]);
}

for_each_store!(
    [module objects plain cluster]
    changes_of_every_kind_are_announced
    a_change_is_announced_once_in_a_batch
    a_damaged_stream_does_not_stop_counting
);

#[test]
fn nothing_is_announced_by_default() {
    let store = crate::support::stores::module();
    let countd = Countd::start(&store.server, "[log]\npartitions = 16\n");
    countd.api().act("read", on_note(1, 42));
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    assert_eq!(client.run("EXISTS x:changes"), "(integer) 0");
    let acl = run(&store.server, "", &["acl"]);
    assert!(!String::from_utf8_lossy(&acl.stdout).contains("x:changes"));
}
