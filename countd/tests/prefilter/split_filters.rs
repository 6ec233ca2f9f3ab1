//! The filters of a process while an entity is split: they stay, and have the facts of all its keys as those of the entity.

use super::{CONFIG, answers, builds, has, start, wait_until_built};
use crate::split::{SPLIT, act_while, merge, split};
use crate::support::invariants::{assert_invariants, assert_invariants_of_all};
use crate::support::{Api, Countd, Running, Settings, on_note, pause, set_schema};
use countint_tests::{Cluster, Server, wait_until};
use std::slice;

/// Users like note 7.
fn like(api: &Api, users: std::ops::RangeInclusive<u64>) {
    for uid in users {
        api.act("like", on_note(7, uid));
    }
}

/// Asserts that the users 1 to `last` like note 7, and no others.
fn assert_likes(api: &Api, last: u64) {
    for uid in 1..=60 {
        assert_eq!(has(api, 7, uid), uid <= last, "user {uid}");
    }
}

#[test]
fn statuses_of_a_split_entity_are_answered_from_memory() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let (filtering, acting) = (start(&server, "serve"), start(&server, "all"));
    let (api, other) = (filtering.api(), acting.api());
    like(&other, 1..=20);
    wait_until_built(&api);
    let built = builds(&api);
    split(&server, CONFIG);
    like(&other, 21..=40);
    wait_until("all absent facts are answered from memory", || {
        let before = answers(&api);
        assert_likes(&api, 40);
        answers(&api) == before + 20
    });
    merge(&server, CONFIG);
    assert_likes(&api, 40);
    like(&other, 41..=42);
    assert_likes(&api, 42);
    assert_eq!(builds(&api), built);
    assert_invariants(&server, CONFIG);
}

#[test]
fn filters_that_are_built_while_an_entity_is_split_have_its_facts() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let acting = start(&server, "all");
    like(&acting.api(), 1..=20);
    split(&server, CONFIG);
    like(&acting.api(), 21..=40);
    let filtering = start(&server, "serve");
    let api = filtering.api();
    wait_until_built(&api);
    assert_likes(&api, 40);
    merge(&server, CONFIG);
    assert_likes(&api, 40);
    assert_eq!(builds(&api), 1);
    // What the split has left are Strings.
    let later = start(&server, "serve");
    wait_until_built(&later.api());
    assert_likes(&later.api(), 40);
    assert_invariants(&server, CONFIG);
}

#[test]
fn no_filters_are_built_while_an_entity_is_being_split() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let acting = start(&server, "serve");
    like(&acting.api(), 1..=20);
    let mut splitting = Running::start(&server, CONFIG, &SPLIT);
    assert!(splitting.wait_for_step("waiting for the consumers", 1));
    let filtering = start(&server, "serve");
    let api = filtering.api();
    wait_until("a build was refused", || {
        filtering
            .log()
            .contains("an entity is being split or merged")
    });
    assert_likes(&api, 20);
    assert_eq!((builds(&api), answers(&api)), (0, 0));
    let _consuming = start(&server, "consume");
    wait_until_built(&api);
    assert_likes(&api, 20);
    merge(&server, CONFIG);
    assert_likes(&api, 20);
    assert_eq!(builds(&api), 1);
    assert_invariants(&server, CONFIG);
}

#[test]
fn no_like_is_denied_by_filters_that_stay_under_splits_and_merges() {
    let server = Server::start();
    assert_no_like_is_denied(slice::from_ref(&server));
}

#[test]
fn no_like_is_denied_by_filters_that_stay_under_splits_and_merges_in_a_cluster() {
    assert_no_like_is_denied(&Cluster::start().nodes);
}

/// Clients like note 7 and take their likes back through two processes, and read from both. Further processes build filters meanwhile.
fn assert_no_like_is_denied(nodes: &[Server]) {
    let server = &nodes[0];
    // All actions are in the logs of few partitions, and the filters must have read them before they are trimmed.
    let long = "partitions = 8\nretain = 10000\nretain_bytes = 10000000\n";
    let config = &CONFIG.replace("partitions = 8\n", long);
    set_schema(server, config);
    let start = |command| Countd::with(server, &Settings { command, config });
    let mut processes = vec![start("all"), start("serve")];
    let apis = [processes[0].api(), processes[1].api()];
    apis.iter().for_each(wait_until_built);
    let likes = act_while(&apis, 6, || {
        for _ in 0..2 {
            split(server, config);
            processes.push(start("serve"));
            pause();
            merge(server, config);
        }
        // It ends split.
        split(server, config);
    })
    .likes;
    for is_split in [true, false] {
        for process in &processes {
            let api = process.api();
            wait_until_built(&api);
            for uid in 1..=300 {
                assert_eq!(has(&api, 7, uid), likes.contains(&uid), "user {uid}");
            }
        }
        if is_split {
            merge(server, config);
        }
    }
    for api in &apis {
        assert_eq!(builds(api), 1);
    }
    assert_invariants_of_all(nodes, config);
}
