//! Facts are added, removed and added again.

use super::setup::*;
use crate::support::Api;
use crate::support::invariants::assert_invariants;
use crate::support::printed;
use crate::support::run;
use crate::support::stores::TestStore;
use crate::support::stores::move_days_back;
use crate::support::stores::wait_until_compacted;
use crate::support::workload::Random;
use crate::support::{assert_refused, wait_until_drained, with};
use countint_tests::reply;
use serde_json::Value as Json;
use serde_json::json;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

pub fn all_stores_agree_on_random_changes(mut test_store: TestStore) {
    let mut countd = start(&test_store.server);
    let mut random = Random(11);
    let mut facts: BTreeSet<(u64, u64)> = BTreeSet::new();
    for round in 0..8 {
        let api = countd.api();
        for _ in 0..60 {
            let (eid, uid) = (random.below(3), random.below(25));
            let is_add = random.below(3) != 0;
            let op = if is_add { "add" } else { "remove" };
            let key = random.below(4) == 0;
            let key =
                key.then(|| json!({ "idempotencyKey": format!("k{}", random.below(u64::MAX)) }));
            let action = with(on(eid, uid), json!({ "op": op, "author": 99 }));
            let action = with(action, key.clone().unwrap_or(json!({})));
            let changed = if is_add {
                facts.insert((eid, uid))
            } else {
                facts.remove(&(eid, uid))
            };
            let now = facts.iter().filter(|fact| fact.0 == eid).count();
            for store in STORES {
                let answer = api.act(store, action.clone());
                // Removing a fact that was never counted creates no counter.
                let no_count = !changed && answer["count"].is_null() && now == 0;
                let expected = match no_count {
                    true => json!({ "changed": false }),
                    false => json!({ "changed": changed, "count": now }),
                };
                assert_eq!(answer, expected, "{store} {action}");
                if key.is_some() {
                    assert_eq!(api.act(store, action.clone()), answer, "{store}");
                }
            }
        }
        if round % 3 == 1 {
            move_days_back(&test_store, PARTITIONS);
        }
        if round == 4 {
            test_store.restart();
            countd.kill();
            countd.launch();
        }
        compare(&countd.api(), &facts);
    }
    wait_until_compacted(&test_store, PARTITIONS);
    compare(&countd.api(), &facts);
    wait_until_drained(&test_store.server, PARTITIONS);
    let received = &countd.api().user(99)["likesReceived"];
    assert_eq!(
        received,
        &json!(facts.len() * STORES.len()),
        "the user counters agree with the facts"
    );
    assert_invariants(&test_store.server, CONFIG);
    assert_eq!(
        printed(&run(&test_store.server, CONFIG, &["dead", "list"])),
        ""
    );
}

/// Compares all reads with the expected facts.
fn compare(api: &Api, facts: &BTreeSet<(u64, u64)>) {
    for store in STORES {
        for eid in 0..3 {
            let users = facts.iter().filter(|fact| fact.0 == eid);
            let users: BTreeSet<String> = users.map(|fact| fact.1.to_string()).collect();
            assert_eq!(count(api, store, eid), users.len() as u64, "{store} {eid}");
            assert_eq!(count(api, "join", eid), 0, "no fact was counted");
            // A user who is compacted between two pages may be on both.
            let found: BTreeSet<String> = users_of(api, store, eid, 4).into_iter().collect();
            assert_eq!(found, users, "{store} {eid}");
        }
    }
    let items: Vec<Json> = (0..3)
        .map(|eid| json!({ "etype": "note", "eid": eid }))
        .collect();
    for uid in 0..25 {
        let request = json!({ "uid": uid, "items": items, "metrics": STORES });
        let answer = api.ok(api.post("/status/batch", &request));
        for eid in 0..3 {
            let did = facts.contains(&(eid, uid));
            let expected: BTreeMap<&str, bool> = STORES.map(|store| (store, did)).into();
            assert_eq!(answer["items"][eid as usize]["status"], json!(expected));
        }
    }
}

pub fn change_with_a_key_of_another_type_changes_nothing(test_store: TestStore) {
    let countd = start(&test_store.server);
    let api = countd.api();
    let mut client = test_store.server.client();
    let counters = &test_store.counters("f1", "note:1", PARTITIONS);
    for (store, key) in [
        ("bitmap", "bm:bitmap:note:1:0"),
        ("bitmap", "bm:bitmap:note:1:chunks"),
        ("daily", "s:daily:note:1:days"),
        ("daily", "rbm:daily:note:1"),
    ] {
        client.ok(&format!("HSET {key} field value"));
        assert_refused_without_changes(&test_store, &api, store);
        client.ok(&format!("DEL {key}"));
        assert!(!has_fact(&api, store, 1, "7"), "{key}");
        assert_eq!(count(&api, store, 1), 0, "{key}");
    }
    // Damaged counters are rebuilt. A String of three bytes is not an object.
    for (uid, damage) in [(7, "HSET KEY field value"), (8, "SET KEY abc")] {
        for store in STORES {
            client.ok(&format!("DEL {counters}"));
            client.ok(&damage.replace("KEY", counters));
            let expected = json!({ "changed": true, "count": uid - 6 });
            assert_eq!(api.act(store, on(1, uid)), expected, "{store} {damage}");
        }
    }
    client.ok(&format!("SET {counters} abc"));
    api.act("join", on(1, 7));
    wait_until_drained(&test_store.server, PARTITIONS);
    let dead = printed(&run(&test_store.server, CONFIG, &["dead", "list"]));
    assert!(!dead.contains(counters.as_str()), "{dead}");
    assert_eq!(count(&api, "join", 1), 1);
}

fn assert_refused_without_changes(test_store: &TestStore, api: &Api, store: &str) {
    let mut client = test_store.server.client();
    // Processes write the rates of users and their own state (countd:*) at any time.
    let mut keys = || {
        let found = reply::array(client.ok("KEYS *")).into_iter();
        let mut keys: Vec<String> = found.map(reply::text).collect();
        keys.retain(|key| !key.starts_with("act:limit:") && !key.starts_with("countd:"));
        keys.sort_unstable();
        keys
    };
    let before = keys();
    assert_refused(api, &format!("/action/{store}"), &on(1, 7), 500, "damaged");
    assert_eq!(keys(), before, "{store}");
}
