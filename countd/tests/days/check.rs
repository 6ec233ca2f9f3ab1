//! Comparisons of the counter, the total and the days of an entity.

use super::setup::{
    CONFIG, METRICS, PARTITIONS, assert_days_add_up, has_total_row, history, total, total_key,
};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, run, set_schema, wait_until_days_are_kept, wait_until_drained};
use countint_tests::{reply, wait_until};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

for_each_store! {
    [module objects plain cluster]
    a_dropped_day_is_corrected_in_history
    a_forged_counter_follows_the_total
    a_lost_total_follows_the_others
    damaged_totals_are_replaced_when_days_begin
    damaged_totals_say_nothing
    facts_decide_over_forged_numbers
    keys_of_another_type_are_replaced
    lost_counters_return_from_totals_and_days
    right_numbers_stay
    rounds_correct_days
}

/// No rounds: the command compares.
const NO_ROUNDS: &str = "[reconcile]\nenabled = false\n";
/// Rounds that compare everything and correct every difference.
const ROUNDS: &str =
    "[reconcile]\ninterval_seconds = 1\nsample = 1\nmin_difference = 0\nmin_percent = 0\n";
/// The fields of metrics in the schema.
const IDX: [(&str, u64); 5] = [
    ("read", 0),
    ("like", 1),
    ("fav", 2),
    ("comment", 3),
    ("repost", 4),
];

/// A countd with three events of each metric on a note.
fn start(store: &TestStore, eid: &str, reconcile: &str) -> Countd {
    let countd = Countd::start(&store.server, &format!("{CONFIG}{reconcile}"));
    for uid in 1..=3 {
        for metric in METRICS {
            let action = json!({ "etype": "note", "eid": eid, "uid": uid, "author": 9 });
            countd.api().act(metric, action);
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_days_are_kept(std::slice::from_ref(&store.server), METRICS.len());
    countd
}

/// Compares the counters of a note, and corrects every difference. Returns what was found of each metric.
fn reconcile(store: &TestStore, eid: &str) -> Json {
    let arguments = ["reconcile", "--entity", "note", eid, "--exact", "--json"];
    let output = run(&store.server, &format!("{CONFIG}{NO_ROUNDS}"), &arguments);
    let report: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(0), "{report}");
    report["metrics"].clone()
}

fn idx_of(metric: &str) -> String {
    let found = IDX.iter().find(|(name, _)| *name == metric);
    found.expect("a metric").1.to_string()
}

/// Adds to the counter of a metric, without its days.
fn forge_counter(store: &TestStore, eid: &str, metric: &str, delta: i64) {
    let key = store.counters("v1", &format!("note:{eid}"), PARTITIONS);
    let mut client = store.server.client();
    let (idx, delta) = (idx_of(metric), delta.to_string());
    let is_row = store.has_tables && eid.parse::<u64>().is_ok();
    match (store.has_module, is_row) {
        (true, true) => client.call(&["CTAB.INCRBY", &key, eid, &idx, &delta]),
        (true, false) => client.call(&["CINT.INCRBY", &key, &idx, &delta]),
        _ => client.call(&[
            "BITFIELD",
            &key,
            "INCRBY",
            "u40",
            &format!("#{idx}"),
            &delta,
        ]),
    };
}

/// The key of a note's days (`h:agg:...`).
fn days_key(store: &TestStore, metric: &str, eid: &str) -> String {
    let entity = format!("note:{eid}");
    store.key(&format!("h:agg:{metric}:{entity}"), "", &entity)
}

/// Deletes all totals.
fn lose_totals(store: &TestStore) {
    let mut client = store.server.client();
    for pattern in ["tot:*", "toth:*"] {
        for key in reply::array(client.call(&["KEYS", pattern])) {
            client.call(&["DEL", &reply::text(key)]);
        }
    }
}

/// The entries of the audits: metric, number and difference.
fn audited(store: &TestStore) -> Vec<(String, String, i64)> {
    let mut client = store.server.client();
    let mut found = Vec::new();
    for key in reply::array(client.call(&["KEYS", "x:audit:cntfix*"])) {
        for entry in reply::array(client.call(&["XRANGE", &reply::text(key), "-", "+"])) {
            let fields = reply::array(reply::array(entry)[1].clone());
            let fields: Vec<String> = fields.into_iter().map(reply::text).collect();
            let pairs = fields.chunks(2);
            let of: BTreeMap<_, _> = pairs
                .map(|pair| (pair[0].as_str(), pair[1].clone()))
                .collect();
            let number = of.get("number").cloned().unwrap_or_default();
            let difference = of["difference"].parse().expect("a number");
            found.push((of["metric"].clone(), number, difference));
        }
    }
    found.sort();
    found
}

fn entry(metric: &str, number: &str, difference: i64) -> (String, String, i64) {
    (metric.to_owned(), number.to_owned(), difference)
}

fn right_numbers_stay(store: TestStore) {
    let countd = start(&store, "1", NO_ROUNDS);
    let found = reconcile(&store, "1");
    for metric in METRICS {
        let of = &found[metric];
        assert_eq!((&of["checked"], &of["differing"]), (&json!(1), &json!(0)));
    }
    assert_eq!(audited(&store), []);
    assert_days_add_up(&store, &countd.api(), "1");
}

fn a_dropped_day_is_corrected_in_history(store: TestStore) {
    for eid in ["1", "a.7"] {
        let countd = start(&store, eid, NO_ROUNDS);
        let mut client = store.server.client();
        for metric in ["comment", "fav", "read"] {
            let key = days_key(&store, metric, eid);
            assert_eq!(reply::int(client.call(&["DEL", &key])), 1);
        }
        let before = audited(&store).len();
        let found = reconcile(&store, eid);
        for metric in ["comment", "fav", "read"] {
            assert_eq!(found[metric]["corrected"], 1, "{found}");
            assert_eq!(found[metric]["largest"], 3, "{found}");
            assert!(audited(&store).contains(&entry(metric, "days", 3)));
        }
        assert_eq!(audited(&store).len() - before, 3);
        assert_days_add_up(&store, &countd.api(), eid);
        // The day is not known any more.
        let history = history(&countd.api(), "comment", eid);
        assert_eq!(history["before"], 3, "{history}");
    }
}

fn a_forged_counter_follows_the_total(store: TestStore) {
    let countd = start(&store, "1", NO_ROUNDS);
    let countd = {
        drop(countd);
        start(&store, "a.7", NO_ROUNDS)
    };
    for eid in ["1", "a.7"] {
        // Of these, like and fav have facts, and like feeds the author.
        for metric in ["read", "like", "fav"] {
            forge_counter(&store, eid, metric, 1_000);
        }
        reconcile(&store, eid);
        wait_until_drained(&store.server, PARTITIONS);
        assert_days_add_up(&store, &countd.api(), eid);
    }
    let mut expected: Vec<_> = ["read", "like", "fav", "read", "like", "fav"]
        .map(|metric| entry(metric, "counter", -1_000))
        .into();
    expected.sort();
    assert_eq!(audited(&store), expected);
    let credited = countd.api().user(9)["likesReceived"].clone();
    assert_eq!(credited, 6, "the credit follows");
}

fn a_lost_total_follows_the_others(store: TestStore) {
    let countd = start(&store, "1", NO_ROUNDS);
    lose_totals(&store);
    let found = reconcile(&store, "1");
    for metric in METRICS {
        assert_eq!(found[metric]["corrected"], 1, "{metric}");
        assert!(audited(&store).contains(&entry(metric, "total", 3)));
    }
    assert_days_add_up(&store, &countd.api(), "1");
}

/// The number of facts decides, also if the other three agree. Without facts, the total does.
fn facts_decide_over_forged_numbers(store: TestStore) {
    let countd = start(&store, "1", NO_ROUNDS);
    let mut client = store.server.client();
    for metric in ["like", "fav", "read"] {
        client.call(&["DEL", &days_key(&store, metric, "1")]);
        forge_counter(&store, "1", metric, 50);
    }
    reconcile(&store, "1");
    let mut expected = Vec::new();
    for metric in ["like", "fav", "read"] {
        expected.push(entry(metric, "counter", -50));
        expected.push(entry(metric, "days", 3));
    }
    expected.sort();
    assert_eq!(audited(&store), expected);
    assert_days_add_up(&store, &countd.api(), "1");
    // Facts that appear without an action.
    for metric in ["like", "fav"] {
        for uid in 4..=6 {
            let action = json!({ "etype": "note", "eid": "1", "uid": uid });
            countd.api().act(metric, action);
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    lose_totals(&store);
    for metric in ["like", "fav"] {
        client.call(&["DEL", &days_key(&store, metric, "1")]);
        forge_counter(&store, "1", metric, -2);
    }
    reconcile(&store, "1");
    assert_days_add_up(&store, &countd.api(), "1");
    assert_eq!(total(&store, "like", "1"), 6);
    assert_eq!(total(&store, "fav", "1"), 6);
}

fn keys_of_another_type_are_replaced(store: TestStore) {
    let countd = start(&store, "1", NO_ROUNDS);
    let mut client = store.server.client();
    for metric in ["comment", "fav"] {
        let key = days_key(&store, metric, "1");
        client.call(&["SET", &key, "other"]);
    }
    let entity = "note:1";
    let history = store.key("h:agg:like:note:1:history", "", entity);
    client.call(&["SET", &history, "other"]);
    for pattern in ["tot:repost:*", "toth:repost:*"] {
        for key in reply::array(client.call(&["KEYS", pattern])) {
            client.call(&["SET", &reply::text(key), "other"]);
        }
    }
    let found = reconcile(&store, "1");
    for metric in ["comment", "fav", "like", "repost"] {
        assert_eq!(found[metric]["corrected"], 1, "{metric}: {found}");
        assert!(audited(&store).contains(&entry(metric, "key", 0)));
    }
    assert_days_add_up(&store, &countd.api(), "1");
}

/// Without totals and days, the counter is all that is left.
fn damaged_totals_say_nothing(store: TestStore) {
    let countd = start(&store, "1", NO_ROUNDS);
    let mut client = store.server.client();
    client.call(&["SET", &total_key(&store, "read", "1"), "other"]);
    client.call(&["DEL", &days_key(&store, "read", "1")]);
    let found = reconcile(&store, "1");
    assert_eq!(found["read"]["corrected"], 1, "{found}");
    assert_eq!(countd.api().counts(1)["read"], 3);
    assert_days_add_up(&store, &countd.api(), "1");
}

fn damaged_totals_are_replaced_when_days_begin(store: TestStore) {
    let without = CONFIG
        .replace("daily = true", "")
        .replace("reads = \"stream\"", "");
    for eid in ["1", "a.7"] {
        let countd = Countd::start(&store.server, &format!("{without}{NO_ROUNDS}"));
        for uid in 1..=3 {
            let action = json!({ "etype": "note", "eid": eid, "uid": uid });
            countd.api().act("read", action);
        }
        wait_until_drained(&store.server, PARTITIONS);
        drop(countd);
        let mut client = store.server.client();
        client.call(&["SET", &total_key(&store, "read", eid), "other"]);
        let countd = Countd::start(&store.server, &format!("{CONFIG}{NO_ROUNDS}"));
        wait_until_days_are_kept(std::slice::from_ref(&store.server), METRICS.len());
        reconcile(&store, eid);
        assert_eq!(total(&store, "read", eid), 3);
        assert_days_add_up(&store, &countd.api(), eid);
        let history = history(&countd.api(), "read", eid);
        assert_eq!(history["before"], 3, "{history}");
    }
}

/// Counters are lost, first alone and then with their totals.
fn lost_counters_return_from_totals_and_days(store: TestStore) {
    for loses_totals in [false, true] {
        for eid in ["1", "a.7"] {
            let countd = start(&store, eid, NO_ROUNDS);
            let counts = |api: &crate::support::Api| {
                let counts = api.ok(api.get(&format!("/counter/note/{eid}")));
                counts["counts"].clone()
            };
            let before = counts(&countd.api());
            if loses_totals {
                lose_totals(&store);
            }
            let key = store.counters("v1", &format!("note:{eid}"), PARTITIONS);
            store.server.client().call(&["DEL", &key]);
            let api = countd.api();
            wait_until("all counters return", || counts(&api) == before);
            reconcile(&store, eid);
            assert_days_add_up(&store, &api, eid);
        }
    }
}

/// Rounds find a dropped Hash of days, a single dropped day, a forged total and a forged counter.
fn rounds_correct_days(store: TestStore) {
    set_schema(&store.server, CONFIG);
    for eid in ["1", "a.7"] {
        let countd = start(&store, eid, ROUNDS);
        let mut client = store.server.client();
        let before = audited(&store).len();
        client.call(&["DEL", &days_key(&store, "read", eid)]);
        let key = days_key(&store, "comment", eid);
        let day = reply::text(reply::array(client.call(&["HKEYS", &key])).remove(0));
        client.call(&["HDEL", &key, &day]);
        forge_counter(&store, eid, "repost", 7);
        forge_counter(&store, eid, "fav", 9);
        let key = total_key(&store, "like", eid);
        match has_total_row(&store, eid) {
            true => client.call(&["CTAB.INCRBY", &key, eid, "0", "11"]),
            false => client.call(&["HINCRBY", &key, eid, "11"]),
        };
        wait_until("all are corrected", || audited(&store).len() - before >= 5);
        let mut expected = vec![
            entry("read", "days", 3),
            entry("comment", "days", 3),
            entry("repost", "counter", -7),
            entry("fav", "counter", -9),
            entry("like", "total", -11),
        ];
        let found = audited(&store);
        assert_eq!(found.len() - before, 5, "{found:?}");
        expected.retain(|entry| !found.contains(entry));
        assert_eq!(expected, [], "{found:?}");
        wait_until_drained(&store.server, PARTITIONS);
        assert_days_add_up(&store, &countd.api(), eid);
    }
}
