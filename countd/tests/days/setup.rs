//! What the tests of counts by day share.

use crate::support::Api;
use crate::support::stores::TestStore;
use countint_tests::{Value, reply};
use serde_json::Value as Json;

/// The number of partitions.
pub const PARTITIONS: u16 = 16;

/// Metrics of all kinds with counts by day.
pub const CONFIG: &str = r#"
[log]
partitions = 16
[consumer]
linger_ms = 5
session_timeout_ms = 500
[metrics.read]
nature = "repeatable"
count = "batched"
aliases = ["view"]
daily = true
reads = "stream"
[metrics.comment]
nature = "repeatable"
count = "now"
daily = true
[metrics.like]
nature = "once"
count = "now"
reverse = true
users = [{ counter = "likesReceived", of = "author" }]
daily = true
[metrics.fav]
nature = "once"
count = "batched"
facts = "sharded"
daily = true
[metrics.repost]
nature = "repeatable"
count = "now"
window_seconds = 31536000
daily = true
"#;

/// The metrics of [`CONFIG`].
pub const METRICS: [&str; 5] = ["read", "comment", "like", "fav", "repost"];

/// The history of a metric of a note in the last thirty days.
pub fn history(api: &Api, metric: &str, eid: &str) -> Json {
    api.ok(api.get(&format!("/history/{metric}/note/{eid}")))
}

/// The sum of all days of a history, and of what it has before.
pub fn sum(history: &Json) -> i64 {
    let items = history["items"].as_array().expect("items").iter();
    let days = items.map(|item| item["count"].as_i64().expect("a count"));
    days.sum::<i64>() + history["before"].as_i64().expect("a number")
}

/// Whether the total of a note is a row of a table.
pub fn has_total_row(store: &TestStore, eid: &str) -> bool {
    store.has_module && eid.parse::<u64>().is_ok()
}

/// The key of the total that is kept for a note.
pub fn total_key(store: &TestStore, metric: &str, eid: &str) -> String {
    let partition = TestStore::partition(&format!("note:{eid}"), PARTITIONS);
    let prefix = match has_total_row(store, eid) {
        true => "tot",
        false => "toth",
    };
    match store.is_cluster() {
        true => format!("{prefix}:{metric}:note:{{{partition}}}"),
        false => format!("{prefix}:{metric}:note:{partition}"),
    }
}

/// The total that is kept for a note.
pub fn total(store: &TestStore, metric: &str, eid: &str) -> i64 {
    let (mut client, key) = (store.server.client(), total_key(store, metric, eid));
    if has_total_row(store, eid) {
        let rows = reply::array(client.call(&["CTAB.MGET", &key, eid]));
        return match &rows[0] {
            Value::Nil => 0,
            row => reply::int(reply::array(row.clone())[0].clone()),
        };
    }
    match client.call(&["HGET", &key, eid]) {
        Value::Nil => 0,
        total => reply::text(total).parse().expect("a number"),
    }
}

/// Asserts that the counters of a note are the sums of their days, and equal their totals (I2).
#[track_caller]
pub fn assert_days_add_up(store: &TestStore, api: &Api, eid: &str) {
    let counts = api.ok(api.get(&format!("/counter/note/{eid}")))["counts"].clone();
    for metric in METRICS {
        let count = counts[metric].as_i64().expect("a count");
        let history = history(api, metric, eid);
        assert_eq!(sum(&history), count, "{metric} of {eid}: {history}");
        assert_eq!(
            total(store, metric, eid),
            count,
            "total of {metric} of {eid}"
        );
    }
}
