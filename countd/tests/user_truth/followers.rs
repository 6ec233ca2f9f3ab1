//! Followers: the number of facts on a user.

use super::{CONFIG, PARTITIONS, audit, field, forge, slots, wait_for_sweep};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, metric, wait_until_drained};
use countint_tests::{reply, wait_until};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

for_each_store! {
    [module objects plain cluster cluster_objects]
    forged_followers_are_corrected_and_audited
    followers_are_exact_while_they_change
    differences_that_were_corrected_or_have_no_counter_are_forgotten
}

fn follow(api: &Api, uid: &str, followed: &str) {
    api.act("follow", json!({ "eid": followed, "uid": uid }));
}

fn followers(api: &Api, uid: &str) -> u64 {
    let path = format!("/relation/counter?uid={uid}");
    let followers = &api.ok(api.get(&path))["counts"]["followers"];
    followers.as_u64().expect("a number")
}

fn forged_followers_are_corrected_and_audited(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for follower in ["1", "2", "3"] {
        for followed in ["7", "8", "a-7"] {
            follow(&api, follower, followed);
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    for (uid, forged) in [("7", 10), ("8", 1), ("a-7", 1), ("9", 5)] {
        forge(&store, uid, 1, forged);
    }
    let found = || ["7", "8", "a-7", "9"].map(|uid| followers(&api, uid));
    wait_until("the counters are corrected", || found() == [3, 3, 3, 0]);
    wait_for_sweep(&store);
    let mut corrections = audit(&store, &mut store.server.client());
    corrections.sort_by_key(|entry| field(entry, "eid").to_owned());
    let found: Vec<[&str; 4]> = corrections
        .iter()
        .map(|entry| ["eid", "metric", "difference", "source"].map(|name| field(entry, name)))
        .collect();
    assert_eq!(
        found,
        [
            ["7", "followers", "-7", "user"],
            ["8", "followers", "2", "user"],
            ["9", "followers", "-5", "user"],
            ["a-7", "followers", "2", "user"],
        ]
    );
}

/// A few users get and lose followers all the time. A forged counter is corrected meanwhile, by exactly what was forged.
fn followers_are_exact_while_they_change(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for client in 0..4_u64 {
            let (api, is_done) = (countd.api(), &is_done);
            scope.spawn(move || {
                for step in 0_u64.. {
                    let action =
                        json!({ "eid": 1 + step % 5, "uid": 100 + client * 10 + step / 5 % 10 });
                    let metric = if step / 50 % 2 == 0 {
                        "follow"
                    } else {
                        "unfollow"
                    };
                    api.act(metric, action);
                    if is_done.load(Relaxed) && step % 100 == 99 {
                        break;
                    }
                }
            });
        }
        wait_for_sweep(&store);
        let mut client = store.server.client();
        assert!(audit(&store, &mut client).is_empty());
        forge(&store, "6", 1, 1_000);
        wait_for_sweep(&store);
        is_done.store(true, Relaxed);
    });
    wait_until_drained(&store.server, PARTITIONS);
    wait_for_sweep(&store);
    let corrections = audit(&store, &mut store.server.client());
    let found: Vec<[&str; 2]> = corrections
        .iter()
        .map(|entry| ["eid", "difference"].map(|name| field(entry, name)))
        .collect();
    assert_eq!(found, [["6", "-1000"]]);
    for uid in ["1", "2", "3", "4", "5", "6"] {
        assert_eq!(followers(&api, uid), 0, "followers of {uid}");
    }
}

/// The fields of all Hashes of differences: the key, the field and its value.
fn noted(store: &TestStore) -> Vec<[String; 3]> {
    let mut client = store.server.client();
    let mut noted = Vec::new();
    for slot in slots(store) {
        let key = format!("countd:drift{slot}");
        let pairs = reply::array(client.call(&["HGETALL", &key]));
        let pairs: Vec<String> = pairs.into_iter().map(reply::text).collect();
        let fields = pairs
            .chunks(2)
            .map(|pair| [key.clone(), pair[0].clone(), pair[1].clone()]);
        noted.extend(fields);
    }
    noted
}

fn differences_that_were_corrected_or_have_no_counter_are_forgotten(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    follow(&api, "1", "7");
    wait_until_drained(&store.server, PARTITIONS);
    // Their metrics, counters and types were removed from the configuration.
    // The last one is right, so that no sweep checks it.
    let noted_before = [
        "note:1:removed",
        "removed:1:like",
        "user:1:removed",
        "user:7:followers",
    ];
    let home = usize::from(TestStore::partition("7", PARTITIONS));
    let slots = slots(&store);
    let key = format!("countd:drift{}", slots[home % slots.len()]);
    for field in noted_before {
        store.server.client().call(&["HSET", &key, field, "3/1"]);
    }
    wait_until("nothing is noted", || noted(&store).is_empty());
    wait_until("all have converged", || {
        metric(&api, "countd_unconverged") == 0
    });
}
