//! Likes, taken back and repeated, and reads, while an entity is split and merged again and again.

use super::clients::act_slowly_while;
use super::{AUTHOR, CONFIG, MERGE, SPLIT, assert_likes, hot, merge, split};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, cluster, module, objects, plain};
use crate::support::{Countd, Running, Settings, set_schema, wait_until_drained};
use countint_tests::wait_until;
use serde_json::json;
use std::thread;
use std::time::Duration;

/// How much is done while note 7 is split and merged.
pub(crate) struct Load {
    /// The first step at which something is killed.
    pub first: usize,
    /// The number of such steps.
    pub steps: usize,
    /// The number of clients.
    pub clients: u64,
    /// The pause between the actions of a client.
    pub pause: Duration,
}

impl Load {
    /// With this number of steps.
    pub(crate) fn of_steps(steps: usize) -> Load {
        Load {
            first: 0,
            steps,
            clients: 6,
            pause: Duration::from_millis(10),
        }
    }
}

#[test]
fn likes_match_the_model_under_splits_and_merges() {
    assert_likes_match_the_model_on(module());
}

#[test]
fn likes_match_the_model_under_splits_and_merges_of_objects() {
    assert_likes_match_the_model_on(objects());
}

#[test]
fn likes_match_the_model_under_splits_and_merges_without_the_module() {
    assert_likes_match_the_model_on(plain());
}

#[test]
fn likes_match_the_model_under_splits_and_merges_in_cluster_mode() {
    assert_likes_match_the_model_on(cluster());
}

/// With the log in streams. Each step takes half a minute: in a cluster, with objects, and without the module, only the first ones are tested.
fn assert_likes_match_the_model_on(mut store: TestStore) {
    let steps = match (store.has_tables, store.is_cluster()) {
        (true, false) => SPLIT_STEPS.len(),
        (true, true) => 3,
        (false, _) => 1,
    };
    assert_likes_match_the_model(&mut store, CONFIG, &Load::of_steps(steps));
}

/// The steps at which commands are killed, and for which time that they begin.
pub(crate) const SPLIT_STEPS: [(&str, usize); 5] = [
    ("waiting for all processes", 1),
    ("authors of the shards", 1),
    ("freezing facts", 1),
    CONSUMERS,
    // Shards are open, and the layout does not say so.
    ("waiting for disks and replicas", 2),
];
const MERGE_STEPS: [(&str, usize); 5] = [
    ("waiting for all processes", 1),
    ("fencing facts", 1),
    COPYING,
    ("deleting shards", 1),
    // The base has the counters of the shards, which still have theirs.
    ("waiting for disks and replicas", 3),
];
/// Only if there are events that are not counted.
const CONSUMERS: (&str, usize) = ("waiting for the consumers", 1);
/// Only if there are facts at shards: after a start of Redis, clients may not have acted again.
const COPYING: (&str, usize) = ("copying facts", 1);
/// Steps that may not be reached.
const CONDITIONAL: [(&str, usize); 2] = [CONSUMERS, COPYING];

/// Likes by concurrent clients, while note 7 is split and merged, and commands, processes and Redis are killed at some of the steps.
pub(crate) fn assert_likes_match_the_model(store: &mut TestStore, config: &str, load: &Load) {
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&store.server, &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    apis[0].ok(apis[0].put("/entity/note/7", &json!({ "author": AUTHOR })));
    let done = act_slowly_while(&apis, (load.clients, load.pause), || {
        assert_eq!(split(&store.server, config)["phase"], "split");
        let_users_act();
        assert_eq!(merge(&store.server, config)["phase"], json!(null));
        let pairs = SPLIT_STEPS.iter().zip(MERGE_STEPS).enumerate();
        for (kill, (on_split, on_merge)) in pairs.skip(load.first).take(load.steps) {
            kill_at(store, config, &SPLIT, *on_split);
            // A process is killed, too.
            let process = kill % processes.len();
            processes[process].kill();
            processes[process].launch();
            split(&store.server, config);
            let_users_act();
            kill_at(store, config, &MERGE, on_merge);
            if kill % 2 == 0 {
                merge(&store.server, config);
                continue;
            }
            // A consumer finishes it.
            store.server.client().ok("DEL countd:migrate");
            wait_until("the entity is whole", || {
                hot(&store.server, config, &["list"]) == json!([])
            });
        }
        let redis = [
            (&SPLIT[..], SPLIT_STEPS[2]),
            (&MERGE[..], MERGE_STEPS[2]),
            (&SPLIT[..], SPLIT_STEPS[3]),
            (&MERGE[..], MERGE_STEPS[3]),
        ];
        for (arguments, step) in redis.into_iter().take(load.steps) {
            if arguments == MERGE {
                let_users_act();
            }
            kill_redis_at(store, config, arguments, step);
        }
        // It ends split.
        split(&store.server, config);
    });
    assert!(done.actions > 1_000);
    let server = &store.server;
    for is_split in [true, false] {
        wait_until_drained(server, 16);
        for api in &apis {
            assert_likes(api, &done.likes);
        }
        if is_split {
            merge(server, config);
        }
    }
    // No counters of shards are left.
    assert_eq!(server.client().run("KEYS cnt:*~*"), "(empty array)");
    assert_invariants(server, config);
}

/// Lets users of a split entity act for the first time: they are at its shards, from where a merge copies them.
fn let_users_act() {
    thread::sleep(Duration::from_secs(1));
}

/// Kills the server while a command is at a step, starts it again with all its data, and lets another command finish.
fn kill_redis_at(store: &mut TestStore, config: &str, arguments: &[&str], step: (&str, usize)) {
    let mut running = Running::start(&store.server, config, arguments);
    let is_reached = running.wait_for_step(step.0, step.1);
    if is_reached {
        store.server.kill();
        store.server.start_again();
    }
    // It may have failed, or not.
    let (_, _, errors) = running.end();
    assert!(
        is_reached || CONDITIONAL.contains(&step),
        "{step:?}: {errors}"
    );
    // A cluster is down for a moment after a start.
    wait_until("the lock can be deleted", || {
        let reply = store.server.client().run("DEL countd:migrate");
        reply.starts_with("(integer)")
    });
    match arguments == MERGE {
        true => merge(&store.server, config),
        false => split(&store.server, config),
    };
}

fn kill_at(store: &TestStore, config: &str, arguments: &[&str], step: (&str, usize)) {
    let mut running = Running::start(&store.server, config, arguments);
    if running.wait_for_step(step.0, step.1) {
        running.kill();
        store.server.client().ok("DEL countd:migrate");
        return;
    }
    let (succeeded, _, errors) = running.end();
    assert!(
        succeeded && CONDITIONAL.contains(&step),
        "{step:?}: {errors}"
    );
}
