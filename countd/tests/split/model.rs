//! Likes, taken back and repeated, and reads, while an entity is split and merged again and again.

use super::clients::{Done, act};
use super::{CONFIG, hot, merge, split};
use crate::support::stores::{TestStore, cluster, module, objects, plain};
use crate::support::{Api, Countd, Running, Settings, set_schema, wait_until_drained};
use countint_tests::wait_until;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const CLIENTS: u64 = 6;

#[test]
fn likes_match_the_model_under_splits_and_merges() {
    assert_likes_match_the_model(&module());
}

#[test]
fn likes_match_the_model_under_splits_and_merges_of_objects() {
    assert_likes_match_the_model(&objects());
}

#[test]
fn likes_match_the_model_under_splits_and_merges_without_the_module() {
    assert_likes_match_the_model(&plain());
}

#[test]
fn likes_match_the_model_under_splits_and_merges_in_cluster_mode() {
    assert_likes_match_the_model(&cluster());
}

/// The steps at which commands are killed.
const SPLIT_STEPS: [&str; 4] = [
    "waiting for all processes",
    "authors of the shards",
    "freezing facts",
    "waiting for the consumers",
];
const MERGE_STEPS: [&str; 4] = [
    "waiting for all processes",
    "fencing facts",
    "copying facts",
    "deleting shards",
];

fn assert_likes_match_the_model(store: &TestStore) {
    let server = &store.server;
    set_schema(server, CONFIG);
    let settings = |command| Settings {
        command,
        config: CONFIG,
    };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(server, &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    apis[0].ok(apis[0].put("/entity/note/7", &json!({ "author": 900_001 })));
    let stop = AtomicBool::new(false);
    let done: Vec<Done> = thread::scope(|scope| {
        let (apis, stop) = (&apis, &stop);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| scope.spawn(move || act(apis, client, stop)))
            .collect();
        for round in 0..2 {
            assert_eq!(split(server)["phase"], "split");
            thread::sleep(std::time::Duration::from_secs(1));
            assert_eq!(merge(server)["phase"], json!(null), "{round}");
        }
        for (kill, (on_split, on_merge)) in SPLIT_STEPS.iter().zip(MERGE_STEPS).enumerate() {
            let arguments = ["hot", "split", "note:7", "--shards", "4", "--grace", "0"];
            kill_at(store, &arguments, on_split);
            // A process is killed, too.
            let process = kill % processes.len();
            processes[process].kill();
            processes[process].launch();
            split(server);
            kill_at(store, &["hot", "merge", "note:7"], on_merge);
            if kill % 2 == 0 {
                merge(server);
                continue;
            }
            // A consumer finishes it.
            server.client().ok("DEL countd:migrate");
            wait_until("the entity is whole", || {
                hot(server, &["list"]) == json!([])
            });
        }
        // It ends split.
        split(server);
        stop.store(true, Ordering::SeqCst);
        clients
            .into_iter()
            .map(|client| client.join().expect("a client"))
            .collect()
    });
    let likes: BTreeSet<u64> = done.iter().flat_map(|done| done.likes.clone()).collect();
    assert!(done.iter().map(|done| done.actions).sum::<u64>() > 1_000);
    for is_split in [true, false] {
        wait_until_drained(server, 16);
        for api in &apis {
            assert_likes(api, &likes);
        }
        if is_split {
            merge(server);
        }
    }
    // No counters of shards are left.
    assert_eq!(server.client().run("KEYS cnt:*~*"), "(empty array)");
}

fn kill_at(store: &TestStore, arguments: &[&str], step: &str) {
    let mut running = Running::start(&store.server, CONFIG, arguments);
    if running.wait_for_step(step, 1) {
        running.kill();
        store.server.client().ok("DEL countd:migrate");
        return;
    }
    let (succeeded, _, errors) = running.end();
    assert!(succeeded, "{step}: {errors}");
}

/// Asserts what a process returns of note 7.
fn assert_likes(api: &Api, likes: &BTreeSet<u64>) {
    assert_eq!(api.counts(7)["like"], likes.len());
    let mut listed = BTreeSet::new();
    let mut cursor = String::new();
    loop {
        let page = api.ok(api.get(&format!("/who/like/note/7?limit=50{cursor}")));
        for user in page["users"].as_array().expect("users") {
            let user = user.as_str().and_then(|user| user.parse().ok());
            listed.insert(user.expect("a user"));
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed, *likes);
    for user in [1, 2, 41, 42, 81, 121] {
        let timeline = api.ok(api.get(&format!("/user/{user}/like/note")));
        let notes = timeline["items"].as_array().expect("items");
        let has = notes.iter().any(|note| note["eid"] == "7");
        assert_eq!(has, likes.contains(&user), "{user} {timeline}");
    }
    wait_until("the author is credited", || {
        api.user(900_001)["likesReceived"] == likes.len()
    });
}
