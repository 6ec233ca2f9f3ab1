//! The server of the stored layout loses its last write, as one that is killed with `appendfsync everysec` may.

use super::clients::{act_while, repeated};
use super::{AUTHOR, CONFIG, MERGE, SPLIT, assert_likes, hot, merge, split};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, Running, Settings, on_note, set_schema, wait_until_drained};
use countint_tests::{Client, Server, reply};
use serde_json::json;
use std::collections::BTreeSet;
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
    restore(client, layout);
    client.ok("DEL countd:migrate");
    thread::sleep(LOST);
}

/// Sets the stored layout back, with its epoch.
fn restore(client: &mut Client, layout: &[u8]) {
    let restored = client.call(&[b"RESTORE", &b"countd:layout"[..], b"0", layout, b"REPLACE"]);
    assert_eq!(reply::format(&restored), "OK");
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
    let likes = act_while(&apis, CLIENTS, || {
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
    })
    .likes;
    wait_until_drained(server, 16);
    for api in &apis {
        assert_likes(api, &likes);
    }
    assert_invariants(server, CONFIG);
}

/// A process follows a split that the layout loses. While it is suspended, another split begins, with another number of shards.
#[test]
fn likes_count_once_when_a_process_slept_while_the_layout_lost_a_split() {
    const USERS: std::ops::RangeInclusive<u64> = 1..=40;
    let server = &Server::start();
    set_schema(server, CONFIG);
    let processes = ["all", "serve"].map(|command| {
        let config = CONFIG;
        Countd::with(server, &Settings { command, config })
    });
    let [api, suspended] = [processes[0].api(), processes[1].api()];
    api.ok(api.put("/entity/note/7", &json!({ "author": AUTHOR })));
    let mut client = server.client();
    // The layout says that entities can be split.
    split(server, CONFIG);
    merge(server, CONFIG);
    let layout = saved(&mut client);
    let begin = |shards, grace| {
        let arguments = [
            "hot", "split", "note:7", "--shards", shards, "--grace", grace,
        ];
        Running::start(server, CONFIG, &arguments)
    };
    let mut lost = begin("4", "60");
    assert!(lost.wait_for_step("grace period", 1));
    processes[1].suspend();
    lost.kill();
    let state = |client: &mut Client| client.run("HGET countd:layout split:note:7");
    let lost_state = state(&mut client);
    lose(&mut client, &layout);
    // Longer than a process uses a layout that it could not compare.
    let mut running = begin("8", "31");
    assert!(running.wait_for_step("waiting for disks and replicas", 1));
    running.suspend();
    let generation = |state: &str| state.split(' ').nth(1).map(str::to_owned);
    assert_ne!(generation(&lost_state), generation(&state(&mut client)));
    processes[1].resume();
    let like = |api: &Api, uid| {
        repeated(|| api.try_post("/action/like", &on_note(7, uid).to_string()));
    };
    USERS.for_each(|uid| like(&suspended, uid));
    USERS.for_each(|uid| like(&api, uid));
    running.resume();
    running.end();
    assert_eq!(
        hot(server, CONFIG, &["split", "note:7", "--shards", "8"])["phase"],
        "split"
    );
    for is_split in [true, false] {
        wait_until_drained(server, 16);
        for api in [&api, &suspended] {
            assert_likes(api, &USERS.collect());
        }
        if is_split {
            merge(server, CONFIG);
        }
    }
    assert_invariants(server, CONFIG);
}

/// Processes that follow the layout would not find frozen facts.
#[test]
fn no_facts_are_frozen_when_the_layout_has_lost_the_split() {
    let server = &Server::start();
    let countd = Countd::start(server, CONFIG);
    let api = countd.api();
    api.ok(api.put("/entity/note/7", &json!({ "author": AUTHOR })));
    api.act("like", on_note(7, 1));
    let mut client = server.client();
    let layout = saved(&mut client);
    let mut running = Running::start(server, CONFIG, &SPLIT);
    assert!(running.wait_for_step("grace period", 1));
    assert_ne!(saved(&mut client), layout);
    restore(&mut client, &layout);
    let (succeeded, _, errors) = running.end();
    assert!(
        !succeeded && errors.contains("has lost the state"),
        "{errors}"
    );
    assert_eq!(phase(server), "whole");
    assert_eq!(api.act("like", on_note(7, 2))["changed"], true);
    wait_until_drained(server, 16);
    assert_likes(&api, &BTreeSet::from([1, 2]));
    assert_eq!(split(server, CONFIG)["phase"], "split");
    merge(server, CONFIG);
    assert_likes(&api, &BTreeSet::from([1, 2]));
    assert_invariants(server, CONFIG);
}
