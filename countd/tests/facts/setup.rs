//! The configuration, countd and the requests of the tests of fact stores.

use crate::support::{Api, Countd, Settings, printed, run};
use countint_tests::Server;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// The kinds of fact stores. Each is also the name of a metric.
pub const STORES: [&str; 4] = ["rbm", "bitmap", "daily", "sharded"];

pub const PARTITIONS: u16 = 16;

/// Past days are compacted every second.
pub const CONFIG: &str = r#"
[log]
partitions = 16
retain = 1000000
retain_bytes = 1000000000
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

pub fn start(server: &Server) -> Countd {
    let words = "schema set f1 rbm bitmap daily sharded join";
    printed(&run(server, CONFIG, &words.split(' ').collect::<Vec<_>>()));
    let (command, config) = ("all", CONFIG);
    Countd::with(server, &Settings { command, config })
}

/// An action of a user on a note.
pub fn on(eid: u64, uid: impl Into<Json>) -> Json {
    json!({ "etype": "note", "eid": eid, "uid": uid.into() })
}

pub fn count(api: &Api, store: &str, eid: u64) -> u64 {
    api.counts(eid)[store].as_u64().expect("a count")
}

pub fn has_fact(api: &Api, store: &str, eid: u64, uid: &str) -> bool {
    let path = format!("/status/note/{eid}?uid={uid}&metrics={store}");
    api.ok(api.get(&path))["status"][store] == true
}

/// The users of all pages, in order.
pub fn users_of(api: &Api, store: &str, eid: u64, limit: usize) -> Vec<String> {
    let (mut users, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.ok(api.get(&format!("/who/{store}/note/{eid}?limit={limit}{cursor}")));
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

pub fn unique(users: Vec<String>) -> BTreeSet<String> {
    let count = users.len();
    let set: BTreeSet<String> = users.into_iter().collect();
    assert_eq!(set.len(), count, "no user is on two pages");
    set
}
