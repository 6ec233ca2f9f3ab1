//! Resets of configured counters.

use super::{CONFIG, PARTITIONS, counters};
use crate::support::invariants::Invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::StopOnDrop;
use crate::support::{
    Api, Countd, Settings, assert_refused, on_note, pause, set_schema, wait_until_drained, with,
};
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const RESET: &str = "/relation/counter/reset";

fn unread_of(uid: &str) -> Json {
    json!({ "uid": uid, "counter": "unread" })
}

fn a_reset_returns_the_value_once(store: TestStore) {
    let mut countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for user in ["7", "u-7"] {
        for _ in 0..3 {
            api.act("notify", json!({ "eid": user, "uid": "1" }));
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    for user in ["7", "u-7"] {
        let header = [("idempotency-key", "k-1")];
        let first = api.request(RESET, &header, Some(&unread_of(user)));
        assert_eq!((first.status, &first.json), (200, &json!({ "was": 3 })));
        assert_eq!(first.header("idempotent-replayed"), "");
        assert_eq!(counters(&api, user), json!({}));
    }
    for user in ["7", "u-7"] {
        api.act("notify", json!({ "eid": user, "uid": "1" }));
    }
    countd.kill();
    countd.launch();
    let api = countd.api();
    wait_until_drained(&store.server, PARTITIONS);
    for user in ["7", "u-7"] {
        // In the header or in the body, also after a restart: the first answer, and no second reset.
        let field = with(unread_of(user), json!({ "idempotencyKey": "k-1" }));
        for (headers, body) in [
            (vec![("idempotency-key", "\"k-1\"")], unread_of(user)),
            (vec![], field),
        ] {
            let retry = api.request(RESET, &headers, Some(&body));
            assert_eq!((retry.status, &retry.json), (200, &json!({ "was": 3 })));
            assert_eq!(retry.header("idempotent-replayed"), "true");
        }
        assert_eq!(counters(&api, user), json!({ "unread": 1 }));
        // The key belongs to the user and the counter.
        let other = with(
            json!({ "uid": user, "counter": "coins" }),
            json!({ "idempotencyKey": "k-1" }),
        );
        let other = api.request(RESET, &[], Some(&other));
        assert_eq!(other.json, json!({ "was": 0 }));
        assert_eq!(other.header("idempotent-replayed"), "");
        // Without a key each reset counts.
        assert_eq!(
            api.ok(api.post(RESET, &unread_of(user))),
            json!({ "was": 1 })
        );
        assert_eq!(
            api.ok(api.post(RESET, &unread_of(user))),
            json!({ "was": 0 })
        );
    }
    assert_eq!(
        api.ok(api.post(RESET, &unread_of("nobody"))),
        json!({ "was": 0 })
    );
    assert_eq!(counters(&api, "nobody"), json!({}));
}

/// A like adds 1 to what has been counted since the reset, and its removal takes it back.
fn a_reset_keeps_credits_and_sums(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    let by = |uid: u64| with(on_note(1, uid), json!({ "author": "7" }));
    for uid in [42, 43] {
        api.act("like", by(uid));
    }
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(
        api.ok(api.post(RESET, &unread_of("7"))),
        json!({ "was": 2 })
    );
    let likes_and_unread = |likes: u64, unread: u64| {
        wait_until_drained(&store.server, PARTITIONS);
        let expected =
            json!({ "uid": "7", "counts": { "likesReceived": likes, "unread": unread } });
        let path = "/relation/counter?uid=7&counters=likesReceived,unread";
        assert_eq!(api.ok(api.get(path)), expected);
    };
    likes_and_unread(2, 0);
    api.act("like", by(44));
    likes_and_unread(3, 1);
    api.act("unlike", by(44));
    likes_and_unread(2, 0);
    // It stops at 0.
    api.act("unlike", by(42));
    likes_and_unread(1, 0);
    api.act("like", by(42));
    likes_and_unread(2, 1);
}

fn only_configured_counters_are_reset(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    api.act("follow", json!({ "eid": "7", "uid": "42" }));
    api.act("pay", json!({ "eid": "7", "uid": "42" }));
    wait_until_drained(&store.server, PARTITIONS);
    for counter in [
        "followings",
        "followers",
        "posts",
        "likesReceived",
        "favsReceived",
    ] {
        let request = json!({ "uid": "7", "counter": counter });
        assert_refused(&api, RESET, &request, 422, "unprocessable");
    }
    let reset = |counter: &str| json!({ "uid": "7", "counter": counter });
    assert_refused(&api, RESET, &reset("gems"), 404, "unknown_counter");
    assert_refused(&api, RESET, &reset("a b"), 400, "malformed");
    assert_refused(&api, RESET, &json!({ "uid": "7" }), 400, "malformed");
    // A service resets counters that users cannot reset.
    assert_eq!(
        api.ok(api.post(RESET, &reset("coins"))),
        json!({ "was": 1 })
    );
    assert_eq!(counters(&api, "7"), json!({ "followers": 1, "unread": 1 }));
    // A damaged key changes nothing, and the idempotency key is not used up.
    let key = store.user_counters("u-8", PARTITIONS);
    let mut client = store.server.client();
    client.ok(&format!("LPUSH {key} x"));
    let request = with(unread_of("u-8"), json!({ "idempotencyKey": "k" }));
    assert_refused(&api, RESET, &request, 500, "damaged");
    client.ok(&format!("DEL {key}"));
    api.act("notify", json!({ "eid": "u-8", "uid": "1" }));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.ok(api.post(RESET, &request)), json!({ "was": 1 }));
}

/// Posts until the response is 200.
fn post_until_ok(api: &Api, path: &str, body: &Json) -> Json {
    for _ in 0..3_000 {
        if let Ok((200, response)) = api.try_post(path, &body.to_string()) {
            return serde_json::from_str(&response).expect("JSON");
        }
        pause();
    }
    panic!("retries exhausted");
}

/// Every notification is in exactly one reset, or still in the counter.
fn resets_lose_nothing_when_processes_are_killed(mut store: TestStore) {
    // The partitions of a killed consumer are soon assigned again.
    let config = &CONFIG.replace("linger_ms = 5", "linger_ms = 5\nsession_timeout_ms = 500");
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume"].map(|command| Countd::with(&store.server, &settings(command)));
    let api = processes[0].api();
    let stop = AtomicBool::new(false);
    let users = ["7", "u-7"];
    let (notified, read) = thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        let notifies = users.map(|user| {
            let (api, stop) = (&api, &stop);
            scope.spawn(move || {
                let mut sent = 0;
                while !stop.load(Relaxed) {
                    sent += 1;
                    let action =
                        json!({ "eid": user, "uid": "1", "idempotencyKey": format!("n-{sent}") });
                    post_until_ok(api, "/action/notify", &action);
                }
                sent
            })
        });
        let resets = users.map(|user| {
            let (api, stop) = (&api, &stop);
            scope.spawn(move || {
                let (mut sum, mut sent) = (0, 0);
                while !stop.load(Relaxed) {
                    sent += 1;
                    let reset = with(
                        unread_of(user),
                        json!({ "idempotencyKey": format!("r-{sent}") }),
                    );
                    let first = post_until_ok(api, RESET, &reset);
                    // A client that lost the response.
                    assert_eq!(post_until_ok(api, RESET, &reset), first);
                    sum += first["was"].as_u64().expect("a number");
                }
                sum
            })
        });
        for kill in 0..6 {
            thread::sleep(Duration::from_millis(800));
            match kill % 3 {
                2 => store.restart(),
                process => {
                    processes[process].kill();
                    processes[process].launch();
                }
            }
        }
        drop(stopping);
        let join = |number: thread::ScopedJoinHandle<'_, u64>| number.join().expect("it ends");
        (notifies.map(join), resets.map(join))
    });
    wait_until_drained(&store.server, PARTITIONS);
    for ((user, notified), read) in users.into_iter().zip(notified).zip(read) {
        let left = post_until_ok(&api, RESET, &unread_of(user));
        let left = left["was"].as_u64().expect("a number");
        assert!(read > 0, "no reset was concurrent with notifications");
        assert_eq!(read + left, notified, "user {user}: {left} left");
    }
    let invariants = Invariants::new([&store.server], config);
    invariants.without("unread").assert();
}

for_each_store!([module objects plain cluster cluster_objects]
    a_reset_returns_the_value_once
    a_reset_keeps_credits_and_sums
    only_configured_counters_are_reset
    resets_lose_nothing_when_processes_are_killed
);
