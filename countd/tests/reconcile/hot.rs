//! Rounds compare the entities with the most events.

use super::setup::{LIKE, PARTITIONS, config, differences, forge};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, on_note, wait_until_drained, with};
use countint_tests::wait_until;
use serde_json::json;

for_each_store! {
    [module objects plain cluster]
    hot_entities_are_compared_in_each_round
    hot_entities_of_batched_counters_are_compared_in_each_round
}

fn hot_entities_are_compared_in_each_round(store: TestStore) {
    assert_compared(&store, "now");
}

fn hot_entities_of_batched_counters_are_compared_in_each_round(store: TestStore) {
    assert_compared(&store, "batched");
}

/// The sample reaches one entity in thousands, but each round compares an entity with events.
fn assert_compared(store: &TestStore, count: &str) {
    let settings = "interval_seconds = 1\nsample = 1000000\nentities_per_second = 1000000\nmin_difference = 0\nmin_percent = 0";
    let countd = Countd::start(&store.server, &config(count, settings));
    let api = countd.api();
    for eid in 1..400 {
        api.act("fav", on_note(eid, 1));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let mut uid = 10;
    for eid in [3, 100, 397] {
        let before = differences(store).len();
        forge(store, &format!("note:{eid}"), LIKE, 5);
        wait_until("the hot entity is corrected", || {
            uid += 1;
            api.act("like", with(on_note(eid, uid), json!({ "author": 7 })));
            differences(store).len() > before
        });
    }
}
