//! Backfills that are killed at random points, or whose Redis is, and run again while clients act.

use super::{CONFIG, PARTITIONS, assert_lists_facts};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::{Random, StopOnDrop};
use crate::support::{Api, Countd, Running, Settings, printed, run, wait_until_drained};
use countint_tests::{Client, Server, reply, wait_until};
use serde_json::json;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

for_each_store! {
    [module plain cluster]
    killed_backfills_add_each_fact_once
}

const USERS: u64 = 25;
const NOTES: u64 = 200;
/// The number of backfills that are killed, or whose Redis is.
const KILLS: u64 = 9;
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
    let (status, response) = try_act(api, likes).expect("a response");
    assert_eq!(status, 200, "{response}");
}

fn try_act(
    api: &Api,
    likes: impl Iterator<Item = (u64, u64, bool)>,
) -> Result<(u16, String), String> {
    let line = |(note, uid, is_add)| {
        let op = if is_add { "add" } else { "remove" };
        json!({ "metric": "like", "etype": "note", "eid": note, "uid": uid, "op": op }).to_string()
    };
    let lines: Vec<String> = likes.map(line).collect();
    api.try_post("/actions", &lines.join("\n"))
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

/// The configuration without limits, and with likes as facts alone.
pub fn config(reverse: &str) -> String {
    format!(
        "{CONFIG}[limits]\nuser = {{ per_second = 0 }}\n[metrics.like]\nnature = \"once\"\ncount = \"never\"\n{reverse}"
    )
}

fn killed_backfills_add_each_fact_once(mut store: TestStore) {
    assert_killed_backfills_add_each_fact_once(&mut store, KILLS, config);
}

/// Asserts that backfills add each fact once when some of them are killed. `config` are the settings of all processes, by lines of the
/// section of likes.
pub fn assert_killed_backfills_add_each_fact_once(
    store: &mut TestStore,
    kills: u64,
    config: impl Fn(&str) -> String,
) {
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
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        let acting = scope.spawn(|| {
            let mut random = Random(1);
            while !stop.load(Relaxed) {
                let (note, uid) = (random.below(NOTES + 50), 1 + random.below(USERS));
                // It fails while Redis is away.
                let _ = try_act(&api, [(note, uid, random.below(2) == 0)].into_iter());
            }
        });
        let mut random = Random(2);
        for turn in 0..kills {
            let (step, times) = STEPS[random.below(STEPS.len() as u64) as usize];
            let mut backfill = Running::start(&store.server, &config, &arguments);
            // A backfill that ends before the step is not killed.
            backfill.wait_for_step(step, times);
            thread::sleep(Duration::from_millis(random.below(100)));
            let pid = backfill.id();
            if turn % 3 == 2 {
                store.restart();
                // It may have ended before, or fail.
                backfill.end();
            } else {
                backfill.kill();
            }
            forget_process(&mut store.server.client(), pid);
        }
        let (succeeded, _, errors) = Running::start(&store.server, &config, &arguments).end();
        assert!(succeeded, "{errors}");
        drop(stopping);
        acting.join().expect("the actions");
    });
    wait_until_drained(&store.server, PARTITIONS);
    for uid in 1..=USERS {
        assert_lists_facts(&api, uid, "like", NOTES + 50);
    }
    assert_eq!(printed(&run(&store.server, &config, &["dead", "list"])), "");
    assert_invariants(&store.server, &config);
}

/// The last entries of the log are not in the file from which Redis starts, so no consumer reads these facts.
#[test]
fn a_backfill_whose_entries_were_lost_is_refused() {
    let mut server = Server::start();
    let likes = |users: RangeInclusive<u64>| users.map(|uid| (1, uid, true));
    let without = Countd::start(&server, &config(""));
    act(&without.api(), likes(1..=5));
    wait_until_drained(&server, PARTITIONS);
    drop(without);
    let config = &config("reverse = true\n");
    let start = |server: &Server, command| Countd::with(server, &Settings { command, config });
    let serve = start(&server, "serve");
    let api = serve.api();
    let backfill = |grace| ["reverse", "backfill", "like", "--grace", grace];
    let mut running = Running::start(&server, config, &backfill("2"));
    assert!(running.wait_for_step("grace period", 1));
    server.client().ok("SAVE");
    assert!(running.wait_for_step("waiting for the consumers", 1));
    running.suspend();
    server.kill();
    server.start_again();
    let _consume = start(&server, "consume");
    // The log goes beyond the entries that were lost.
    wait_until("actions succeed", || {
        try_act(&api, likes(6..=20)).is_ok_and(|(status, _)| status == 200)
    });
    wait_until_drained(&server, PARTITIONS);
    running.resume();
    let (succeeded, output, errors) = running.end();
    assert!(!succeeded, "{output}{errors}");
    let (status, problem) = api.get("/user/1/like/note");
    assert_eq!((status, &problem["code"]), (422, &json!("no_reverse")));
    let (succeeded, _, errors) = Running::start(&server, config, &backfill("0")).end();
    assert!(succeeded, "{errors}");
    for uid in 1..=20 {
        assert_lists_facts(&api, uid, "like", 3);
    }
}
