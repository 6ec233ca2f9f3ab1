//! Adjustments of counters: exact, once, audited, and with the credit of the author.

use crate::support::invariants::{Invariants, assert_invariants};
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::{Api, Countd, assert_refused, on_note, wait_until_drained, with};
use countint_tests::reply;
use serde_json::{Value as Json, json};
use std::thread;

const PARTITIONS: u16 = 16;
const CONFIG: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n";

for_each_store! {
    [module objects plain cluster cluster_objects]
    counters_are_added_to_and_set
    adjustments_are_exact_under_concurrency
    the_credit_of_the_author_follows
}

fn adjust(api: &Api, metric: &str, more: Json) -> Json {
    let body = json!({ "etype": "note", "eid": "1", "metric": metric, "reason": "a test" });
    api.ok(api.post("/counter/adjust", &with(body, more)))
}

fn counters_are_added_to_and_set(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    assert_eq!(
        adjust(&api, "read", json!({ "add": 5 })),
        json!({ "before": 0, "after": 5 })
    );
    assert_eq!(
        adjust(&api, "view", json!({ "add": -2 })),
        json!({ "before": 5, "after": 3 })
    );
    assert_eq!(
        adjust(&api, "read", json!({ "set": 9 })),
        json!({ "before": 3, "after": 9 })
    );
    let max = (1_u64 << 40) - 1;
    assert_eq!(adjust(&api, "repost", json!({ "set": max }))["after"], max);
    let body = |more: Json| {
        let body = json!({ "etype": "note", "eid": "1", "metric": "read", "reason": "x" });
        with(body, more)
    };
    for more in [
        json!({ "add": -10 }),
        json!({ "add": max }),
        json!({ "set": max + 1 }),
        json!({ "add": 1, "set": 1 }),
        json!({}),
        json!({ "add": 1, "reason": "x".repeat(257) }),
        json!({ "add": 1, "etype": "user" }),
    ] {
        assert_refused(&api, "/counter/adjust", &body(more), 422, "unprocessable");
    }
    assert_refused(
        &api,
        "/counter/adjust",
        &body(json!({ "add": 1, "metric": "clap" })),
        404,
        "unknown_metric",
    );
    assert_eq!(api.counts(1)["read"], 9);
    let key = json!({ "add": 1, "idempotencyKey": "k" });
    let first = adjust(&api, "read", key.clone());
    assert_eq!(first, json!({ "before": 9, "after": 10 }));
    assert_eq!(adjust(&api, "read", key), first);
    let other = body(json!({ "add": 2, "idempotencyKey": "k" }));
    assert_refused(&api, "/counter/adjust", &other, 422, "key_reused");
    assert_eq!(api.counts(1)["read"], 10);
    let entries = audit(&store);
    assert_eq!(entries.len(), 5);
    let Json::Object(third) = &entries[2] else {
        panic!("{entries:?}");
    };
    for (field, value) in [
        ("before", "3"),
        ("after", "9"),
        ("difference", "6"),
        ("source", "adjust"),
        ("etype", "note"),
        ("eid", "1"),
        ("metric", "read"),
        ("by", "-"),
        ("reason", "a test"),
    ] {
        assert_eq!(third[field], value, "{field}");
    }
    assert!(third.contains_key("traceId") && third.contains_key("ts") && third.contains_key("key"));
    assert_invariants(&store.server, CONFIG);
}

/// The entries of the audit of note 1.
fn audit(store: &TestStore) -> Vec<Json> {
    let key = store.key("x:audit:cntfix", "", "note:1");
    let mut client = store.server.client();
    let entries = reply::array(client.call(&["XRANGE", &key, "-", "+"])).into_iter();
    let entry = |entry| {
        let fields = reply::array(reply::array(entry).pop().expect("fields"));
        let fields: Vec<String> = fields.into_iter().map(reply::text).collect();
        let pairs = fields.chunks(2);
        pairs
            .map(|pair| (pair[0].clone(), json!(pair[1])))
            .collect()
    };
    entries.map(entry).map(Json::Object).collect()
}

fn adjustments_are_exact_under_concurrency(store: TestStore) {
    let mut countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    let (clients, each) = (4, 25);
    thread::scope(|scope| {
        for client in 0..clients {
            let api = api.clone();
            scope.spawn(move || {
                for number in 0..each {
                    let key = format!("{client}-{number}");
                    let body = json!({ "etype": "note", "eid": "1", "metric": "comment", "add": 2, "reason": "x", "idempotencyKey": key });
                    // A kill of countd fails some requests; each is repeated until it succeeds.
                    let sent = || api.try_post("/counter/adjust", &body.to_string());
                    while !matches!(sent(), Ok((200, _))) {
                        thread::yield_now();
                    }
                    if number % 3 == 0 {
                        drop(sent());
                    }
                    let comment = with(on_note(1, client), json!({ "idempotencyKey": key }));
                    let act = || api.try_post("/action/comment", &comment.to_string());
                    while !matches!(act(), Ok((200, _))) {
                        thread::yield_now();
                    }
                }
            });
        }
        for _ in 0..3 {
            thread::sleep(std::time::Duration::from_millis(60));
            countd.kill();
            countd.launch();
        }
    });
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["comment"], 3 * clients * each);
    assert_eq!(audit(&store).len() as u64, clients * each);
    assert_invariants(&store.server, CONFIG);
}

fn the_credit_of_the_author_follows(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    let likes = |uid| {
        wait_until_drained(&store.server, PARTITIONS);
        api.user(uid)["likesReceived"].clone()
    };
    api.act("like", with(on_note(1, 42), json!({ "author": 7 })));
    adjust(&api, "like", json!({ "add": 10 }));
    assert_eq!(likes(7), 11);
    adjust(&api, "like", json!({ "set": 4 }));
    assert_eq!(likes(7), 4);
    // Nothing changes.
    adjust(&api, "like", json!({ "set": 4 }));
    assert_eq!(likes(7), 4);
    api.act("like", on_note(1, 43));
    assert_eq!(likes(7), 5);
    // Only reconciliation knows that an adjusted counter of facts is wrong.
    let found = Invariants::new([&store.server], CONFIG).violations();
    assert_eq!(found, ["I1: like of note 1 is 5, with 2 facts"]);
}

#[test]
fn only_administrators_adjust_and_erase() {
    let config = format!(
        "{CONFIG}[auth]\ntokens = [{{ token = \"writer-writer-writer\", rights = [\"read\", \"write\"] }}, {{ token = \"admin-admin-admin-admin\", name = \"ops\", rights = [\"admin\"] }}]\n"
    );
    let store = module();
    let countd = Countd::start(&store.server, &config);
    let writer = countd.api().authorized("Bearer writer-writer-writer");
    let body = json!({ "etype": "note", "eid": "1", "metric": "read", "add": 1, "reason": "x" });
    assert_refused(&writer, "/counter/adjust", &body, 403, "forbidden");
    for path in ["/user/7", "/entity/note/7"] {
        assert_eq!(writer.delete(path).0, 403);
        assert_eq!(countd.api().delete(path).0, 401);
    }
    let admin = countd.api().authorized("Bearer admin-admin-admin-admin");
    admin.ok(admin.post("/counter/adjust", &body));
    assert_eq!(audit(&store)[0]["by"], "ops");
    assert_eq!(admin.delete("/user/7").0, 202);
}
