//! Repeatable metrics that count once for a user and an entity in a window of time.

use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, cluster, for_each_store};
use crate::support::{Api, Countd, Settings, on_note, run, set_schema, wait_until_drained, with};
use countint_tests::{Clock, Server};
use serde_json::{Value as Json, json};

/// A window of a year hardly ends during a test.
const CONFIG: &str = r#"
[metrics.read]
nature = "repeatable"
count = "batched"
window_seconds = 31536000
aliases = ["view"]
[metrics.comment]
nature = "repeatable"
count = "now"
window_seconds = 31536000
"#;

fn a_user_counts_once_for_an_entity_in_a_window(TestStore { server, .. }: TestStore) {
    let mut countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    let counted = json!({ "changed": true });
    let repeated = json!({ "changed": false });
    assert_eq!(api.act("read", on_note(1, 42)), counted);
    assert_eq!(api.act("read", on_note(1, 42)), repeated);
    assert_eq!(api.act("view", on_note(1, 42)), repeated, "an alias");
    assert_eq!(api.act("read", on_note(1, 43)), counted, "another user");
    assert_eq!(api.act("read", on_note(2, 42)), counted, "another entity");
    let count = |changed: bool, count: u64| json!({ "changed": changed, "count": count });
    assert_eq!(api.act("comment", on_note(1, 42)), count(true, 1));
    assert_eq!(api.act("comment", on_note(1, 42)), count(false, 1));
    assert_eq!(api.act("comment", on_note(1, 43)), count(true, 2));
    assert_eq!(api.act("comment", on_note(1, 42)), count(false, 2));
    // Undoing is not limited, and does not begin another window.
    let undo = with(on_note(1, 42), json!({ "op": "remove" }));
    assert_eq!(api.act("comment", undo), count(true, 1));
    assert_eq!(api.act("comment", on_note(1, 42)), count(false, 1));
    countd.kill();
    countd.launch();
    let api = countd.api();
    assert_eq!(api.act("read", on_note(1, 42)), repeated, "after a crash");
    let line =
        |metric: &str, uid: u64| with(on_note(3, uid), json!({ "metric": metric })).to_string();
    let lines = [
        line("read", 1),
        line("read", 1),
        line("comment", 1),
        line("comment", 1),
        line("comment", 2),
    ];
    let (_, text) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("a response");
    let lines: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(
        lines,
        [
            counted,
            repeated,
            count(true, 1),
            count(false, 1),
            count(true, 2)
        ]
    );
    wait_until_drained(&server, 1024);
    let reads: Vec<Json> = [1, 2, 3].map(|eid| api.counts(eid)["read"].clone()).into();
    assert_eq!(reads, [2, 1, 1]);
    let mut client = server.client();
    let keys = client.run("KEYS act:dedup:note:2:read:42:*");
    let key = keys.split('"').nth(1).expect("a key").to_owned();
    let left = client.run(&format!("TTL {key}"));
    let left: u64 = left
        .trim_start_matches("(integer) ")
        .parse()
        .expect("seconds");
    assert!((31_000_000..=31_536_000).contains(&left), "{left}");
    assert_invariants(&server, CONFIG);
}

/// The answer of an idempotency key is that of its first request, also within a window.
fn idempotency_keys_work_within_windows(store: TestStore) {
    let server = &store.server;
    let countd = Countd::start(server, CONFIG);
    let api = countd.api();
    for metric in ["read", "comment"] {
        let keyed = |key: &str| with(on_note(1, 42), json!({ "idempotencyKey": key }));
        let first = api.act(metric, keyed("a"));
        assert_eq!(first["changed"], true);
        assert_eq!(api.act(metric, keyed("b"))["changed"], false);
        assert_eq!(api.act(metric, keyed("a")), first);
        assert_eq!(api.act(metric, keyed("b"))["changed"], false);
    }
    let mut client = server.client();
    let log = store.log(TestStore::partition("note:9", 1024));
    client.ok(&format!("LPUSH {log} x"));
    let failed = api.post("/action/comment", &on_note(9, 42));
    assert_eq!((failed.0, &failed.1["code"]), (500, &json!("damaged")));
    client.ok(&format!("DEL {log}"));
    assert_eq!(api.act("comment", on_note(9, 42))["count"], 1);
}

/// Key names have hash tags in cluster mode, so only the counting is compared there.
fn a_user_counts_once_in_any_store(TestStore { server, .. }: TestStore) {
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    for metric in ["read", "comment"] {
        assert_eq!(api.act(metric, on_note(1, 42))["changed"], true);
        assert_eq!(api.act(metric, on_note(1, 42))["changed"], false);
        assert_eq!(api.act(metric, on_note(1, 43))["changed"], true);
    }
    wait_until_drained(&server, 1024);
    assert_eq!(api.counts(1)["read"], 2);
}

for_each_store! {
    [module plain cluster]
    idempotency_keys_work_within_windows
}

/// Tests that use the key names of a single server, which have no hash tags.
mod keys {
    use super::*;

    for_each_store! {
        [module plain]
        a_user_counts_once_for_an_entity_in_a_window
    }
}

#[test]
fn windows_work_in_a_cluster() {
    a_user_counts_once_in_any_store(cluster());
}

/// The window is that of Redis's clock, however wrong countd's clock is.
#[test]
fn windows_follow_the_clock_of_redis() {
    // A window. A short one could end in the middle of the test.
    const WINDOW: i64 = 100 * 86_400;
    let (redis_clock, countd_clock) = (Clock::new(), Clock::new());
    let server = Server::builder().clock(&redis_clock).start();
    let config = &CONFIG.replace("31536000", "8640000");
    set_schema(&server, config);
    let command = "serve";
    let countd = Countd::with_clock(&server, &Settings { command, config }, &countd_clock);
    let api = countd.api();
    // A user of its own for each step.
    let count_twice = |api: &Api, uid: u64| {
        let twice = [0; 2].map(|_| api.act("comment", on_note(1, uid))["changed"] == true);
        let line = with(on_note(2, uid), json!({ "metric": "read" })).to_string();
        let lines = [line.clone(), line].join("\n");
        let (_, text) = api.try_post("/actions", &lines).expect("a response");
        (twice, text.matches("true").count())
    };
    let steps = [0, 1, 2, 30, -30, 40, 0];
    for (uid, step) in (100..).zip(steps) {
        redis_clock.set(step * WINDOW);
        countd_clock.set(-step * WINDOW);
        assert_eq!(count_twice(&api, uid), ([true, false], 1), "{step} windows");
    }
    // The same user counts again in another window.
    let act = || api.act("comment", on_note(7, 7))["changed"] == true;
    let changes = [0, 10, 10, 20].map(|windows| {
        redis_clock.set(windows * WINDOW);
        act()
    });
    assert_eq!(changes, [true, true, false, true]);
}

#[test]
fn windows_are_for_repeatable_metrics() {
    let server = Server::start();
    for (metric, problem) in [
        (
            "nature = \"once\"\ncount = \"now\"\nwindow_seconds = 60",
            "once metric",
        ),
        (
            "nature = \"repeatable\"\ncount = \"now\"\nwindow_seconds = 0",
            "must be 1",
        ),
        (
            "nature = \"repeatable\"\ncount = \"now\"\nwindow_seconds = 99999999",
            "must be 1",
        ),
    ] {
        let output = run(&server, &format!("[metrics.read]\n{metric}\n"), &["check"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && errors.contains(problem),
            "{errors}"
        );
    }
}
