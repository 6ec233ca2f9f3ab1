//! Actions on lost counters.

use super::setup::*;
use crate::facts::setup::CONFIG;
use crate::support::{dead_reasons, wait_until_drained};
use countint_tests::wait_until;

pub fn a_like_on_a_lost_counter_does_not_make_it_one(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    act_on(&api, [1]);
    for metric in STORES {
        let removal = format!("un{metric}");
        for (action, uid, changed, count) in [
            (metric, 5, true, 5),
            (metric, 5, false, 5),
            (&removal, 5, true, 4),
            (&removal, 5, false, 4),
        ] {
            lose(&store, 1);
            let outcome = api.act(action, on(1, uid));
            let expected = json!({ "changed": changed, "count": count });
            assert_eq!(outcome, expected, "{action} {uid}");
        }
    }
    assert_eq!(api.counts(1), expected());
    // An entity without facts needs no rebuild.
    let corrections = audit(&store).len();
    for metric in STORES {
        let action = |name: &str| api.act(name, on(9, 1))["count"].clone();
        let counts = [
            action(metric),
            action(&format!("un{metric}")),
            action(metric),
        ];
        assert_eq!(counts, [1, 0, 1], "{metric}");
    }
    assert_eq!(audit(&store).len(), corrections);
    // Each action left one event.
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1), expected());
}

pub fn a_pipeline_on_lost_counters_rebuilds_them(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    act_on(&api, 1..4);
    (1..4).for_each(|eid| lose(&store, eid));
    let mut lines = Vec::new();
    for eid in 1..4 {
        for metric in STORES {
            for (op, uid) in [("add", 5), ("add", 6), ("remove", 5), ("add", 7)] {
                let mut action = on(eid, uid);
                action["metric"] = json!(metric);
                action["op"] = json!(op);
                lines.push(action.to_string());
            }
        }
    }
    let (status, text) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("a response");
    assert_eq!(status, 200, "{text}");
    let answers: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(answers.len(), lines.len());
    for answers in answers.chunks(4) {
        let counts: Vec<&Json> = answers.iter().map(|answer| &answer["count"]).collect();
        assert_eq!(counts, [5, 6, 5, 5], "{answers:?}");
    }
    let counts = json!({ "rbm": 5, "bitmap": 5, "daily": 5, "sharded": 5, "join": 0 });
    (1..4).for_each(|eid| assert_eq!(api.counts(eid), counts));
    assert_eq!(audit(&store).len(), 12, "each counter was rebuilt once");
}

pub fn a_truncated_counter_keeps_its_other_fields(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    act_on(&api, [1]);
    // A batched counter is known while no entry waits in the log.
    wait_until_drained(&store.server, PARTITIONS);
    let key = store.counters("f1", "note:1", PARTITIONS);
    let mut client = store.server.client();
    let mut cut = || {
        // Two of five counters remain. Without the module, half of the third one, too.
        client.ok(&format!("DEL {key}"));
        match store.has_module {
            true => client.ok(&format!("CINT.SET {key} LEN 2 0 4 1 4")),
            false => {
                client.ok(&format!("BITFIELD {key} SET u40 #0 4 SET u40 #1 4"));
                client.ok(&format!("APPEND {key} xx"))
            }
        };
    };
    cut();
    assert_eq!(api.act("sharded", on(1, 5))["count"], 5);
    assert_eq!(corrections(&store, 1), ["daily 4", "sharded 4"]);
    cut();
    assert_eq!(api.act("unsharded", on(1, 5))["count"], 4);
    assert_eq!(api.counts(1), expected());
}

/// The consumer meets a key of another type. Its events are counted, and do not become dead letters.
pub fn a_commit_on_a_damaged_key_rebuilds_it(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    act_on(&api, [1]);
    wait_until_drained(&store.server, PARTITIONS);
    let key = store.counters("f1", &entity(1), PARTITIONS);
    let mut client = store.server.client();
    for uid in 1..4 {
        client.ok(&format!("SET {key} {}", "x".repeat(64)));
        if !store.has_module {
            client.ok(&format!("DEL {key}"));
            client.ok(&format!("RPUSH {key} x"));
        }
        api.act("join", on(1, uid));
        wait_until_drained(&store.server, PARTITIONS);
        assert_eq!(dead_reasons(&store.server, CONFIG), Vec::<String>::new());
        let mut counts = expected();
        counts["join"] = json!(uid);
        wait_until("the event is counted", || api.counts(1) == counts);
    }
    // The counters of facts, and the counter that the consumer changes.
    let found = corrections(&store, 1);
    for one in ALL.iter().chain(&["join 1", "join 2"]) {
        assert!(found.contains(&(*one).to_string()), "{one}: {found:?}");
    }
}
