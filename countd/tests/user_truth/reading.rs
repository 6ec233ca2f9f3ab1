//! Counters of users are rebuilt and verified when they are read.

use super::{PARTITIONS, audit, field, forge};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, wait_until_drained};
use countint_tests::{reply, wait_until};
use serde_json::{Value as Json, json};

for_each_store! {
    [module objects plain cluster cluster_objects]
    missing_and_damaged_counters_are_rebuilt
    followers_are_verified_when_they_are_read
}

mod of_objects {
    use super::*;

    for_each_store! {
        [objects plain cluster_objects]
        a_short_object_with_counts_is_rebuilt
    }
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

/// One of the five counters is left, and is not 0.
fn a_short_object_with_counts_is_rebuilt(store: TestStore) {
    let (_countd, api) = start(&store);
    let key = store.user_counters("1", PARTITIONS);
    let mut client = store.server.client();
    client.ok(&format!("DEL {key}"));
    match store.has_module {
        true => client.ok(&format!("CINT.SET {key} LEN 1 0 2")),
        false => client.ok(&format!("BITFIELD {key} SET u40 #0 2")),
    };
    let path = "/relation/counter?uid=1";
    let found = api.request(path, &[("x-trace-id", "t-1")], None);
    assert_eq!(found.status, 200);
    let entries = audit(&store, &mut client);
    let rebuilt = entries
        .iter()
        .filter(|entry| field(entry, "source") == "rebuild" && field(entry, "traceId") == "t-1");
    assert!(rebuilt.count() > 0, "{entries:?}");
    let len = match store.has_module {
        true => reply::int(client.ok(&format!("CINT.LEN {key}"))),
        false => reply::int(client.ok(&format!("STRLEN {key}"))) / 5,
    };
    assert!(len >= 5, "{len}");
    wait_until("the followers are counted", || {
        let found = counts(&api, "1");
        found["followings"] == 2 && found["followers"] == 1
    });
}
