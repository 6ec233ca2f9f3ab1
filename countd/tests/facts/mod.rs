//! The ways of keeping facts: whatever is done, all of them give the same answers.

mod changes;
mod compaction;
mod concurrency;
mod ids;

use crate::support::stores::{TestStore, for_each_store, wait_until_compacted};
use crate::support::{Api, Countd, Settings, printed, run};
use changes::{
    a_key_of_another_type_changes_nothing, counters_begin_again,
    the_same_answers_to_whatever_is_done,
};
use compaction::nobody_does_it_twice_when_days_pass;
use concurrency::facts_counts_and_events_agree_when_many_do_it_at_once;
use countint_tests::{Server, reply};
use ids::{ids_that_do_not_fit_are_refused, many_users_come_page_by_page};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// The ways, each of which is the name of a metric here.
const WAYS: [&str; 4] = ["rbm", "bitmap", "daily", "sharded"];

const PARTITIONS: u16 = 16;

/// A day is folded when it is over, at once.
const CONFIG: &str = r#"
[log]
partitions = 16
retain = 1000000
[consumer]
linger_ms = 5
[facts]
shards = 3
days = 1
compaction_interval_seconds = 1
[limits]
user = { per_second = 0 }
[entities]
note = "f1"
[metrics.rbm]
nature = "once"
count = "now"
users = [{ counter = "likesReceived", of = "author" }]
[metrics.bitmap]
nature = "once"
count = "now"
facts = "bitmap"
users = [{ counter = "likesReceived", of = "author" }]
[metrics.daily]
nature = "once"
count = "now"
facts = "daily"
users = [{ counter = "likesReceived", of = "author" }]
[metrics.sharded]
nature = "once"
count = "now"
facts = "sharded"
users = [{ counter = "likesReceived", of = "author" }]
[metrics.join]
nature = "once"
count = "batched"
facts = "daily"
"#;

fn start(server: &Server) -> Countd {
    let words = "schema set f1 rbm bitmap daily sharded join";
    printed(&run(server, CONFIG, &words.split(' ').collect::<Vec<_>>()));
    let (command, config) = ("all", CONFIG);
    Countd::with(server, &Settings { command, config })
}

/// An action on a note by a user with any id.
fn on(eid: u64, uid: impl Into<Json>) -> Json {
    json!({ "etype": "note", "eid": eid, "uid": uid.into() })
}

fn count(api: &Api, way: &str, eid: u64) -> u64 {
    api.counts(eid)[way].as_u64().expect("a count")
}

fn is_there(api: &Api, way: &str, eid: u64, uid: &str) -> bool {
    let path = format!("/status/note/{eid}?uid={uid}&metrics={way}");
    api.ok(api.get(&path))["status"][way] == true
}

/// Everybody who did it, page by page, in the order of the pages.
fn who(api: &Api, way: &str, eid: u64, limit: usize) -> Vec<String> {
    let (mut users, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.ok(api.get(&format!("/who/{way}/note/{eid}?limit={limit}{cursor}")));
        let found = page["users"].as_array().expect("users");
        assert!(found.len() <= limit, "{page}");
        users.extend(
            found
                .iter()
                .map(|user| user.as_str().expect("an id").to_owned()),
        );
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return users,
        }
    }
}

fn set(users: Vec<String>) -> BTreeSet<String> {
    let count = users.len();
    let set: BTreeSet<String> = users.into_iter().collect();
    assert_eq!(set.len(), count, "nobody is on two pages");
    set
}

for_each_store! {
    [module plain cluster]
    the_same_answers_to_whatever_is_done
    many_users_come_page_by_page
    nobody_does_it_twice_when_days_pass
    ids_that_do_not_fit_are_refused
    facts_counts_and_events_agree_when_many_do_it_at_once
}

/// What names keys, as they are on one server.
mod keys {
    use super::*;

    for_each_store! {
        [module plain]
        a_key_of_another_type_changes_nothing
        counters_begin_again
    }
}
