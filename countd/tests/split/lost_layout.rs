//! The server of the stored layout loses its last write, as one that is killed with `appendfsync everysec` may.

use super::clients::{Done, StopOnDrop, act};
use super::{AUTHOR, CONFIG, MERGE, SPLIT, assert_likes, hot, merge, split};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, Running, Settings, set_schema, wait_until_drained};
use countint_tests::{Client, Server, reply};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

for_each_store! {
    [module cluster]
    likes_match_the_model_when_steps_of_the_layout_are_lost
}

/// The number of clients.
const CLIENTS: u64 = 4;
/// How long clients go on with the layout of before the lost write.
const LOST: Duration = Duration::from_secs(3);

/// The stored layout.
fn saved(client: &mut Client) -> Vec<u8> {
    reply::bytes(client.ok("DUMP countd:layout"))
}

/// Sets the stored layout back, with its epoch, and expires the lock of the command.
fn lose(client: &mut Client, layout: &[u8]) {
    let restored = client.call(&[b"RESTORE", &b"countd:layout"[..], b"0", layout, b"REPLACE"]);
    assert_eq!(reply::format(&restored), "OK");
    client.ok("DEL countd:migrate");
    thread::sleep(LOST);
}

/// Runs a command until its first step is recorded in the layout, kills it, and loses what it has recorded.
fn lose_first_step(server: &Server, arguments: &[&str]) {
    let mut client = server.client();
    let layout = saved(&mut client);
    let mut running = Running::start(server, CONFIG, arguments);
    assert!(running.wait_for_step("waiting for all processes", 1));
    running.kill();
    assert_ne!(saved(&mut client), layout);
    lose(&mut client, &layout);
}

/// Runs a command to its end, and loses what it has recorded after a step.
fn lose_last_step(server: &Server, arguments: &[&str], step: &str) {
    let mut client = server.client();
    let mut running = Running::start(server, CONFIG, arguments);
    assert!(running.wait_for_step(step, 1));
    let layout = saved(&mut client);
    let (succeeded, _, errors) = running.end();
    assert!(succeeded, "{errors}");
    assert_ne!(saved(&mut client), layout);
    lose(&mut client, &layout);
}

/// The phase of note 7, as the layout has it.
fn phase(server: &Server) -> String {
    let listed = hot(server, CONFIG, &["list"]);
    listed[0]["phase"].as_str().unwrap_or("whole").to_owned()
}

fn likes_match_the_model_when_steps_of_the_layout_are_lost(store: TestStore) {
    let server = &store.server;
    set_schema(server, CONFIG);
    let settings = |command| Settings {
        command,
        config: CONFIG,
    };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(server, &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    apis[0].ok(apis[0].put("/entity/note/7", &json!({ "author": AUTHOR })));
    let stop = AtomicBool::new(false);
    let done: Vec<Done> = thread::scope(|scope| {
        let (apis, stop) = (&apis, &stop);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| scope.spawn(move || act(apis, client, stop)))
            .collect();
        let running = StopOnDrop(stop);
        for round in 0..2 {
            lose_first_step(server, &SPLIT);
            assert_eq!(phase(server), "whole");
            lose_last_step(server, &SPLIT, "waiting for disks and replicas");
            assert_eq!(phase(server), "splitting");
            // A process that reads the layout for the first time.
            let process = &mut processes[2 * round];
            process.kill();
            process.launch();
            assert_eq!(split(server, CONFIG)["phase"], "split");
            lose_first_step(server, &MERGE);
            assert_eq!(phase(server), "split");
            lose_last_step(server, &MERGE, "deleting shards");
            assert_eq!(merge(server, CONFIG)["phase"], json!(null));
        }
        drop(running);
        clients
            .into_iter()
            .map(|client| client.join().expect("a client"))
            .collect()
    });
    let likes: BTreeSet<u64> = done.iter().flat_map(|done| done.likes.clone()).collect();
    wait_until_drained(server, 16);
    for api in &apis {
        assert_likes(api, &likes);
    }
    assert_invariants(server, CONFIG);
}
