//! The credit follows the counter, whatever changes it.

use super::{CONFIG, PARTITIONS, Setup};
use crate::support::kafka::Log;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{on_note, with};
use countint_tests::reply;
use serde_json::json;

for_each_store! {
    [module objects plain cluster cluster_objects]
    a_reset_takes_the_credit_back
    a_removed_counter_takes_the_credit_back
}

fn a_reset_takes_the_credit_back(store: TestStore) {
    assert_reset_takes_the_credit_back(&Setup::new(store, Log::streams(&rated("now"))));
}

/// With a configuration of which reads feed authors.
pub fn assert_reset_takes_the_credit_back(setup: &Setup) {
    let read = |author: Option<u64>| {
        setup
            .api
            .act("read", with(on_note(1, 42), json!({ "author": author })))
    };
    read(None);
    read(Some(7));
    read(None);
    assert_eq!(setup.likes([7]), [3]);
    let reset = json!({ "etype": "note", "eid": 1, "metric": "read" });
    assert_eq!(
        setup.api.ok(setup.api.post("/counter/reset", &reset))["was"],
        3
    );
    assert_eq!(setup.likes([7]), [0]);
    read(None);
    assert_eq!(setup.likes([7]), [1]);
}

/// The credit follows the counter, whatever changes it.
fn a_removed_counter_takes_the_credit_back(store: TestStore) {
    assert_removed_counter_takes_the_credit_back(&Setup::new(
        store,
        Log::streams(&rated("batched")),
    ));
}

/// With a configuration of which reads feed authors.
pub fn assert_removed_counter_takes_the_credit_back(setup: &Setup) {
    for _ in 0..5 {
        setup
            .api
            .act("read", with(on_note(1, 42), json!({ "author": 7 })));
    }
    assert_eq!(setup.likes([7]), [5]);
    let mut client = setup.store.server.client();
    let key = match setup.store.has_tables {
        true => setup.store.key("tab:v1:note", "", "note:1"),
        false => setup.store.key("cnt:v1:note:", "1", "note:1"),
    };
    let p = TestStore::partition("note:1", PARTITIONS);
    let key = match setup.store.has_tables {
        true if key.ends_with('}') => key,
        true => format!("tab:v1:note:{p}"),
        false => key,
    };
    assert_eq!(reply::int(client.call(&["DEL", &key])), 1);
    for _ in 0..2 {
        setup.api.act("read", on_note(1, 42));
    }
    assert_eq!(setup.likes([7]), [2]);
}

/// A repeatable metric that feeds authors, counted at once or batched.
pub fn rated(count: &str) -> String {
    format!(
        "{CONFIG}[metrics.read]\nnature = \"repeatable\"\ncount = \"{count}\"\nusers = [{{ counter = \"likesReceived\", of = \"author\" }}]\n"
    )
}
