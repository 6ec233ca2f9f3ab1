//! Clients that reconnect.

use super::{CONFIG, PARTITIONS, follow, resume};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, on_note, wait_until_drained};
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
);
