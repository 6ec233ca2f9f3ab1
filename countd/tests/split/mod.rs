//! Split and merge of hot entities.

mod clients;
mod dead_letters;
mod entity;
mod erased_users;
mod lost_layout;
mod merged_facts;
pub(crate) mod model;
mod nodes;
mod refusals;
mod suspended;
mod threshold;

use crate::support::{Api, Countd, on_note, printed, run};
pub(crate) use clients::{act_while, repeated};
use countint_tests::env::deadline;
use countint_tests::{Server, wait_until};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::time::Instant;

/// Metrics without counts by day, few partitions, and quick consumers. Likes credit the author and are kept for users.
const CONFIG: &str = "[limits.user]\nper_second = 0\n[hot]\ncache_ms = 0\n[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n";

/// Runs `countd hot` and returns the report.
fn hot(server: &Server, config: &str, arguments: &[&str]) -> Json {
    let mut all = vec!["hot"];
    all.extend(arguments);
    all.push("--json");
    let begun = Instant::now();
    loop {
        let output = run(server, config, &all);
        // A consumer finishes what a command that was killed has begun.
        let errors = String::from_utf8_lossy(&output.stderr);
        if !errors.contains("another migration is running") || begun.elapsed() > deadline(300) {
            return serde_json::from_str(&printed(&output)).expect("a report");
        }
    }
}

/// Splits note 7.
pub(crate) const SPLIT: [&str; 7] = ["hot", "split", "note:7", "--shards", "4", "--grace", "0"];
/// Merges note 7.
const MERGE: [&str; 3] = ["hot", "merge", "note:7"];

/// Splits note 7.
pub(crate) fn split(server: &Server, config: &str) -> Json {
    hot(server, config, &SPLIT[1..])
}

/// Starts a process, and splits note 7 between the likes of two groups of users.
fn liked_and_split(
    server: &Server,
    at_base: impl IntoIterator<Item = u64>,
    at_shards: impl IntoIterator<Item = u64>,
) -> (Countd, Api) {
    let countd = Countd::start(server, CONFIG);
    let api = countd.api();
    api.ok(api.put("/entity/note/7", &json!({ "author": AUTHOR })));
    for user in at_base {
        api.act("like", on_note(7, user));
    }
    assert_eq!(split(server, CONFIG)["phase"], "split");
    for user in at_shards {
        api.act("like", on_note(7, user));
    }
    (countd, api)
}

/// Merges note 7.
pub(crate) fn merge(server: &Server, config: &str) -> Json {
    hot(server, config, &MERGE[1..])
}

/// The author of note 7.
const AUTHOR: u64 = 900_001;

/// Asserts what a process returns of note 7.
fn assert_likes(api: &Api, likes: &BTreeSet<u64>) {
    assert_eq!(api.counts(7)["like"], likes.len());
    assert_eq!(listed(api), *likes);
    for user in [1, 2, 41, 42, 81, 121] {
        let timeline = api.ok(api.get(&format!("/user/{user}/like/note")));
        let notes = timeline["items"].as_array().expect("items");
        let has = notes.iter().any(|note| note["eid"] == "7");
        assert_eq!(has, likes.contains(&user), "{user} {timeline}");
    }
    wait_until("the author is credited", || {
        api.user(AUTHOR)["likesReceived"] == likes.len()
    });
}

/// The users who like note 7, from all pages.
fn listed(api: &Api) -> BTreeSet<u64> {
    let mut listed = BTreeSet::new();
    let mut cursor = String::new();
    loop {
        let page = api.ok(api.get(&format!("/who/like/note/7?limit=50{cursor}")));
        for user in page["users"].as_array().expect("users") {
            let user = user.as_str().and_then(|user| user.parse().ok());
            listed.insert(user.expect("a user"));
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return listed,
        }
    }
}
