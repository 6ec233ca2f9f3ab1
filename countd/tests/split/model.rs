//! Likes, taken back and repeated, and reads, while an entity is split and merged again and again.

use super::clients::{Done, StopOnDrop, act};
use super::{AUTHOR, CONFIG, assert_likes, hot, merge, split};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, cluster, module, objects, plain};
use crate::support::{Countd, Running, Settings, set_schema, wait_until_drained};
use countint_tests::wait_until;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::thread;

const CLIENTS: u64 = 6;

#[test]
fn likes_match_the_model_under_splits_and_merges() {
    assert_likes_match_the_model(module());
}

#[test]
fn likes_match_the_model_under_splits_and_merges_of_objects() {
    assert_likes_match_the_model(objects());
}

#[test]
fn likes_match_the_model_under_splits_and_merges_without_the_module() {
    assert_likes_match_the_model(plain());
}

#[test]
fn likes_match_the_model_under_splits_and_merges_in_cluster_mode() {
    assert_likes_match_the_model(cluster());
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

fn assert_likes_match_the_model(mut store: TestStore) {
    set_schema(&store.server, CONFIG);
    let settings = |command| Settings {
        command,
        config: CONFIG,
    };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&store.server, &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    apis[0].ok(apis[0].put("/entity/note/7", &json!({ "author": AUTHOR })));
    let stop = AtomicBool::new(false);
    let done: Vec<Done> = thread::scope(|scope| {
        let (apis, stop) = (&apis, &stop);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| scope.spawn(move || act(apis, client, stop)))
            .collect();
        let running = StopOnDrop(stop);
        assert_eq!(split(&store.server)["phase"], "split");
        thread::sleep(std::time::Duration::from_secs(1));
        assert_eq!(merge(&store.server)["phase"], json!(null));
        let steps = SPLIT_STEPS.iter().zip(MERGE_STEPS).enumerate();
        for (kill, (on_split, on_merge)) in steps.take(store.full_or(4, 1)) {
            kill_at(&store, &SPLIT, on_split);
            // A process is killed, too.
            let process = kill % processes.len();
            processes[process].kill();
            processes[process].launch();
            split(&store.server);
            kill_at(&store, &MERGE, on_merge);
            if kill % 2 == 0 {
                merge(&store.server);
                continue;
            }
            // A consumer finishes it.
            store.server.client().ok("DEL countd:migrate");
            wait_until("the entity is whole", || {
                hot(&store.server, &["list"]) == json!([])
            });
        }
        let redis = [
            (&SPLIT[..], SPLIT_STEPS[2]),
            (&MERGE[..], MERGE_STEPS[2]),
            (&SPLIT[..], SPLIT_STEPS[3]),
            (&MERGE[..], MERGE_STEPS[3]),
        ];
        for (arguments, step) in redis.into_iter().take(store.full_or(4, 1)) {
            kill_redis_at(&mut store, arguments, step);
        }
        // It ends split.
        split(&store.server);
        drop(running);
        clients
            .into_iter()
            .map(|client| client.join().expect("a client"))
            .collect()
    });
    let likes: BTreeSet<u64> = done.iter().flat_map(|done| done.likes.clone()).collect();
    assert!(done.iter().map(|done| done.actions).sum::<u64>() > 1_000);
    let server = &store.server;
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
    assert_invariants(server, CONFIG);
}

const SPLIT: [&str; 7] = ["hot", "split", "note:7", "--shards", "4", "--grace", "0"];
const MERGE: [&str; 3] = ["hot", "merge", "note:7"];

/// Kills the server while a command is at a step, starts it again with all its data, and lets another command finish.
fn kill_redis_at(store: &mut TestStore, arguments: &[&str], step: &str) {
    let mut running = Running::start(&store.server, CONFIG, arguments);
    if running.wait_for_step(step, 1) {
        store.server.kill();
        store.server.start_again();
    }
    // It may have failed, or not.
    running.end();
    // A cluster is down for a moment after a start.
    wait_until("the lock can be deleted", || {
        let reply = store.server.client().run("DEL countd:migrate");
        reply.starts_with("(integer)")
    });
    match arguments == MERGE {
        true => merge(&store.server),
        false => split(&store.server),
    };
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
