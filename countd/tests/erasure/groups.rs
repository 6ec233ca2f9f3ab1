//! Erasing a user whose actions were executed together with those of others.

use super::{CONFIG, PARTITIONS, Setup, on, search::holders};
use crate::groups::change_of;
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, cluster, module};
use countint_tests::{reply, wait_until};
use serde_json::json;
use std::thread;

const USER: &str = "4234567890123401";
const NOTE: &str = "7";
const OTHERS: u64 = 16;

#[test]
fn a_user_in_the_event_of_a_group_is_erased() {
    erase_from_groups(module());
}

#[test]
fn a_user_in_the_event_of_a_group_is_erased_in_cluster_mode() {
    erase_from_groups(cluster());
}

fn erase_from_groups(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    let api = &setup.api;
    let path = format!("/entity/note/{NOTE}");
    api.ok(api.put(&path, &json!({ "author": 8 })));
    let log = setup.store.log(TestStore::partition("note:7", PARTITIONS));
    // Until the user is in the event of a group.
    wait_until("actions are grouped", || {
        for metric in ["like", "unlike", "like"] {
            thread::scope(|scope| {
                for other in 0..OTHERS {
                    scope.spawn(move || api.act(metric, on(NOTE, &(1_000 + other).to_string())));
                }
                scope.spawn(|| api.act(metric, on(NOTE, USER)));
            });
        }
        let entries = setup.store.server.client().ok(&format!("XRANGE {log} - +"));
        let entries = reply::array(entries).into_iter();
        let mut groups = entries.filter_map(change_of).map(|(_, users, _)| users);
        groups.any(|users| users.len() > 1 && users.iter().any(|uid| uid == USER))
    });
    setup.drain();
    assert_eq!(setup.note(NOTE)["like"], OTHERS + 1);
    let job = setup.erase(&format!("/user/{USER}"));
    assert_eq!(job["state"], "done", "{job}");
    setup.drain();
    let found = holders(&mut setup.store.server.client(), USER);
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(setup.note(NOTE)["like"], OTHERS);
    assert_eq!(setup.who("like", "note", NOTE).len() as u64, OTHERS);
    assert_eq!(setup.user("8")[3], OTHERS);
    assert_invariants(&setup.store.server, CONFIG);
}
