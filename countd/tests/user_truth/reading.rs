//! Counters of users are rebuilt and verified when they are read.

use super::{PARTITIONS, audit, field, forge};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, wait_until_drained};
use countint_tests::wait_until;
use serde_json::{Value as Json, json};

for_each_store! {
    [module objects plain cluster cluster_objects]
    missing_and_damaged_counters_are_rebuilt
    followers_are_verified_when_they_are_read
}

/// No round of the reconciliation begins.
const CONFIG: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n[reconcile]\ninterval_seconds = 86400\nmin_difference = 0\nmin_percent = 0.0\n";

fn counts(api: &Api, uid: &str) -> Json {
    api.ok(api.get(&format!("/relation/counter?uid={uid}")))["counts"].clone()
}

fn start(store: &TestStore) -> (Countd, Api) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for (uid, followed) in [("1", "2"), ("1", "3"), ("2", "1")] {
        api.act("follow", json!({ "eid": followed, "uid": uid }));
    }
    wait_until_drained(&store.server, PARTITIONS);
    (countd, api)
}

fn missing_and_damaged_counters_are_rebuilt(store: TestStore) {
    let (_countd, api) = start(&store);
    let key = store.user_counters("1", PARTITIONS);
    let is_row = store.has_module && key.starts_with("utab");
    let mut client = store.server.client();
    for damage in ["missing", "type", "short"] {
        match (damage, is_row) {
            ("missing", true) => client.call(&["CTAB.DEL", &key, "1"]),
            ("missing", false) => client.call(&["DEL", &key]),
            ("type", _) => {
                client.call(&["DEL", &key]);
                client.call(&["RPUSH", &key, "x"])
            }
            // A row has as many counters as its table.
            (_, true) => continue,
            (_, false) if store.has_module => {
                client.call(&["DEL", &key]);
                client.call(&["CINT.INIT", &key, "1"])
            }
            (_, false) => client.call(&["SET", &key, "\0\0\0\0\0"]),
        };
        // A user who was rebuilt is not verified again for `rebuild.zero_seconds`.
        // Its followers are counted by the consumer.
        if damage == "short" {
            wait_until("the counters are rebuilt", || {
                counts(&api, "1")["followings"] == json!(2)
            });
            wait_until_drained(&store.server, PARTITIONS);
        }
        let found = counts(&api, "1");
        let found = (&found["followings"], &found["followers"]);
        assert_eq!(found, (&json!(2), &json!(1)), "{damage}");
        wait_until_drained(&store.server, PARTITIONS);
        let found = counts(&api, "1");
        let found = (&found["followings"], &found["followers"]);
        assert_eq!(found, (&json!(2), &json!(1)), "{damage}");
    }
    let entries = audit(&store, &mut client);
    let rebuilt = entries.iter().filter(|entry| {
        field(entry, "source") == "rebuild" && field(entry, "metric") == "followings"
    });
    assert!(rebuilt.count() >= 2, "{entries:?}");
    assert!(
        entries
            .iter()
            .all(|entry| field(entry, "eid") == "1" && field(entry, "etype") == "user")
    );
}

fn followers_are_verified_when_they_are_read(store: TestStore) {
    let (_countd, api) = start(&store);
    forge(&store, "3", 1, 7);
    assert_eq!(counts(&api, "3")["followers"], json!(7));
    wait_until("the counter is corrected", || {
        counts(&api, "3")["followers"] == json!(1)
    });
    let entries = audit(&store, &mut store.server.client());
    let [entry] = &entries[..] else {
        panic!("{entries:?}");
    };
    assert_eq!(
        (field(entry, "eid"), field(entry, "difference")),
        ("3", "-6")
    );
}
