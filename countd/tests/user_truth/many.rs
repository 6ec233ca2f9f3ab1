//! Many users whose counters are wrong at once.

use super::command::ONLY_COMMANDS;
use super::{PARTITIONS, audit, forge};
use crate::support::stores::{self, TestStore, for_each_store};
use crate::support::{Countd, run, wait_until_drained};
use serde_json::{Value as Json, json};

for_each_store! {
    [module plain cluster]
    one_run_corrects_many_wrong_followings
}

const WRONG: u64 = 1_500;

/// Forges the followings of many users, and reconciles once.
fn correct_many(store: &TestStore) {
    let config = format!("{ONLY_COMMANDS}[audit]\nretain = 100000\n").replace(
        "[reconcile]\n",
        "[reconcile]\nentities_per_second = 1000000\nfacts_per_second = 1000000\n",
    );
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    for followed in ["7", "8"] {
        api.act("follow", json!({ "eid": followed, "uid": 1 }));
    }
    wait_until_drained(&store.server, PARTITIONS);
    for uid in 1..=WRONG {
        forge(store, &uid.to_string(), 0, 5);
    }
    let arguments = ["reconcile", "--all", "--json"];
    let output = run(&store.server, &config, &arguments);
    let report: Json = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(
        report["metrics"]["followings"]["corrected"], WRONG,
        "{report}"
    );
    for uid in 1..=WRONG {
        let counts = &api.ok(api.get(&format!("/relation/counter?uid={uid}")))["counts"];
        let right = if uid == 1 { 2 } else { 0 };
        assert_eq!(counts["followings"], right, "{uid}");
    }
    assert_eq!(audit(store, &mut store.server.client()).len() as u64, WRONG);
    assert_eq!(
        store.server.client().call(&["EXISTS", "countd:users"]),
        countint_tests::Value::Int(0)
    );
}

fn one_run_corrects_many_wrong_followings(store: TestStore) {
    correct_many(&store);
}

/// The notes have room for 200,000 differences, and all but 500 of them are of users whose counters are right.
#[test]
fn differences_without_room_for_a_note_are_corrected_by_the_same_run() {
    let store = stores::module();
    let fill = "for uid = 1, 199500 do redis.call('HSET', KEYS[1], 'x' .. uid .. ':followings', '1/0') end";
    let mut client = store.server.client();
    client.call(&["EVAL", fill, "1", "countd:users"]);
    correct_many(&store);
}
