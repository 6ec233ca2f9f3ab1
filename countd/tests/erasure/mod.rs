//! Erasing entities and users: nothing of them is left, and everything else is as if they had never been.

mod entities;
mod everything;
mod groups;
mod jobs;
pub mod kills;
mod late;
mod nodes;
mod rebuilds;
mod rebuilds_of_users;
mod reconciled;
pub(crate) mod search;
mod timelines;
mod traffic;
mod users;

use crate::support::kafka::Log;
use crate::support::stores::TestStore;
use crate::support::{Api, Countd, pause, with};
use countd::domain::config::DEFAULTS;
use countint_tests::env::deadline;
use serde_json::{Value as Json, json};
use std::time::Instant;

const PARTITIONS: u16 = 16;
/// The configuration.
pub const CONFIG: &str = "[log]\npartitions = 16\nretain = 1000\nretain_bytes = 1000000\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 500\n\
    [limits]\nuser = { per_second = 100000, burst = 1000000 }\n[facts]\ncompaction_interval_seconds = 1\ndays = 1\nshards = 3\n";
/// The counters of users.
const USER_COUNTERS: [&str; 5] = [
    "followings",
    "followers",
    "posts",
    "likesReceived",
    "favsReceived",
];

/// The configuration with all once metrics in this fact store.
fn config_with(facts: &str) -> String {
    let (_, metrics) = DEFAULTS.split_once("[metrics.read]").expect("metrics");
    let metrics = metrics.replace(
        "nature = \"once\"\n",
        &format!("nature = \"once\"\nfacts = \"{facts}\"\n"),
    );
    format!("{CONFIG}[metrics.read]{metrics}")
}

/// A server, a countd, and its client.
struct Setup {
    store: TestStore,
    log: Log,
    countd: Countd,
    api: Api,
}

impl Setup {
    fn new(store: TestStore, config: &str) -> Setup {
        Setup::on(store, Log::streams(config))
    }

    fn on(store: TestStore, log: Log) -> Setup {
        let countd = Countd::start(&store.server, &log.config);
        Setup {
            store,
            log,
            api: countd.api(),
            countd,
        }
    }

    fn drain(&self) {
        self.log.drain(&self.store.server, PARTITIONS);
    }

    /// Starts a job. Returns its path.
    #[track_caller]
    fn delete(&self, path: &str) -> String {
        let response = self.api.request_text("DELETE", path, &[], "");
        assert_eq!(response.status, 202, "{}", response.json);
        let location = response.header("location").to_owned();
        let id = response.json["id"].as_str().expect("an ID");
        assert_eq!(location, format!("/api/v1/jobs/{id}"));
        location
    }

    /// Starts a job and waits until it has ended. Returns its last state.
    #[track_caller]
    fn erase(&self, path: &str) -> Json {
        let job = self.delete(path);
        wait_until_done(&self.api, &job)
    }

    fn who(&self, metric: &str, etype: &str, eid: &str) -> Vec<String> {
        let path = format!("/who/{metric}/{etype}/{eid}?limit=500");
        let response = self.api.ok(self.api.get(&path));
        let users = response["users"].as_array().expect("users").iter();
        let mut users: Vec<String> = users
            .map(|user| user.as_str().expect("an ID").to_owned())
            .collect();
        users.sort_unstable();
        users
    }

    fn user(&self, uid: &str) -> Json {
        let path = format!("/relation/counter?uid={uid}");
        let counts = self.api.ok(self.api.get(&path))["counts"].clone();
        USER_COUNTERS
            .iter()
            .map(|name| counts[*name].clone())
            .collect()
    }

    fn note(&self, eid: &str) -> Json {
        self.api.ok(self.api.get(&format!("/counter/note/{eid}")))["counts"].clone()
    }

    fn author(&self, eid: &str) -> Json {
        self.api.ok(self.api.get(&format!("/entity/note/{eid}")))["author"].clone()
    }
}

/// Waits until a job has ended. Returns its last state.
#[track_caller]
fn wait_until_done(api: &Api, job: &str) -> Json {
    let (mut last, limit) = (Json::Null, Instant::now() + deadline(120));
    while last["state"] != "done" {
        assert!(Instant::now() < limit, "the job does not end: {last}");
        if let Ok((200, text)) = api.try_get(job) {
            last = serde_json::from_str(&text).expect("JSON");
        }
        pause();
    }
    assert_eq!(last["damaged"], 0, "{last}");
    last
}

/// An action on a note with an ID of any form.
fn on(eid: &str, uid: &str) -> Json {
    json!({ "etype": "note", "eid": eid, "uid": uid })
}
