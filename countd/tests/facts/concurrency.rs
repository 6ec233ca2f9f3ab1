//! Many clients at the same time.

use super::*;
use crate::support::stores::move_days_back;
use crate::support::workload::Random;
use crate::support::{wait_until_drained, with};
use std::thread;

pub fn facts_counts_and_events_agree_when_many_do_it_at_once(world: TestStore) {
    let countd = start(&world.server);
    let api = countd.api();
    thread::scope(|scope| {
        for client in 0..8 {
            let api = &api;
            scope.spawn(move || {
                let mut random = Random(client);
                for _ in 0..40 {
                    let way = WAYS[random.below(4) as usize];
                    let op = if random.below(2) == 0 {
                        "add"
                    } else {
                        "remove"
                    };
                    let action = with(on(1, random.below(3)), json!({ "op": op, "author": 99 }));
                    api.act(way, action);
                }
            });
        }
        for _ in 0..5 {
            move_days_back(&world, PARTITIONS);
            thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    // Somebody who is folded between two pages may be on both.
    wait_until_compacted(&world, PARTITIONS);
    let mut likes = 0;
    for way in WAYS {
        let users = set(who(&api, way, 1, 2));
        assert_eq!(count(&api, way, 1), users.len() as u64, "{way}");
        for uid in 0..3 {
            let uid = uid.to_string();
            assert_eq!(
                is_there(&api, way, 1, &uid),
                users.contains(&uid),
                "{way} {uid}"
            );
            assert_eq!(
                last_event(&world, way, &uid),
                users.contains(&uid),
                "{way} {uid}"
            );
        }
        likes += users.len();
    }
    wait_until_drained(&world.server, PARTITIONS);
    assert_eq!(api.user(99)["likesReceived"], likes);
}

/// Whether the last event of a user is that he did it. His events take turns.
fn last_event(world: &TestStore, way: &str, uid: &str) -> bool {
    let mut did = false;
    let log = world.log(TestStore::partition("note:1", PARTITIONS));
    for entry in reply::array(world.server.client().ok(&format!("XRANGE {log} - +"))) {
        let fields = reply::array(reply::array(entry).remove(1));
        let Ok(event) = serde_json::from_slice::<Json>(&reply::bytes(fields[1].clone())) else {
            panic!("events are JSON");
        };
        if event["metric"] == way && event["uid"] == uid {
            let adds = event["delta"] == 1;
            assert_ne!(adds, did, "{way} {uid}: an event is news");
            did = adds;
        }
    }
    did
}
