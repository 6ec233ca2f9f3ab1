//! Dead letters of counters of users, which are corrected before the dead letters are retried.

use super::{CONFIG, PARTITIONS, audit, field, wait_for_sweep};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, dead_reasons, on_note, printed, run, wait_until_drained, with};
use countint_tests::wait_until;
use serde_json::{Value as Json, json};

for_each_store! {
    [module plain cluster]
    a_retried_credit_does_not_count_twice
    a_retried_follow_does_not_count_twice
    a_retried_credit_counts_if_nothing_has_corrected_it
}

/// An author whose counters are damaged. The ID has no row.
const AUTHOR: &str = "a-7";
/// A user with followers.
const FOLLOWED: &str = "8";

fn without_rounds() -> String {
    CONFIG.replace("[reconcile]\n", "[reconcile]\nenabled = false\n")
}

/// Counts what `act` does while the counters of a user hold another type, and removes them. The consumer cannot rebuild the counters, since
/// the facts of `posts` hold another type, too.
fn count_with_damage(store: &TestStore, uid: &str, act: impl FnOnce(&Api)) {
    let config = &without_rounds();
    let countd = Countd::start(&store.server, config);
    let form = if store.has_module { "" } else { ":s" };
    let posts = store.key(&format!("rtl:publish:note:{uid}{form}"), "", uid);
    let key = store.user_counters(uid, PARTITIONS);
    let mut client = store.server.client();
    for key in [&key, &posts] {
        client.ok(&format!("RPUSH {key} x"));
    }
    act(&countd.api());
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(dead_reasons(&store.server, config).len(), 1);
    for key in [&key, &posts] {
        client.ok(&format!("DEL {key}"));
    }
}

fn counts(api: &Api, uid: &str) -> Json {
    let path = format!("/relation/counter?uid={uid}");
    api.ok(api.get(&path))["counts"].clone()
}

/// Retries the dead letter. The counters stay, and later sweeps have nothing to correct.
fn retry(store: &TestStore, api: &Api, users: &[&str]) {
    // Nothing is left to correct.
    wait_until_drained(&store.server, PARTITIONS);
    wait_for_sweep(store);
    wait_until_drained(&store.server, PARTITIONS);
    let before: Vec<Json> = users.iter().map(|uid| counts(api, uid)).collect();
    let corrections = audit(store, &mut store.server.client());
    let retried = printed(&run(&store.server, CONFIG, &["dead", "retry", "--all"]));
    assert!(retried.contains("1 retried, 0 left"), "{retried}");
    wait_until_drained(&store.server, PARTITIONS);
    wait_for_sweep(store);
    let after: Vec<Json> = users.iter().map(|uid| counts(api, uid)).collect();
    assert_eq!(after, before);
    assert_eq!(audit(store, &mut store.server.client()), corrections);
    assert!(dead_reasons(&store.server, CONFIG).is_empty());
}

fn like(api: &Api) {
    let author = json!({ "author": AUTHOR });
    api.act("like", with(on_note(1, 5), author));
}

fn a_retried_credit_does_not_count_twice(store: TestStore) {
    count_with_damage(&store, AUTHOR, like);
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    wait_until("the counter is corrected", || {
        counts(&api, AUTHOR)["likesReceived"] == 1
    });
    let corrections = audit(&store, &mut store.server.client());
    let of = |name: &'static str| {
        corrections
            .iter()
            .any(|entry| field(entry, "source") == name)
    };
    assert!(of("credits"), "{corrections:?}");
    retry(&store, &api, &[AUTHOR]);
}

fn a_retried_credit_counts_if_nothing_has_corrected_it(store: TestStore) {
    count_with_damage(&store, AUTHOR, like);
    let config = &without_rounds();
    let countd = Countd::start(&store.server, config);
    printed(&run(&store.server, config, &["dead", "retry", "--all"]));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(counts(&countd.api(), AUTHOR)["likesReceived"], 1);
}

/// On one server the event is the dead letter, and the fact is missing in the timeline. In a cluster it is an increment.
fn a_retried_follow_does_not_count_twice(store: TestStore) {
    // The counters of both users are in different tables.
    let partition = |uid: &str| TestStore::partition(uid, PARTITIONS);
    let mut users = (100..).map(|number: u64| number.to_string());
    let follower = users.find(|uid| partition(uid) != partition(FOLLOWED));
    let follower = &follower.expect("a user");
    count_with_damage(&store, follower, |api| {
        api.act("follow", json!({ "eid": FOLLOWED, "uid": follower }));
    });
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    wait_until("the counters are corrected", || {
        counts(&api, follower)["followings"] == 1 && counts(&api, FOLLOWED)["followers"] == 1
    });
    retry(&store, &api, &[follower, FOLLOWED]);
}
