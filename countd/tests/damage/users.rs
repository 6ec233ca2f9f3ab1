//! Damaged counters of users: the consumer rebuilds them before it counts events of these users.

use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, dead_reasons, on_note, printed, run, wait_until_drained, with};
use crate::user_truth::{audit, field};
use countd::domain::config::DEFAULTS;
use countint_tests::{Client, reply};
use serde_json::{Value as Json, json};

for_each_store! {
    [module objects plain cluster]
    events_of_users_with_damaged_counters_count
    counters_whose_facts_are_damaged_are_not_rebuilt
}

const PARTITIONS: u16 = 16;
/// Without rounds.
const CONFIG: &str = "[log]\npartitions = 16\nretain = 10\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 500\n[reconcile]\nenabled = false\nmin_difference = 0\nmin_percent = 0.0\n";
/// Fact stores that permit all IDs.
fn config() -> String {
    let (_, metrics) = DEFAULTS.split_once("[metrics.read]").expect("metrics");
    let metrics = metrics.replace(
        "nature = \"once\"\n",
        "nature = \"once\"\nfacts = \"sharded\"\n",
    );
    format!("{CONFIG}[metrics.read]{metrics}")
}

/// Users whose counters are damaged: one who may have a row, and one who has an object.
const DAMAGED: [&str; 2] = ["7", "a-7"];

fn follow(api: &Api, uid: &str, followed: &str) {
    api.act("follow", json!({ "eid": followed, "uid": uid }));
}

fn like(api: &Api, note: u64, uid: u64, author: &str) {
    api.act(
        "like",
        with(on_note(note, uid), json!({ "author": author })),
    );
}

/// Followings, followers, posts and received likes.
fn counts(api: &Api, uid: &str) -> [Json; 4] {
    let counts = &api.ok(api.get(&format!("/relation/counter?uid={uid}")))["counts"];
    ["followings", "followers", "posts", "likesReceived"].map(|name| counts[name].clone())
}

/// Replaces the counters of users by keys of another type.
fn damage(store: &TestStore, client: &mut Client) {
    for uid in DAMAGED {
        let key = store.user_counters(uid, PARTITIONS);
        client.ok(&format!("DEL {key}"));
        client.ok(&format!("RPUSH {key} x"));
    }
}

/// Users whose counters are not in the table of the first damaged user, and one whose counters may be.
fn others() -> (Vec<String>, String) {
    let partition = |uid: &String| TestStore::partition(uid, PARTITIONS);
    let damaged = partition(&DAMAGED[0].to_owned());
    let users = |is_neighbour: bool| {
        let users = (100..).map(|number: u64| number.to_string());
        users.filter(move |uid| (partition(uid) == damaged) == is_neighbour)
    };
    let neighbour = users(true).next();
    (users(false).take(5).collect(), neighbour.expect("a user"))
}

fn events_of_users_with_damaged_counters_count(store: TestStore) {
    let config = &config();
    let countd = Countd::start(&store.server, config);
    let api = countd.api();
    let (others, neighbour) = others();
    follow(&api, &neighbour, &others[0]);
    for (uid, note) in DAMAGED.into_iter().zip([5, 6]) {
        for other in &others[..3] {
            follow(&api, other, uid);
        }
        follow(&api, uid, &others[0]);
        follow(&api, uid, &others[1]);
        api.act("publish", with(on_note(note, 1), json!({ "uid": uid })));
        for liker in [1, 2] {
            like(&api, note, liker, uid);
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    for uid in DAMAGED {
        assert_eq!(counts(&api, uid), [2, 3, 1, 2].map(Json::from), "{uid}");
    }
    let mut client = store.server.client();
    damage(&store, &mut client);
    for (uid, note) in DAMAGED.into_iter().zip([5, 6]) {
        follow(&api, &others[3], uid);
        follow(&api, uid, &others[4]);
        like(&api, note, 3, uid);
    }
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(dead_reasons(&store.server, config), [""; 0]);
    // What authors were credited with before is added by the next sweep.
    for uid in DAMAGED {
        assert_eq!(counts(&api, uid), [3, 4, 1, 1].map(Json::from), "{uid}");
    }
    // The row of another user of the table is lost, and rebuilt when the user is read.
    assert_eq!(counts(&api, &neighbour)[0], 1);
    let entries = audit(&store, &mut client);
    for uid in DAMAGED {
        let is_pending = |entry: &Vec<String>| {
            let found = ["eid", "metric", "note"].map(|name| field(entry, name));
            found == [uid, "likesReceived", "pending"]
        };
        assert!(entries.iter().any(is_pending), "{entries:?}");
        printed(&run(&store.server, config, &["reconcile", "--user", uid]));
        assert_eq!(counts(&api, uid), [3, 4, 1, 3].map(Json::from), "{uid}");
    }
}

/// The events are dead letters, and count when they are retried after a repair.
fn counters_whose_facts_are_damaged_are_not_rebuilt(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    let mut client = store.server.client();
    damage(&store, &mut client);
    let form = if store.has_module { "" } else { ":s" };
    let mut timelines = Vec::new();
    for uid in DAMAGED {
        let tag = match store.is_cluster() {
            true => format!(":{{{}}}", TestStore::partition(uid, PARTITIONS)),
            false => String::new(),
        };
        timelines.push(format!("rtl:publish:note:{uid}{form}{tag}"));
    }
    for key in &timelines {
        client.ok(&format!("RPUSH {key} x"));
    }
    for uid in DAMAGED {
        follow(&api, "4", uid);
    }
    wait_until_drained(&store.server, PARTITIONS);
    let reasons = dead_reasons(&store.server, CONFIG);
    assert_eq!(reasons.len(), DAMAGED.len(), "{reasons:?}");
    for uid in DAMAGED {
        let key = store.user_counters(uid, PARTITIONS);
        assert_eq!(reply::text(client.ok(&format!("TYPE {key}"))), "list");
        client.ok(&format!("DEL {key}"));
    }
    for key in &timelines {
        client.ok(&format!("DEL {key}"));
    }
    printed(&run(&store.server, CONFIG, &["dead", "retry", "--all"]));
    wait_until_drained(&store.server, PARTITIONS);
    for uid in DAMAGED {
        assert_eq!(counts(&api, uid)[1], 1, "{uid}");
    }
}
