//! What users did: their facts, newest first, and the latest users of an entity.

mod backfill;
mod changes;
pub mod kills;
mod memory;
mod timelines;

use crate::support::stores::TestStore;
use crate::support::{Api, Countd, wait_until_drained};
use serde_json::{Value as Json, json};

const PARTITIONS: u16 = 16;
const CONFIG: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n";
/// Metrics whose timelines have few times.
const FEW: &str = r#"
[log]
partitions = 16
[consumer]
linger_ms = 5
[metrics.like]
nature = "once"
count = "now"
reverse = true
order = "time"
latest = 3
[metrics.fav]
nature = "once"
count = "now"
facts = "sharded"
reverse = true
order = "time"
latest = 8
"#;

struct Setup {
    store: TestStore,
    config: &'static str,
    countd: Countd,
    api: Api,
}

impl Setup {
    fn new(store: TestStore, config: &'static str) -> Setup {
        let countd = Countd::start(&store.server, config);
        let api = countd.api();
        Setup {
            store,
            config,
            countd,
            api,
        }
    }

    fn drain(&self) {
        wait_until_drained(&self.store.server, PARTITIONS);
    }

    fn act(&self, metric: &str, eid: impl Into<Json>, uid: impl Into<Json>) {
        let (eid, uid): (Json, Json) = (eid.into(), uid.into());
        let etype = match metric.ends_with("follow") {
            true => "user",
            false => "note",
        };
        // Actions within a millisecond have no order.
        std::thread::sleep(std::time::Duration::from_millis(2));
        let action = json!({ "etype": etype, "eid": eid, "uid": uid });
        assert_eq!(self.api.act(metric, action)["changed"], true);
    }

    /// The ids of all pages, and how many have a time.
    fn timeline(&self, path: &str, limit: usize) -> (Vec<String>, usize) {
        self.drain();
        let (mut ids, mut times) = (Vec::new(), Vec::new());
        for item in pages(&self.api, path, "items", limit) {
            ids.push(item["eid"].as_str().expect("an ID").to_owned());
            times.extend(item["ts"].as_u64());
        }
        assert!(times.is_sorted_by(|one, other| one >= other), "{times:?}");
        (ids, times.len())
    }

    fn users(&self, path: &str, limit: usize) -> Vec<String> {
        self.drain();
        let users = pages(&self.api, path, "users", limit);
        let id = |user: Json| user.as_str().expect("an ID").to_owned();
        users.into_iter().map(id).collect()
    }
}

/// The items of all pages.
fn pages(api: &Api, path: &str, field: &str, limit: usize) -> Vec<Json> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    for _ in 0..1_000 {
        let page = api.ok(api.get(&format!("{path}?limit={limit}{cursor}")));
        let items = page[field].as_array().expect("a list");
        assert!(items.len() <= limit, "{page}");
        all.extend(items.iter().cloned());
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
    panic!("pages do not end");
}

/// Asserts that a user's timeline of a metric has the notes below `notes` that they have facts on, each once.
fn assert_lists_facts(api: &Api, uid: u64, metric: &str, notes: u64) {
    let path = format!("/user/{uid}/{metric}/note");
    let items = pages(api, &path, "items", 100);
    let mut listed: Vec<u64> = items
        .iter()
        .map(|item| {
            item["eid"]
                .as_str()
                .expect("an ID")
                .parse()
                .expect("a number")
        })
        .collect();
    listed.sort_unstable();
    let has = |note: &u64| {
        let status = api.get(&format!("/status/note/{note}?uid={uid}&metrics={metric}"));
        api.ok(status)["status"][metric] == true
    };
    let expected: Vec<u64> = (0..notes).filter(has).collect();
    assert_eq!(listed, expected, "{path}");
}
