//! Authors of entities: registered once, and credited with exactly the counters of their entities.

mod actions;
mod keys;
mod memory;
mod resets;
mod transfers;

use crate::support::stores::TestStore;
use crate::support::{Api, Countd, on_note, wait_until_drained, with};
use serde_json::{Value as Json, json};

const PARTITIONS: u16 = 16;

const CONFIG: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n";

/// A server, a countd, and its client.
struct Setup {
    store: TestStore,
    _countd: Countd,
    api: Api,
}

impl Setup {
    fn new(store: TestStore) -> Setup {
        Setup::with_config(store, CONFIG)
    }

    fn with_config(store: TestStore, config: &str) -> Setup {
        let countd = Countd::start(&store.server, config);
        let api = countd.api();
        Setup {
            store,
            _countd: countd,
            api,
        }
    }

    fn drain(&self) {
        wait_until_drained(&self.store.server, PARTITIONS);
    }

    /// The likes that users received.
    fn likes<const N: usize>(&self, users: [u64; N]) -> [u64; N] {
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

    fn put(&self, note: u64, author: &Json) -> bool {
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
