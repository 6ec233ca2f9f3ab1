//! The checker of the invariants finds each kind of damage, and nothing else.

use crate::support::invariants::Invariants;
use crate::support::saboteur::{Act, Place, act};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, on_note, wait_until_drained};
use countint_tests::{Client, args, reply};
use serde_json::json;

for_each_store! {
    [module objects plain cluster cluster_objects]
    each_damage_is_found_and_nothing_else
}

const PARTITIONS: u16 = 16;
/// A metric of each fact store, of each way of counting, and of each feed of users' counters.
const CONFIG: &str = r#"
[log]
partitions = 16
[consumer]
linger_ms = 5
[facts]
shards = 3
[reconcile]
enabled = false
[metrics.read]
nature = "repeatable"
count = "batched"
daily = true
[metrics.like]
nature = "once"
count = "now"
reverse = true
users = [{ counter = "likesReceived", of = "author" }]
[metrics.fav]
nature = "once"
count = "now"
facts = "bitmap"
[metrics.comment]
nature = "once"
count = "batched"
facts = "daily"
[metrics.repost]
nature = "once"
count = "batched"
facts = "sharded"
[metrics.follow]
nature = "once"
count = "never"
reverse = true
entities = ["user"]
users = [{ counter = "followings", of = "actor" }, { counter = "followers", of = "target" }]
[metrics.publish]
nature = "once"
count = "never"
reverse = true
users = [{ counter = "posts", of = "actor" }]
names_author = "actor"
"#;

/// Fills a store with two notes of user 5, one of them with an ID that is not a number, and stops countd.
fn fill(store: &TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for eid in ["1", "n-1"] {
        let note = |uid: u64| json!({ "etype": "note", "eid": eid, "uid": uid });
        api.act("publish", note(5));
        for uid in 5..=8 {
            for metric in ["read", "like", "fav", "comment", "repost"] {
                api.act(metric, note(uid));
            }
        }
    }
    for uid in 6..=8 {
        api.act("follow", json!({ "eid": "5", "uid": uid }));
    }
    api.act("unlike", on_note(1, 8));
    wait_until_drained(&store.server, PARTITIONS);
}

fn each_damage_is_found_and_nothing_else(store: TestStore) {
    fill(&store);
    let invariants = Invariants::new([&store.server], CONFIG);
    assert_eq!(invariants.violations(), [""; 0]);
    let mut client = store.server.client();
    for (damage, at, expected) in damages(&store) {
        let before = client.call(&args!["DUMP", &at.key]);
        let changes = act(&mut client, damage, &at);
        assert!(!changes.is_empty(), "{damage:?} {at:?}");
        assert_eq!(invariants.violations(), expected, "{damage:?} {at:?}");
        let content = reply::bytes(before);
        client.call(&args!["RESTORE", &at.key, 0, content, "REPLACE"]);
    }
    assert_eq!(invariants.violations(), [""; 0]);
    index_is_checked(&store, &invariants, &mut client);
}

/// Acts, and the violations after each.
fn damages(store: &TestStore) -> Vec<(Act, Place, Vec<String>)> {
    let note = |eid: &str| store.counters("v1", &format!("note:{eid}"), PARTITIONS);
    let place = |key: String, row: &str, idx: usize, value: u64| Place {
        key,
        row: row.to_owned(),
        idx,
        value,
        keep: 2,
    };
    let mut all: Vec<(Act, Place, Vec<String>)> = Vec::new();
    let mut add = |act, place, expected: &[&str]| {
        let expected = expected.iter().map(|text| (*text).to_owned());
        all.push((act, place, expected.collect()));
    };
    // I1, for each fact store: read, like, fav, comment and repost are the fields 0 to 4.
    for (idx, metric) in [(2, "fav"), (3, "comment"), (4, "repost")] {
        for eid in ["1", "n-1"] {
            let expected = format!("I1: {metric} of note {eid} is 9, with 4 facts");
            add(Act::Set, place(note(eid), eid, idx, 9), &[&expected]);
        }
    }
    let keep_two = [
        "I1: comment of note n-1 is 0, with 4 facts",
        "I1: fav of note n-1 is 0, with 4 facts",
        "I1: repost of note n-1 is 0, with 4 facts",
    ];
    add(Act::Truncate, place(note("n-1"), "", 0, 0), &keep_two);
    let replaced = format!("{} is damaged", note("n-1"));
    let lost = [
        "I1: comment of note n-1 is 0, with 4 facts",
        "I1: fav of note n-1 is 0, with 4 facts",
        "I1: like of note n-1 is 0, with 4 facts",
        "I1: repost of note n-1 is 0, with 4 facts",
        "I2: read of note n-1 is 0, its days 4, its total 4",
        "I3: like of note n-1 is 0, and likesReceived of user 5 was credited with 4",
        "I3: likesReceived of user 5 is 7, not 3",
    ];
    add(Act::Delete, place(note("n-1"), "", 0, 0), &lost);
    let mut damaged = lost.to_vec();
    damaged.push(&replaced);
    add(Act::Replace, place(note("n-1"), "", 0, 0), &damaged);
    // A counter of likes feeds the author.
    let likes = [
        "I1: like of note 1 is 1000, with 3 facts",
        "I3: like of note 1 is 1000, and likesReceived of user 5 was credited with 3",
        "I3: likesReceived of user 5 is 7, not 1004",
    ];
    add(Act::Set, place(note("1"), "1", 1, 1000), &likes);
    // Facts: their users, and those of the transposed facts.
    let facts = store.key("rbm:like:note:1", "", "note:1");
    let lost_fact = [
        "I1: like of note 1 is 3, with 2 facts",
        "I4: like of user 7 for note has 1 without a fact",
    ];
    add(Act::Remove, place(facts, "7", 0, 0), &lost_fact);
    // I2.
    let days = store.key("h:agg:read:note:1", "", "note:1");
    let dropped = ["I2: read of note 1 is 4, its days 0, its total 4"];
    add(Act::Delete, place(days.clone(), "", 0, 0), &dropped);
    let forged = ["I2: read of note 1 is 4, its days 14, its total 4"];
    add(Act::Set, place(days, "20200101", 0, 10), &forged);
    let totals = store.totals("read", "note:n-1", PARTITIONS);
    let forged = ["I2: read of note n-1 is 4, its days 4, its total 77"];
    add(Act::Set, place(totals, "n-1", 0, 77), &forged);
    // I3 and I4.
    for (idx, expected) in [
        (0, "I4: followings of user 5 is 50, not 0"),
        (1, "I4: followers of user 5 is 50, not 3"),
        (2, "I4: posts of user 5 is 50, not 2"),
        (3, "I3: likesReceived of user 5 is 50, not 7"),
    ] {
        let key = store.user_counters("5", PARTITIONS);
        add(Act::Set, place(key, "5", idx, 50), &[expected]);
    }
    // Facts of users.
    let (table, set) = ("rtl:follow:user:6", "rtl:follow:user:6:s");
    let name = if store.has_module { table } else { set };
    let timeline = store.key(name, "", "6");
    let lost = ["I4: follow of user 6 for user lacks 5"];
    add(Act::Remove, place(timeline.clone(), "5", 0, 0), &lost);
    let forged = ["I4: follow of user 6 for user has 77 without a fact"];
    add(Act::Set, place(timeline, "77", 0, 1), &forged);
    all
}

/// A Set of a day that its index does not name is not found by countd.
fn index_is_checked(store: &TestStore, invariants: &Invariants<'_>, client: &mut Client) {
    let index = store.key("bm:fav:note:1:chunks", "", "note:1");
    let at = Place {
        key: index,
        row: "0".to_owned(),
        ..Place::default()
    };
    act(client, Act::Remove, &at);
    let expected = r#"I1: fav of note 1: the index is {}, not {"0"}"#;
    assert_eq!(invariants.violations(), [expected]);
}
