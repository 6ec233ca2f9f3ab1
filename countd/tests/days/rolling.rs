//! Processes of which only some count by day.

use super::setup::{CONFIG, METRICS, PARTITIONS, assert_days_add_up};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, Settings, set_schema, wait_until_drained};
use countint_tests::{Value, reply, wait_until};
use serde_json::json;

for_each_store! {
    [module plain cluster]
    a_rolling_restart_loses_no_day
}

/// Rounds that compare everything and correct every difference.
const ROUNDS: &str =
    "[reconcile]\ninterval_seconds = 1\nsample = 1\nmin_difference = 0\nmin_percent = 0\n";

fn act(api: &Api, uids: std::ops::Range<u64>) {
    for uid in uids {
        for eid in ["1", "a.7"] {
            for metric in METRICS {
                api.act(metric, json!({ "etype": "note", "eid": eid, "uid": uid }));
            }
        }
    }
}

fn states(store: &TestStore) -> Vec<String> {
    let states = store.server.client().call(&["HVALS", "countd:days-init"]);
    reply::array(states).into_iter().map(reply::text).collect()
}

fn wait_until_days_are_complete(store: &TestStore) {
    wait_until("days are complete", || {
        let counting = store
            .server
            .client()
            .call(&["HGET", "countd:layout", "counting"]);
        let states = states(store);
        let is_on = |state: &String| state.ends_with("/on");
        let is_settled = !matches!(&counting, Value::Nil) && !reply::text(counting).is_empty();
        is_settled && states.len() == METRICS.len() && states.iter().all(is_on)
    });
}

fn a_rolling_restart_loses_no_day(store: TestStore) {
    let with_days = format!("{CONFIG}{ROUNDS}");
    let without = with_days
        .replace("daily = true", "")
        .replace("reads = \"stream\"", "");
    set_schema(&store.server, &with_days);
    let old = Settings {
        command: "serve",
        config: &without,
    };
    let new = Settings {
        command: "all",
        config: &with_days,
    };
    let mut first = Countd::with(&store.server, &old);
    act(&first.api(), 1..4);
    let second = Countd::with(&store.server, &new);
    let waits = || second.log().matches("days are not filled").count();
    wait_until("the pass waits for the other process", || waits() >= 2);
    assert!(!states(&store).iter().any(|state| state.ends_with("/on")));
    act(&first.api(), 4..6);
    act(&second.api(), 6..8);
    first.stop();
    wait_until_days_are_complete(&store);
    wait_until_drained(&store.server, PARTITIONS);
    for eid in ["1", "a.7"] {
        assert_days_add_up(&store, &second.api(), eid);
    }
    // An old process joins again.
    let mut first = Countd::with(&store.server, &old);
    act(&first.api(), 8..10);
    first.stop();
    wait_until_days_are_complete(&store);
    wait_until_drained(&store.server, PARTITIONS);
    act(&second.api(), 10..11);
    wait_until_drained(&store.server, PARTITIONS);
    for eid in ["1", "a.7"] {
        assert_days_add_up(&store, &second.api(), eid);
        let counts = second
            .api()
            .ok(second.api().get(&format!("/counter/note/{eid}")));
        for metric in METRICS {
            assert_eq!(counts["counts"][metric], 10, "{metric} of {eid}");
        }
    }
    let audits = reply::array(store.server.client().call(&["KEYS", "x:audit:cntfix*"]));
    assert!(audits.is_empty(), "right counters stay: {audits:?}");
}
