//! Clients that reconnect.

use super::{CONFIG, PARTITIONS, follow, resume};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, EventStream, Settings, on_note, wait_until_drained};
use countint_tests::{Client, reply, wait_until};
use std::time::Duration;

/// One change in every stream, so that none of them is new.
fn change_every_partition(store: &TestStore, api: &Api) {
    for eid in 1_000..1_200 {
        api.act("read", on_note(eid, 42));
    }
    wait_until_drained(&store.server, PARTITIONS);
}

fn a_client_that_resumes_misses_nothing(store: TestStore) {
    let mut countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    change_every_partition(&store, &api);
    // The changes before are older than what a resumed stream repeats.
    std::thread::sleep(Duration::from_millis(5_500));
    let mut stream = follow(&countd, "");
    api.act("read", on_note(1, 42));
    stream.wait_for(&["note:1"]);
    stream.wait_for_id();
    let last_id = stream.last_id.clone();
    drop(stream);
    let eids: Vec<u64> = (2..300).collect();
    for eid in &eids {
        api.act("read", on_note(*eid, 42));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let expected: Vec<String> = eids.iter().map(|eid| format!("note:{eid}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    let mut resumed = resume(&countd, &last_id);
    resumed.wait_for(&expected);
    assert!(!resumed.is_reset && !resumed.seen.contains("note:1000"));
    // After a restart of countd, too.
    drop(resumed);
    countd.stop();
    countd.launch();
    let mut resumed = resume(&countd, &last_id);
    resumed.wait_for(&expected);
    api.act("read", on_note(700, 42));
    resumed.wait_for(&["note:700"]);
    assert!(!resumed.is_reset);
}

fn a_client_whose_changes_are_trimmed_gets_a_reset(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let (api, mut client) = (countd.api(), store.server.client());
    change_every_partition(&store, &api);
    let mut stream = follow(&countd, "");
    api.act("read", on_note(1, 42));
    stream.wait_for(&["note:1"]);
    stream.wait_for_id();
    let last_id = stream.last_id.clone();
    let key = store.changes("note:1", PARTITIONS);
    for _ in 0..3 {
        stream.forget();
        api.act("read", on_note(1, 42));
        stream.wait_for(&["note:1"]);
    }
    client.ok(&format!("XTRIM {key} MAXLEN 1"));
    let mut resumed = resume(&countd, &last_id);
    resumed.wait_for_reset();
    // The stream continues.
    api.act("read", on_note(2, 42));
    resumed.wait_for(&["note:2"]);
    // The other client had read the entries.
    stream.wait_for(&["note:2"]);
    assert!(!stream.is_reset);
}

fn a_deleted_stream_is_a_reset(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let (api, mut client) = (countd.api(), store.server.client());
    change_every_partition(&store, &api);
    let mut stream = follow(&countd, "");
    let last_id = stream.last_id.clone();
    client.ok(&format!("DEL {}", store.changes("note:1", PARTITIONS)));
    api.act("read", on_note(1, 42));
    stream.wait_for_reset();
    stream.wait_for(&["note:1"]);
    resume(&countd, &last_id).wait_for_reset();
}

/// Deletes the last entry of a stream.
fn delete_last(client: &mut Client, key: &str) {
    let mut last = reply::array(client.call(&["XREVRANGE", key, "+", "-", "COUNT", "1"]));
    let entry = reply::array(last.pop().expect("an entry"));
    client.call(&["XDEL", key, &reply::text(entry[0].clone())]);
}

/// A process without clients.
fn another_process(store: &TestStore) -> Countd {
    let settings = Settings {
        command: "serve",
        config: CONFIG,
    };
    Countd::with(&store.server, &settings)
}

/// Follows the changes until a client that resumes reads the streams from a time at which all of them existed.
fn follow_for_a_while(countd: &Countd, api: &Api) -> EventStream {
    let mut stream = follow(countd, "");
    let position = |stream: &EventStream| -> u64 { stream.last_id.parse().expect("a number") };
    let first = position(&stream);
    wait_until("the position moves", || {
        change(api, &mut stream);
        position(&stream) > first + 6_000
    });
    stream
}

/// Changes note 1, and waits until the client has the change and its position.
fn change(api: &Api, stream: &mut EventStream) {
    stream.forget();
    api.act("read", on_note(1, 42));
    stream.wait_for(&["note:1"]);
    stream.wait_for_id();
}

/// As by an erasure, which deletes the entries that name the user.
fn changes_that_were_deleted_are_a_reset(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let (api, mut client) = (countd.api(), store.server.client());
    let mut stream = follow_for_a_while(&countd, &api);
    let key = store.changes("note:1", PARTITIONS);
    let last_id = stream.last_id.clone();
    change(&api, &mut stream);
    delete_last(&mut client, &key);
    // Nothing has changed since.
    resume(&countd, &last_id).wait_for_reset();
    change(&api, &mut stream);
    resume(&countd, &last_id).wait_for_reset();
    assert!(!stream.is_reset, "this client had read the entry");
    // A reader that starts after the deletion has missed nothing.
    delete_last(&mut client, &key);
    let other = another_process(&store);
    let mut stream = follow(&other, "");
    change(&api, &mut stream);
    assert!(!stream.is_reset);
}

fn a_stream_that_is_deleted_while_a_client_is_away_is_a_reset(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let (api, mut client) = (countd.api(), store.server.client());
    let stream = follow_for_a_while(&countd, &api);
    let key = store.changes("note:1", PARTITIONS);
    client.ok(&format!("DEL {key}"));
    resume(&countd, &stream.last_id).wait_for_reset();
    // A process whose first client comes creates the stream again.
    client.ok(&format!("DEL {key}"));
    let other = another_process(&store);
    resume(&other, &stream.last_id).wait_for_reset();
    client.expect(&format!("EXISTS {key}"), "(integer) 1");
}

/// Streams without changes are created for the first client, so a later absence is noticed.
fn a_client_resumes_although_some_streams_have_no_changes(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    let stream = follow_for_a_while(&countd, &api);
    let mut resumed = resume(&countd, &stream.last_id);
    api.act("read", on_note(2, 42));
    resumed.wait_for(&["note:2"]);
    assert!(!resumed.is_reset);
}

#[test]
fn a_position_of_the_future_is_a_reset() {
    let store = crate::support::stores::module();
    let countd = Countd::start(&store.server, CONFIG);
    let mut stream = resume(&countd, "9999999999999999999");
    stream.wait_for_reset();
    countd.api().act("read", on_note(1, 42));
    stream.wait_for(&["note:1"]);
}

for_each_store!(
    [module plain cluster]
    a_client_that_resumes_misses_nothing
    a_client_whose_changes_are_trimmed_gets_a_reset
    a_deleted_stream_is_a_reset
    changes_that_were_deleted_are_a_reset
    a_stream_that_is_deleted_while_a_client_is_away_is_a_reset
    a_client_resumes_although_some_streams_have_no_changes
);
