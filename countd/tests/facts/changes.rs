//! A user does something, takes it back, does it again.

use super::*;
use crate::support::stores::move_days_back;
use crate::support::workload::Random;
use crate::support::{assert_refused, wait_until_drained, with};
use std::collections::BTreeMap;

pub fn the_same_answers_to_whatever_is_done(mut world: TestStore) {
    let mut countd = start(&world.server);
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
            for way in WAYS {
                let answer = api.act(way, action.clone());
                // Of something that was never counted nothing can be taken back: there is no counter.
                let no_count = !changed && answer["count"].is_null() && now == 0;
                let expected = match no_count {
                    true => json!({ "changed": false }),
                    false => json!({ "changed": changed, "count": now }),
                };
                assert_eq!(answer, expected, "{way} {action}");
                if key.is_some() {
                    assert_eq!(
                        api.act(way, action.clone()),
                        json!({ "changed": false }),
                        "{way}"
                    );
                }
            }
        }
        if round % 3 == 1 {
            move_days_back(&world, PARTITIONS);
        }
        if round == 4 {
            world.restart();
            countd.kill();
            countd.launch();
        }
        compare(&countd.api(), &facts);
    }
    wait_until_compacted(&world, PARTITIONS);
    compare(&countd.api(), &facts);
    wait_until_drained(&world.server, PARTITIONS);
    let received = &countd.api().user(99)["likesReceived"];
    assert_eq!(
        received,
        &json!(facts.len() * WAYS.len()),
        "the events say the same"
    );
    assert_eq!(printed(&run(&world.server, CONFIG, &["dead", "list"])), "");
}

/// Compares all answers with what was done.
fn compare(api: &Api, facts: &BTreeSet<(u64, u64)>) {
    for way in WAYS {
        for eid in 0..3 {
            let users = facts.iter().filter(|fact| fact.0 == eid);
            let users: BTreeSet<String> = users.map(|fact| fact.1.to_string()).collect();
            assert_eq!(count(api, way, eid), users.len() as u64, "{way} {eid}");
            assert_eq!(count(api, "join", eid), 0, "what nobody counted");
            // Somebody who is folded between two pages may be on both.
            let found: BTreeSet<String> = who(api, way, eid, 4).into_iter().collect();
            assert_eq!(found, users, "{way} {eid}");
        }
    }
    let items: Vec<Json> = (0..3)
        .map(|eid| json!({ "etype": "note", "eid": eid }))
        .collect();
    for uid in 0..25 {
        let question = json!({ "uid": uid, "items": items, "metrics": WAYS });
        let answer = api.ok(api.post("/status/batch", &question));
        for eid in 0..3 {
            let did = facts.contains(&(eid, uid));
            let expected: BTreeMap<&str, bool> = WAYS.map(|way| (way, did)).into();
            assert_eq!(answer["items"][eid as usize]["status"], json!(expected));
        }
    }
}

pub fn a_key_of_another_type_changes_nothing(world: TestStore) {
    let countd = start(&world.server);
    let api = countd.api();
    let mut client = world.server.client();
    for (way, key) in [
        ("bitmap", "bm:bitmap:note:1:0"),
        ("bitmap", "bm:bitmap:note:1:chunks"),
        ("daily", "s:daily:note:1:days"),
        ("daily", "rbm:daily:note:1"),
        ("daily", "cnt:f1:note:1"),
        ("sharded", "cnt:f1:note:1"),
    ] {
        client.ok(&format!("HSET {key} field value"));
        refused_without_a_trace(&world, &api, way);
        client.ok(&format!("DEL {key}"));
        assert!(!is_there(&api, way, 1, "7"), "{key}");
        assert_eq!(count(&api, way, 1), 0, "{key}");
    }
    // No counters: three bytes.
    client.ok("SET cnt:f1:note:1 abc");
    for way in WAYS {
        refused_without_a_trace(&world, &api, way);
    }
    api.act("join", on(1, 7));
    wait_until_drained(&world.server, PARTITIONS);
    let dead = printed(&run(&world.server, CONFIG, &["dead", "list"]));
    assert!(dead.contains("cnt:f1:note:1 holds another type"), "{dead}");
}

fn refused_without_a_trace(world: &TestStore, api: &Api, way: &str) {
    let mut client = world.server.client();
    // What his limit has is no trace of what he did.
    let mut keys = || {
        client.run("DEL act:limit:7");
        client.ok("DBSIZE")
    };
    let before = keys();
    assert_refused(api, &format!("/action/{way}"), &on(1, 7), 500, "damaged");
    assert_eq!(keys(), before, "{way}");
}

/// Somebody deletes counters: facts stay facts, and no counter goes below 0.
pub fn counters_begin_again(world: TestStore) {
    let countd = start(&world.server);
    let api = countd.api();
    let mut client = world.server.client();
    for (eid, way) in (1..).zip(WAYS) {
        let un = format!("un{way}");
        api.act(way, on(eid, 1));
        api.act(way, on(eid, 2));
        client.ok(&format!("DEL cnt:f1:note:{eid}"));
        let missing = api.act(&un, on(eid, 1));
        let none = json!({ "changed": true, "count": 0 });
        assert_eq!(missing, none, "{way}: what is missing reads as 0");
        let exists = client.ok(&format!("EXISTS cnt:f1:note:{eid}"));
        assert_eq!(reply::int(exists), 0, "{way}");
        let again = json!({ "changed": true, "count": 1 });
        assert_eq!(api.act(way, on(eid, 3)), again, "{way}");
        assert_eq!(api.act(&un, on(eid, 2)), none, "{way}");
        assert_eq!(api.act(&un, on(eid, 3)), none, "{way}");
    }
}
