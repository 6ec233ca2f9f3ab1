//! Copies of events that are counted from streams, for other consumers of the topic.

use super::{PARTITIONS, Setup};
use crate::support::kafka::{copies, wait_until_published};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, on_note, printed, run};
use countint_tests::{reply, wait_until};
use serde_json::json;
use std::collections::BTreeSet;

for_each_store! {
    [module cluster]
    once_events_are_copied_with_their_source
}

fn like(api: &Api, notes: std::ops::Range<u64>, uid: u64) {
    for note in notes {
        api.act("like", on_note(note, uid));
    }
}

/// The likes in the copies: note and user.
fn likes(setup: &Setup) -> BTreeSet<(String, String)> {
    let records = setup.topic.records();
    let mut likes = BTreeSet::new();
    for (source, copies) in copies(&records) {
        for copy in &copies {
            assert_eq!(copy.value, copies[0].value, "a repeated copy is the same");
            let json = copy.json();
            let (eid, uid) = (json["eid"].as_str(), json["uid"].as_str());
            let (eid, uid) = (eid.expect("an ID"), uid.expect("an ID"));
            let key = format!("note:{eid}");
            assert_eq!(copy.key.as_deref(), Some(key.as_str()));
            assert_eq!(TestStore::partition(&key, PARTITIONS), source.partition);
            assert_eq!(
                (&json["metric"], &json["delta"]),
                (&json!("like"), &json!(1))
            );
            likes.insert((eid.to_owned(), uid.to_owned()));
        }
    }
    likes
}

fn once_events_are_copied_with_their_source(store: TestStore) {
    let setup = Setup::with(store, "");
    like(&setup.api(), 0..60, 5);
    setup.drain();
    wait_until_published(&setup.store, PARTITIONS);
    let expected = (0..60).map(|note: u64| (note.to_string(), "5".to_owned()));
    assert_eq!(likes(&setup), expected.collect());
    // Copies are not counted.
    for note in 0..60 {
        assert_eq!(setup.api().counts(note)["like"], 1, "note {note}");
    }
}

/// Entries are kept until they are published, also beyond `log.retain`.
#[test]
fn what_is_liked_while_brokers_are_away_is_copied_later() {
    let mut setup = Setup::start();
    like(&setup.api(), 0..20, 1);
    wait_until_published(&setup.store, PARTITIONS);
    setup.brokers.go_away();
    like(&setup.api(), 0..200, 2);
    for note in 0..200 {
        let api = setup.api();
        wait_until("likes are counted without brokers", || {
            api.counts(note)["like"].as_u64() >= Some(1)
        });
    }
    // A process that is killed meanwhile forgets nothing.
    setup.countd.kill();
    setup.brokers.come_back();
    setup.countd.launch();
    wait_until_published(&setup.store, PARTITIONS);
    let first = (0..20).map(|note: u64| (note.to_string(), "1".to_owned()));
    let second = (0..200).map(|note: u64| (note.to_string(), "2".to_owned()));
    assert_eq!(likes(&setup), first.chain(second).collect());
}

#[test]
fn copies_go_on_after_a_log_was_reset() {
    const P: u16 = 3;
    let setup = Setup::start();
    like(&setup.api(), 0..60, 1);
    setup.drain();
    wait_until_published(&setup.store, PARTITIONS);
    let (store, partition) = (&setup.store, P.to_string());
    let beyond = format!("HINCRBY {} {partition} 1000000", store.positions(P));
    store.server.client().ok(&beyond);
    wait_until("the partition has failed", || {
        setup.api().get("/readyz").0 == 503
    });
    let reset = ["log", "reset", &partition, "--uncounted", "none"];
    printed(&run(&store.server, &setup.config, &reset));
    wait_until("it has recovered", || setup.api().get("/readyz").0 == 200);
    like(&setup.api(), 0..60, 2);
    setup.drain();
    wait_until_published(store, PARTITIONS);
    let expected = (0..120).map(|n: u64| ((n % 60).to_string(), (n / 60 + 1).to_string()));
    assert_eq!(likes(&setup), expected.collect());
}

/// Likes of many users at the same time are one entry of the stream; their copies tell all users.
#[test]
fn streams_are_trimmed_after_they_are_published() {
    let setup = Setup::start();
    for uid in 0..40 {
        like(&setup.api(), 0..100, uid);
    }
    setup.drain();
    wait_until_published(&setup.store, PARTITIONS);
    let length = |partition| {
        let mut client = setup.store.server.client();
        reply::int(client.ok(&format!("XLEN {}", setup.store.log(partition))))
    };
    // 4,000 entries in 16 partitions, of which `log.retain` keeps 100 each, and nodes of streams are trimmed as a whole.
    wait_until("streams are trimmed", || {
        like(&setup.api(), 0..100, 99);
        (0..PARTITIONS).map(length).sum::<i64>() < 3_000
    });
}
