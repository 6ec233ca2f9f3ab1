//! Dead letters of events on a split entity: timelines of users are damaged, and repaired before the dead letters are retried.

use super::{AUTHOR, CONFIG, assert_likes, merge, split};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::{Api, Countd, dead_reasons, on_note, printed, run, wait_until_drained};
use countint_tests::{Client, reply};
use serde_json::json;
use std::collections::BTreeSet;

for_each_store! {
    [module cluster]
    dead_letters_of_a_split_entity_count_once_when_they_are_retried
}

/// Users of the base and of shards whose timelines are damaged.
const DAMAGED: [u64; 4] = [3, 4, 33, 34];

/// The key of the likes of a user.
fn timeline(store: &TestStore, user: u64) -> String {
    store.key(&format!("rtl:like:note:{user}"), "", &user.to_string())
}

/// Where a timeline is while its key holds another type. It is in the same slot.
fn moved(key: &str) -> String {
    format!("moved:{key}")
}

fn damage(client: &mut Client, store: &TestStore) {
    for user in DAMAGED {
        let key = timeline(store, user);
        // Users without likes have no timeline.
        client.run(&format!("RENAME {key} {}", moved(&key)));
        client.ok(&format!("RPUSH {key} x"));
    }
}

fn repair(client: &mut Client, store: &TestStore) {
    for user in DAMAGED {
        let key = timeline(store, user);
        client.ok(&format!("DEL {key}"));
        client.run(&format!("RENAME {} {key}", moved(&key)));
    }
}

/// Retries all dead letters, and returns the reasons of the remaining ones.
fn retry(store: &TestStore) -> Vec<String> {
    printed(&run(&store.server, CONFIG, &["dead", "retry", "--all"]));
    wait_until_drained(&store.server, 16);
    dead_reasons(&store.server, CONFIG)
}

/// Asserts the timelines of the users whose timelines were damaged.
fn assert_timelines(api: &Api, users: &[u64], likes: &BTreeSet<u64>) {
    for user in users {
        let timeline = api.ok(api.get(&format!("/user/{user}/like/note")));
        let notes = timeline["items"].as_array().expect("items").len();
        let expected = usize::from(likes.contains(user));
        assert_eq!(notes, expected, "user {user}: {timeline}");
    }
}

fn dead_letters_of_a_split_entity_count_once_when_they_are_retried(store: TestStore) {
    let server = &store.server;
    let countd = Countd::start(server, CONFIG);
    let api = countd.api();
    let mut client = server.client();
    api.ok(api.put("/entity/note/7", &json!({ "author": AUTHOR })));
    for user in 1..=10 {
        api.act("like", on_note(7, user));
    }
    assert_eq!(split(server, CONFIG)["phase"], "split");
    api.act("like", on_note(7, 34));
    wait_until_drained(server, 16);
    damage(&mut client, &store);
    for (action, user) in [
        ("unlike", 3),
        ("like", 3),
        ("unlike", 4),
        ("like", 33),
        ("unlike", 34),
    ] {
        assert_eq!(api.act(action, on_note(7, user))["changed"], true);
    }
    for user in 11..=30 {
        api.act("like", on_note(7, user));
    }
    let likes: BTreeSet<u64> = (1..=30).filter(|user| *user != 4).chain([33]).collect();
    wait_until_drained(server, 16);
    assert!(dead_reasons(server, CONFIG).len() >= DAMAGED.len());
    // The actions have changed the counters themselves.
    assert_eq!(api.counts(7)["like"], likes.len());

    repair(&mut client, &store);
    // Facts of the base may not be readable by their usual key while they are frozen: their dead letters come back.
    let left = retry(&store);
    let is_frozen = |reason: &String| reason.contains("a fact cannot be read");
    assert!(left.iter().all(is_frozen), "{left:?}");
    if !store.is_cluster() {
        assert_timelines(&api, &DAMAGED, &likes);
    }
    assert_eq!(api.counts(7)["like"], likes.len());
    merge(server, CONFIG);
    assert_eq!(retry(&store), Vec::<String>::new());
    assert_timelines(&api, &DAMAGED, &likes);
    assert_likes(&api, &likes);
    assert_invariants(server, CONFIG);
}

/// The fences at the keys of shards expire a day after the merge. A dead letter may be older.
#[test]
fn dead_letters_of_a_shard_are_right_when_its_fences_have_expired() {
    const USER: u64 = 33;
    let store = module();
    let server = &store.server;
    let countd = Countd::start(server, CONFIG);
    let api = countd.api();
    let mut client = server.client();
    api.ok(api.put("/entity/note/7", &json!({ "author": AUTHOR })));
    api.act("like", on_note(7, 1));
    assert_eq!(split(server, CONFIG)["phase"], "split");
    damage(&mut client, &store);
    api.act("like", on_note(7, USER));
    wait_until_drained(server, 16);
    assert_eq!(dead_reasons(server, CONFIG).len(), 1);
    repair(&mut client, &store);
    merge(server, CONFIG);
    let fences = reply::array(client.ok("KEYS rbm:like:note:7~*"));
    assert!(!fences.is_empty());
    for key in fences.into_iter().map(reply::text) {
        assert_eq!(client.run(&format!("TYPE {key}")), "string");
        client.ok(&format!("DEL {key}"));
    }
    assert_eq!(retry(&store), Vec::<String>::new());
    let likes = BTreeSet::from([1, USER]);
    assert_likes(&api, &likes);
    assert_timelines(&api, &[USER], &likes);
    assert_invariants(server, CONFIG);
}
