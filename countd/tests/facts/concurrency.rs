//! Concurrent clients.

use super::setup::*;
use crate::groups::change_of;
use crate::support::stores::TestStore;
use crate::support::stores::move_days_back;
use crate::support::stores::wait_until_compacted;
use crate::support::workload::Random;
use crate::support::{wait_until_drained, with};
use countint_tests::reply;
use serde_json::json;
use std::thread;

pub fn facts_counts_and_events_agree_after_concurrent_changes(test_store: TestStore) {
    let countd = start(&test_store.server);
    let api = countd.api();
    thread::scope(|scope| {
        for client in 0..8 {
            let api = &api;
            scope.spawn(move || {
                let mut random = Random(client);
                for _ in 0..40 {
                    let store = STORES[random.below(4) as usize];
                    let op = if random.below(2) == 0 {
                        "add"
                    } else {
                        "remove"
                    };
                    let action = with(on(1, random.below(3)), json!({ "op": op, "author": 99 }));
                    api.act(store, action);
                }
            });
        }
        for _ in 0..5 {
            move_days_back(&test_store, PARTITIONS);
            thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    // A user who is compacted between two pages may be on both.
    wait_until_compacted(&test_store, PARTITIONS);
    let mut likes = 0;
    for store in STORES {
        let users = unique(users_of(&api, store, 1, 2));
        assert_eq!(count(&api, store, 1), users.len() as u64, "{store}");
        for uid in 0..3 {
            let uid = uid.to_string();
            assert_eq!(
                has_fact(&api, store, 1, &uid),
                users.contains(&uid),
                "{store} {uid}"
            );
            assert_eq!(
                last_event(&test_store, store, &uid),
                users.contains(&uid),
                "{store} {uid}"
            );
        }
        likes += users.len();
    }
    wait_until_drained(&test_store.server, PARTITIONS);
    assert_eq!(api.user(99)["likesReceived"], likes);
}

/// Whether the last event of a user is an addition. Additions and removals alternate.
fn last_event(test_store: &TestStore, store: &str, uid: &str) -> bool {
    let mut exists = false;
    let log = test_store.log(TestStore::partition("note:1", PARTITIONS));
    let entries = reply::array(test_store.server.client().ok(&format!("XRANGE {log} - +")));
    for (metric, users, adds) in entries.into_iter().filter_map(change_of) {
        if metric == store && users.iter().any(|other| other == uid) {
            assert_ne!(adds, exists, "{store} {uid}: every event is a change");
            exists = adds;
        }
    }
    exists
}
