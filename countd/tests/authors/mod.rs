//! Authors of entities: registered once, and credited with exactly the counters of their entities.

pub mod actions;
mod keys;
mod memory;
pub mod resets;
pub mod transfers;

use crate::support::kafka::Log;
use crate::support::stores::TestStore;
use crate::support::{Api, Countd, on_note, with};
use serde_json::{Value as Json, json};

const PARTITIONS: u16 = 16;

/// The configuration.
pub const CONFIG: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n";

/// A server, a countd, and its client.
pub struct Setup {
    pub store: TestStore,
    pub log: Log,
    _countd: Countd,
    pub api: Api,
}

impl From<TestStore> for Setup {
    fn from(store: TestStore) -> Setup {
        Setup::new(store, Log::streams(CONFIG))
    }
}

impl Setup {
    /// With this log.
    pub fn new(store: TestStore, log: Log) -> Setup {
        let countd = Countd::start(&store.server, &log.config);
        let api = countd.api();
        Setup {
            store,
            log,
            _countd: countd,
            api,
        }
    }

    fn drain(&self) {
        self.log.drain(&self.store.server, PARTITIONS);
    }

    /// The likes that users received.
    pub fn likes<const N: usize>(&self, users: [u64; N]) -> [u64; N] {
        self.drain();
        users.map(|uid| {
            self.api.user(uid)["likesReceived"]
                .as_u64()
                .expect("a number")
        })
    }

    fn like(&self, note: u64, uid: u64, author: Option<u64>) {
        let mut action = on_note(note, uid);
        if let Some(author) = author {
            action = with(action, json!({ "author": author }));
        }
        self.api.act("like", action);
    }

    pub fn put(&self, note: u64, author: &Json) -> bool {
        let path = format!("/entity/note/{note}");
        let response = self
            .api
            .ok(self.api.put(&path, &json!({ "author": author })));
        response["changed"].as_bool().expect("a flag")
    }

    fn author(&self, note: &str) -> Json {
        self.api.ok(self.api.get(&format!("/entity/note/{note}")))["author"].clone()
    }
}

fn envelope(event_id: &str, note: u64, author: Option<u64>) -> Json {
    json!({
        "event_id": event_id, "event_type": "like", "aggregate_type": "note", "aggregate_id": note,
        "payload": { "delta": 1, "uid": 42, "author": author },
    })
}
