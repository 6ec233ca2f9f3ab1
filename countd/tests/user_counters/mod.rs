//! Configured counters of users: fed by every role, read, filtered and reset; appended, never moved.

mod resets;
mod schema;

use crate::support::kafka::Log;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{
    Api, Countd, assert_refused, dead_reasons, on_note, wait_until_drained, with,
};
use serde_json::{Value as Json, json};

const PARTITIONS: u16 = 16;
/// Without counters and metrics.
const BASE: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n";
/// A metric of each nature and counting mode, and counters that are fed by each role.
pub const CONFIG: &str = r#"
[log]
partitions = 16
[consumer]
linger_ms = 5
[users]
counters = ["unread", "coins", "given"]
resettable = ["unread"]
[metrics.like]
nature = "once"
count = "now"
users = [{ counter = "likesReceived", of = "author" }, { counter = "unread", of = "author" }, { counter = "given", of = "actor" }]
[metrics.fav]
nature = "once"
count = "batched"
facts = "sharded"
users = [{ counter = "unread", of = "author" }, { counter = "given", of = "actor" }]
[metrics.comment]
nature = "repeatable"
count = "now"
users = [{ counter = "unread", of = "author" }, { counter = "given", of = "actor" }]
[metrics.read]
nature = "repeatable"
count = "batched"
users = [{ counter = "coins", of = "author" }, { counter = "given", of = "actor" }]
[metrics.publish]
nature = "once"
count = "never"
users = [{ counter = "posts", of = "actor" }, { counter = "given", of = "actor" }]
names_author = "actor"
[metrics.follow]
nature = "once"
count = "never"
facts = "sharded"
entities = ["user"]
users = [{ counter = "followings", of = "actor" }, { counter = "followers", of = "target" }, { counter = "unread", of = "target" }]
[metrics.notify]
nature = "repeatable"
count = "never"
entities = ["user"]
users = [{ counter = "unread", of = "target" }, { counter = "given", of = "actor" }]
[metrics.pay]
nature = "repeatable"
count = "never"
entities = ["user"]
users = [{ counter = "coins", of = "target" }]
"#;

/// The counters of a user that are not 0.
#[track_caller]
fn counters(api: &Api, uid: &str) -> Json {
    let response = api.ok(api.get(&format!("/relation/counter?uid={uid}")));
    let counts = response["counts"].as_object().expect("counters");
    let counts = counts.iter().filter(|(_, count)| **count != 0);
    counts
        .map(|(name, count)| (name.clone(), count.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// An envelope of a metric on a user.
fn envelope(id: &str, metric: &str, user: &str, delta: i64) -> Json {
    json!({
        "event_id": id, "event_type": metric, "aggregate_type": "user", "aggregate_id": user,
        "payload": { "delta": delta, "uid": "1" },
    })
}

fn configured_counters_are_fed_by_every_role(store: TestStore) {
    assert_counters_are_fed_by_every_role(&store, &Log::streams(CONFIG));
}

/// Asserts that events of every metric feed the counters of their users.
pub fn assert_counters_are_fed_by_every_role(store: &TestStore, log: &Log) {
    let countd = Countd::start(&store.server, &log.config);
    let api = countd.api();
    // Rows, and objects in tables' data.
    for (note, author, actor) in [(1, "7", "42"), (2, "u-7", "43")] {
        let action = |metric| {
            let action = json!({ "author": author, "uid": actor });
            (metric, with(on_note(note, 1), action))
        };
        for (metric, action) in ["like", "fav", "comment", "comment", "read"].map(action) {
            api.act(metric, action);
        }
        api.act(
            "publish",
            json!({ "etype": "note", "eid": note + 10, "uid": actor }),
        );
        let on_user = json!({ "eid": author, "uid": actor });
        for metric in ["follow", "notify", "pay"] {
            api.act(metric, on_user.clone());
        }
    }
    let envelopes = json!([
        envelope("e-1", "pay", "7", 25),
        envelope("e-1", "pay", "7", 25),
        envelope("e-2", "pay", "u-7", 10),
        envelope("e-3", "pay", "u-7", -4),
    ]);
    api.ok(api.post("/events", &envelopes));
    log.drain(&store.server, PARTITIONS);
    assert_eq!(
        dead_reasons(&store.server, &log.config),
        Vec::<String>::new()
    );
    let received =
        |coins: u64| json!({ "coins": coins, "followers": 1, "likesReceived": 1, "unread": 6 });
    assert_eq!(counters(&api, "7"), received(1 + 1 + 25));
    assert_eq!(counters(&api, "u-7"), received(1 + 1 + 6));
    let acted = json!({ "followings": 1, "given": 7, "posts": 1 });
    assert_eq!(counters(&api, "42"), acted);
    assert_eq!(counters(&api, "43"), acted);

    // Removals take back what was added; a target is a user.
    let action = with(on_note(1, 42), json!({ "author": "7" }));
    for metric in ["unlike", "unfav"] {
        api.act(metric, action.clone());
    }
    api.act("unfollow", json!({ "eid": "7", "uid": "42" }));
    let mut foreign = envelope("e-4", "pay", "7", 1);
    foreign["aggregate_type"] = json!("note");
    assert_refused(&api, "/events", &foreign, 422, "unprocessable");
    log.drain(&store.server, PARTITIONS);
    assert_eq!(
        counters(&api, "7"),
        json!({ "coins": 27, "unread": 3 }),
        "of a note that lost its like and its favourite"
    );
    assert_eq!(counters(&api, "42"), json!({ "given": 5, "posts": 1 }));
}

fn counters_can_be_selected(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for (user, times) in [("7", 1), ("u-7", 2)] {
        for _ in 0..times {
            api.act("notify", json!({ "eid": user, "uid": "1" }));
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    let selected = api.get("/relation/counter?uid=7&counters=unread,followers,unread");
    let expected = json!({ "uid": "7", "counts": { "followers": 0, "unread": 1 } });
    assert_eq!(api.ok(selected), expected);
    let batch = json!({ "uids": ["u-7", 7, "nobody", 8], "counters": ["unread", "given"] });
    let counts =
        |uid: &str, unread: u64| json!({ "uid": uid, "counts": { "given": 0, "unread": unread } });
    let expected = json!({ "items": [
        counts("u-7", 2), counts("7", 1), counts("nobody", 0), counts("8", 0),
    ]});
    assert_eq!(
        api.ok(api.post("/relation/counter/batch", &batch)),
        expected
    );
    let all = api.ok(api.post("/relation/counter/batch", &json!({ "uids": ["u-7"] })));
    assert_eq!(
        all["items"][0]["counts"],
        json!({
            "coins": 0, "favsReceived": 0, "followers": 0, "followings": 0, "given": 0,
            "likesReceived": 0, "posts": 0, "unread": 2,
        })
    );
    let unknown = json!({ "uids": ["7"], "counters": ["unread", "gems"] });
    let batch = "/relation/counter/batch";
    assert_refused(&api, batch, &unknown, 404, "unknown_counter");
    let invalid = json!({ "uids": ["7"], "counters": ["a b"] });
    assert_refused(&api, batch, &invalid, 400, "malformed");
    for (query, status, code) in [
        ("gems", 404, "unknown_counter"),
        ("like", 404, "unknown_counter"),
        ("", 400, "malformed"),
        ("unread,", 400, "malformed"),
    ] {
        let (found, response) = api.get(&format!("/relation/counter?uid=7&counters={query}"));
        assert_eq!(
            (found, &response["code"]),
            (status, &json!(code)),
            "{query}"
        );
    }
}

for_each_store!([module objects plain cluster cluster_objects]
    configured_counters_are_fed_by_every_role
    counters_can_be_selected
);
