//! Erasing a user while everything that can hold their ID is in use.

use super::reconciled::{begin_sweep, forge_fact, without_rounds};
use super::search::holders;
use super::users::{ERASED, act, others};
use super::{PARTITIONS, Setup};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{dead_reasons, run, with};
use crate::user_truth::forge;
use countint_tests::env::TempDir;
use countint_tests::{Client, reply};
use serde_json::{Value as Json, json};
use std::path::Path;

for_each_store! {
    [module plain cluster]
    an_erased_user_leaves_nothing_with_everything_on
}

/// Every setting and metric by which a key holds users.
fn config(archive: &Path) -> String {
    let settings = format!(
        "[log]\npartitions = {PARTITIONS}\nretain = 1000\nretain_bytes = 1000000\n[log.archive]\ndir = \"{}\"\nflush_ms = 20\n{SETTINGS}",
        archive.display()
    );
    without_rounds(&settings)
}

const SETTINGS: &str = r#"
[consumer]
linger_ms = 5
session_timeout_ms = 500
[limits]
user = { per_second = 1, burst = 1000000 }
device = { per_second = 1, burst = 1000000, shared = true }
[dedup]
events = "forever"
[changes]
enabled = true
[users]
counters = ["unread", "given"]
[rank.hot]
weights = { read = 1, like = 5 }
window_days = 7
[metrics.read]
nature = "repeatable"
count = "batched"
daily = true
reads = "stream"
window_seconds = 31536000
[metrics.like]
nature = "once"
count = "now"
reverse = true
order = "time"
latest = 3
daily = true
users = [{ counter = "likesReceived", of = "author" }, { counter = "unread", of = "author" }, { counter = "given", of = "actor" }]
[metrics.fav]
nature = "once"
count = "batched"
facts = "daily"
reverse = true
users = [{ counter = "favsReceived", of = "author" }]
[metrics.comment]
nature = "repeatable"
count = "now"
daily = true
users = [{ counter = "unread", of = "author" }, { counter = "given", of = "actor" }]
[metrics.follow]
nature = "once"
count = "never"
facts = "sharded"
reverse = true
entities = ["user"]
users = [{ counter = "followings", of = "actor" }, { counter = "followers", of = "target" }, { counter = "unread", of = "target" }]
[metrics.publish]
nature = "once"
count = "never"
reverse = true
users = [{ counter = "posts", of = "actor" }]
names_author = "actor"
"#;

/// Events that cannot be counted: one of the user, and one of another user on an entity of theirs.
fn append_poison(setup: &Setup, client: &mut Client) {
    let log = setup.store.log(TestStore::partition("note:1", PARTITIONS));
    let event = json!({
        "schema": "v1", "etype": "note", "eid": "1", "metric": "later", "delta": 1, "ts": 1, "counted": false, "uid": ERASED,
    });
    let by_other = with(event.clone(), json!({ "uid": "101", "author": ERASED }));
    for event in [event, by_other] {
        client.call(&["XADD", &log, "0-*", "e", &event.to_string()]);
    }
}

/// Corrections, the notes of differences, a report, and a sweep that was interrupted.
fn reconcile(setup: &Setup, client: &mut Client, config: &str) {
    let store = &setup.store;
    for idx in [0, 1, 3] {
        forge(store, ERASED, idx, 70);
    }
    forge_fact(store, client, "101", "follow:user", ERASED);
    let output = run(&store.server, config, &["reconcile", "--all"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let of_user = format!("user:{ERASED}");
    for (hash, of, field) in [
        (
            "countd:drift",
            of_user.as_str(),
            format!("{of_user}:follow"),
        ),
        ("countd:users", ERASED, format!("{ERASED}:followings")),
    ] {
        let key = store.key(hash, "", of);
        client.ok(&format!("HSET {key} {field} 1/7"));
    }
    let partition = TestStore::partition(ERASED, PARTITIONS);
    let report = match store.is_cluster() {
        true => format!("countd:report:1-a:{{{partition}}}"),
        false => format!("countd:report:1-a:{partition}"),
    };
    client.ok(&format!("HSET {report} {of_user}:followers 1"));
    begin_sweep(store, client, 1_000);
}

/// The user is charged for so many items that the key of the limit does not expire during the test.
fn use_limits(setup: &Setup) {
    let items: Vec<Json> = (0..500)
        .map(|eid| json!({ "etype": "note", "eid": eid.to_string() }))
        .collect();
    let feed = json!({ "uid": ERASED, "items": items });
    for _ in 0..8 {
        let device = [("x-device-id", "phone-1")];
        let page = setup.api.request("/feed", &device, Some(&feed));
        assert_eq!(page.status, 200, "{}", page.json);
    }
}

fn an_erased_user_leaves_nothing_with_everything_on(store: TestStore) {
    let dir = TempDir::new();
    let config = &config(&dir.path().join("archive"));
    let setup = Setup::new(store, config);
    let mut client = setup.store.server.client();
    act(&setup, ERASED);
    others(&setup);
    setup.drain();
    reconcile(&setup, &mut client, config);
    // More credit while the sweep adds up.
    for uid in ["150", "151"] {
        let note = format!("60{}", &ERASED[..1]);
        let like = json!({ "etype": "note", "eid": note, "uid": uid });
        setup.api.act("like", like);
    }
    let reset = json!({ "uid": ERASED, "counter": "unread", "idempotencyKey": "k-3" });
    setup
        .api
        .ok(setup.api.post("/relation/counter/reset", &reset));
    append_poison(&setup, &mut client);
    setup.drain();
    use_limits(&setup);
    assert_eq!(dead_reasons(&setup.store.server, config).len(), 2);

    let found = holders(&mut client, ERASED);
    let row = |table: &str, other: &str| match setup.store.has_module {
        true => table.to_owned(),
        false => other.to_owned(),
    };
    for prefix in [
        format!("act:dedup:note:9:like:add:{ERASED}:k-1"),
        format!("act:dedup:note:9:read:{ERASED}:"),
        format!("act:dedup:user:{ERASED}:unread:reset-user:-:k-3"),
        format!("act:limit:{ERASED}"),
        "rbm:like:note:".to_owned(),
        "s:fav:note:".to_owned(),
        "s:follow:user:101:".to_owned(),
        format!("s:follow:user:{ERASED}:"),
        format!("rtl:like:note:{ERASED}"),
        format!("rev:like:note:{ERASED}"),
        "rtl:follow:user:103".to_owned(),
        "wtl:like:note:".to_owned(),
        row("aut:note:", "auth:note:"),
        "auth:note:".to_owned(),
        row("utab:", "ucnt:"),
        row("usum:", "usumh:"),
        "x:read:note:9:".to_owned(),
        "x:cnt-update:".to_owned(),
        "x:changes".to_owned(),
        "x:audit:cntfix".to_owned(),
        "countd:users".to_owned(),
        "countd:drift".to_owned(),
        "countd:report:".to_owned(),
    ] {
        let is_found = found.iter().any(|key| key.starts_with(&prefix));
        assert!(is_found, "{prefix}: {found:#?}");
    }
    let has_dead = |key: &String| key.starts_with("x:cnt-update:") && key.contains(":dead: ");
    assert!(found.iter().any(has_dead), "{found:#?}");
    let log = setup.store.log(TestStore::partition(ERASED, PARTITIONS));
    let journal = reply::format(&client.call(&["XRANGE", &log, "-", "+"]));
    assert!(
        journal.contains("unread") && journal.contains("\"j\""),
        "{journal}"
    );

    let job = setup.erase(&format!("/user/{ERASED}"));
    setup.drain();
    let found = holders(&mut client, ERASED);
    assert!(found.is_empty(), "{job}: {found:#?}");
    assert_eq!(setup.user(ERASED), json!([0, 0, 0, 0, 0]));
    // The event of the other user is kept.
    assert_eq!(dead_reasons(&setup.store.server, config).len(), 1);
}
