//! A process that does not see that an entity is split and merged: the facts have moved between keys when it reads their events.

use super::clients::has as is_reported;
use super::{CONFIG, wait_until_built};
use crate::split::{merge, split};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, Settings, on_note, set_schema};
use std::collections::BTreeSet;

for_each_store! {
    [module cluster]
    a_process_that_was_suspended_during_a_split_and_its_merge_denies_no_fact
}

/// Asserts that exactly these users like note 7. Statuses may be refused for a moment.
fn assert_likes(api: &Api, likes: &BTreeSet<u64>) {
    for uid in 1..=60 {
        assert_eq!(
            is_reported((7, uid), api),
            likes.contains(&uid),
            "user {uid}"
        );
    }
}

fn a_process_that_was_suspended_during_a_split_and_its_merge_denies_no_fact(store: TestStore) {
    let server = &store.server;
    // The events are still in the logs when the process goes on: its filters stay.
    let config = &CONFIG.replace("[log]\n", "[log]\nretain = 1000\nretain_bytes = 10000000\n");
    set_schema(server, config);
    let [filtering, acting] =
        ["serve", "all"].map(|command| Countd::with(server, &Settings { command, config }));
    let (api, other) = (filtering.api(), acting.api());
    let like = |uid| {
        other.act("like", on_note(7, uid));
    };
    (1..=20).for_each(like);
    wait_until_built(&api);
    filtering.suspend();
    split(server, config);
    (21..=40).for_each(like);
    // At the base, and at a shard.
    for uid in [11, 31] {
        other.act("unlike", on_note(7, uid));
    }
    merge(server, config);
    filtering.resume();
    let likes: BTreeSet<u64> = (1..=40).filter(|uid| ![11, 31].contains(uid)).collect();
    assert_likes(&api, &likes);
    wait_until_built(&api);
    assert_likes(&api, &likes);
    assert_invariants(server, config);
}
