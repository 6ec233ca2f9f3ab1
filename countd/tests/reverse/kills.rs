//! Backfills that are killed at random points and run again while clients act.

use super::{CONFIG, PARTITIONS, assert_lists_facts};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::Random;
use crate::support::{Api, Countd, Running, printed, run, wait_until_drained};
use countint_tests::{Client, reply};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

for_each_store! {
    [module plain cluster]
    killed_backfills_add_each_fact_once
}

const USERS: u64 = 25;
const NOTES: u64 = 200;
/// The number of backfills that are killed.
const KILLS: u64 = 8;
/// The steps before a backfill can be killed, and which occurrence of each. The last one follows after all facts are added.
const STEPS: [(&str, usize); 5] = [
    ("waiting for all processes", 1),
    ("grace period", 1),
    ("reading facts", 1),
    ("waiting for the consumers", 1),
    ("waiting for all processes", 2),
];

/// Users like notes, or take their likes back.
fn act(api: &Api, likes: impl Iterator<Item = (u64, u64, bool)>) {
    let line = |(note, uid, is_add)| {
        let op = if is_add { "add" } else { "remove" };
        json!({ "metric": "like", "etype": "note", "eid": note, "uid": uid, "op": op }).to_string()
    };
    let lines: Vec<String> = likes.map(line).collect();
    let (status, response) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("a response");
    assert_eq!(status, 200, "{response}");
}

/// Removes a killed process from the live processes. Otherwise the next backfill waits until its heartbeat expires.
fn forget_process(client: &mut Client, pid: u32) {
    for member in reply::array(client.ok("ZRANGE countd:processes 0 -1")) {
        let member = reply::text(member);
        if member.starts_with(&format!("{pid}-")) {
            client.call(&["ZREM", "countd:processes", &member]);
        }
    }
}

fn killed_backfills_add_each_fact_once(store: TestStore) {
    let limits = "[limits]\nuser = { per_second = 0 }\n";
    let config = |reverse: &str| {
        format!("{CONFIG}{limits}[metrics.like]\nnature = \"once\"\ncount = \"never\"\n{reverse}")
    };
    let without = Countd::start(&store.server, &config(""));
    let api = without.api();
    for uid in 1..=USERS {
        act(&api, (0..NOTES).map(|note| (note, uid, true)));
    }
    drop(without);
    let config = config("reverse = true\n");
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    let arguments = ["reverse", "backfill", "like", "--grace", "0"];
    let mut client = store.server.client();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let acting = scope.spawn(|| {
            let mut random = Random(1);
            while !stop.load(Relaxed) {
                let (note, uid) = (random.below(NOTES + 50), 1 + random.below(USERS));
                act(&api, [(note, uid, random.below(2) == 0)].into_iter());
            }
        });
        let mut random = Random(2);
        for _ in 0..KILLS {
            let (step, times) = STEPS[random.below(STEPS.len() as u64) as usize];
            let mut backfill = Running::start(&store.server, &config, &arguments);
            // A backfill that ends before the step is not killed.
            backfill.wait_for_step(step, times);
            thread::sleep(Duration::from_millis(random.below(100)));
            let pid = backfill.id();
            backfill.kill();
            forget_process(&mut client, pid);
        }
        let (succeeded, _, errors) = Running::start(&store.server, &config, &arguments).end();
        assert!(succeeded, "{errors}");
        stop.store(true, Relaxed);
        acting.join().expect("the actions");
    });
    wait_until_drained(&store.server, PARTITIONS);
    for uid in 1..=USERS {
        assert_lists_facts(&api, uid, "like", NOTES + 50);
    }
    assert_eq!(printed(&run(&store.server, &config, &["dead", "list"])), "");
    assert_invariants(&store.server, &config);
}
