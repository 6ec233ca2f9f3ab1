//! Ids of all forms, and pages of users.

use super::setup::*;
use crate::support::stores::TestStore;
use crate::support::stores::move_days_back;
use crate::support::stores::wait_until_compacted;
use crate::support::{assert_refused, with};
use countint_tests::reply;
use serde_json::json;
use std::collections::BTreeSet;

pub fn all_users_are_on_a_page(test_store: TestStore) {
    let countd = start(&test_store.server);
    let api = countd.api();
    for (eid, users) in [(1, 2_000), (2, 100), (3, 1), (4, 0)] {
        // Ids in one chunk of bits and in several.
        let uids: Vec<u64> = (0..users).map(|i| i * 997 + eid).collect();
        for store in STORES {
            let lines = uids
                .iter()
                .map(|uid| with(on(eid, *uid), json!({ "metric": store })).to_string());
            let lines: Vec<String> = lines.collect();
            if lines.is_empty() {
                continue; // a request has at least one action
            }
            let (status, answer) = api
                .try_post("/actions", &lines.join("\n"))
                .expect("an answer");
            assert!(status == 200 && !answer.contains("error"), "{answer}");
        }
        let expected: BTreeSet<String> = uids.iter().map(u64::to_string).collect();
        let descending: Vec<String> = uids.iter().rev().map(u64::to_string).collect();
        for store in STORES {
            for limit in [3, 50, 500] {
                let found = users_of(&api, store, eid, limit);
                if store == "bitmap" || (store == "rbm" && test_store.has_module) {
                    assert_eq!(found, descending, "{store} {eid}");
                }
                assert_eq!(unique(found), expected, "{store} {eid}");
            }
        }
        if eid == 1 {
            move_days_back(&test_store, PARTITIONS);
            wait_until_compacted(&test_store, PARTITIONS);
        }
        assert_eq!(
            unique(users_of(&api, "daily", eid, 7)),
            expected,
            "after compaction"
        );
    }
    for store in STORES {
        for cursor in ["x", "-1", "1.2", "99.0.", "1.0.a:b"] {
            let (status, answer) = api.get(&format!("/who/{store}/note/1?cursor={cursor}"));
            let is_day = store == "daily" && cursor == "99.0.";
            assert_eq!(status == 400, !is_day, "{store} {cursor}: {answer}");
        }
    }
}

pub fn unsupported_ids_are_refused(test_store: TestStore) {
    let countd = start(&test_store.server);
    let api = countd.api();
    for (store, uids) in [
        (
            "rbm",
            vec![json!("alice"), json!("007"), json!("18446744073709551616")],
        ),
        (
            "bitmap",
            vec![
                json!("alice"),
                json!("00"),
                json!(4_294_967_296_u64),
                json!(u64::MAX),
            ],
        ),
    ] {
        for uid in uids {
            assert_refused(
                &api,
                &format!("/action/{store}"),
                &on(1, uid.clone()),
                422,
                "unprocessable",
            );
            let uid = uid.to_string().replace('"', "");
            let (status, _) = api.get(&format!("/status/note/1?uid={uid}&metrics={store}"));
            assert_eq!(status, 422, "{store} {uid}");
        }
        assert_eq!(users_of(&api, store, 1, 10), [""; 0]);
    }
    let uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    for store in ["daily", "sharded"] {
        assert_eq!(
            api.act(store, on(1, uuid)),
            json!({ "changed": true, "count": 1 })
        );
        assert_eq!(api.act(store, on(1, uuid))["changed"], false);
        assert_eq!(users_of(&api, store, 1, 10), [uuid]);
    }
    assert_eq!(api.act("bitmap", on(1, u32::MAX))["count"], 1);
    assert_eq!(users_of(&api, "bitmap", 1, 1), [u32::MAX.to_string()]);
    api.act("unbitmap", on(1, u32::MAX));
    let mut client = test_store.server.client();
    let chunks = test_store.key("bm:bitmap:note:1:", "chunks", "note:1");
    let chunk = test_store.key("bm:bitmap:note:1:", "131071", "note:1");
    assert_eq!(
        reply::int(client.ok(&format!("EXISTS {chunks} {chunk}"))),
        0,
        "empty chunks are deleted"
    );
}
