//! Announcements of changes that no event has caused: adjustments, resets, erasures, corrections and rebuilds.

use super::{PARTITIONS, follow};
use crate::reconcile::setup::forge;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, EventStream, on_note, run, wait_until_drained, with};
use crate::user_truth::forge as forge_user;
use countint_tests::env::deadline;
use serde_json::json;
use std::time::Duration;

for_each_store! {
    [module objects plain cluster]
    changes_without_events_are_announced
}

/// Rounds do not correct anything by themselves.
const CONFIG: &str = r#"
[log]
partitions = 16
[changes]
enabled = true
[consumer]
linger_ms = 5
session_timeout_ms = 500
[reconcile]
enabled = false
min_difference = 0
min_percent = 0.0
[users]
counters = ["unread"]
[metrics.read]
nature = "repeatable"
count = "batched"
[metrics.like]
nature = "once"
count = "now"
users = [{ counter = "likesReceived", of = "author" }]
[metrics.fav]
nature = "once"
count = "batched"
[metrics.follow]
nature = "once"
count = "never"
reverse = true
entities = ["user"]
users = [{ counter = "followings", of = "actor" }, { counter = "followers", of = "target" }]
[metrics.notify]
nature = "repeatable"
count = "never"
entities = ["user"]
users = [{ counter = "unread", of = "target" }]
"#;

/// What follows the changes, and what it has missed.
struct Observer<'a> {
    store: &'a TestStore,
    api: Api,
    stream: EventStream,
    missing: Vec<&'static str>,
}

impl Observer<'_> {
    /// Makes a change, and notes it if it is not announced. Earlier changes may be announced more than once, so they pass first.
    #[track_caller]
    fn expect(&mut self, what: &'static str, entity: &str, change: impl FnOnce(&Api)) {
        wait_until_drained(&self.store.server, PARTITIONS);
        while self.stream.next_within(Duration::from_millis(600)).is_ok() {}
        self.stream.forget();
        change(&self.api);
        while !self.stream.seen.contains(entity) {
            if self.stream.next_within(deadline(20)).is_err() {
                self.missing.push(what);
                return;
            }
        }
    }

    /// Corrects a forged counter by `countd reconcile`.
    #[track_caller]
    fn expect_correction(
        &mut self,
        what: &'static str,
        arguments: &[&str],
        forge: impl FnOnce(&TestStore),
    ) {
        let entity = match arguments {
            ["--user", uid] => format!("user:{uid}"),
            [.., etype, eid] => format!("{etype}:{eid}"),
            _ => unreachable!("a user or an entity"),
        };
        let store = self.store;
        self.expect(what, &entity, |_| {
            forge(store);
            let arguments = [&["reconcile"], arguments].concat();
            let output = run(&store.server, CONFIG, &arguments);
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{what}: {errors}");
        });
    }
}

fn changes_without_events_are_announced(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for (metric, note) in [("read", 3), ("like", 1), ("fav", 2)] {
        let action = with(on_note(note, 42), json!({ "author": 7 }));
        api.act(metric, action);
    }
    api.act("follow", json!({ "eid": 8, "uid": 42 }));
    api.act("notify", json!({ "eid": 9, "uid": 42 }));
    let mut observer = Observer {
        stream: follow(&countd, ""),
        api: countd.api(),
        store: &store,
        missing: Vec::new(),
    };
    observer.expect("an adjustment", "note:3", |api| {
        let adjustment =
            json!({ "etype": "note", "eid": 3, "metric": "read", "add": 5, "reason": "r" });
        assert_eq!(api.ok(api.post("/counter/adjust", &adjustment))["after"], 6);
    });
    observer.expect("a reset of a user's counter", "user:9", |api| {
        let reset = json!({ "uid": 9, "counter": "unread" });
        let was = api.ok(api.post("/relation/counter/reset", &reset));
        assert_eq!(was, json!({ "was": 1 }));
    });
    // It has no facts, whose removal would be announced, too.
    observer.expect("an erased entity", "note:3", |api| {
        assert_eq!(api.delete("/entity/note/3").0, 202);
    });
    observer.expect_correction("a counter", &["--entity", "note", "1"], |store| {
        forge(store, "note:1", 1, 4);
    });
    observer.expect_correction("a batched counter", &["--entity", "note", "2"], |store| {
        forge(store, "note:2", 2, 4);
    });
    observer.expect_correction("followings", &["--user", "42"], |store| {
        forge_user(store, "42", 0, 10);
    });
    observer.expect_correction("followers", &["--user", "8"], |store| {
        forge_user(store, "8", 1, 10);
    });
    observer.expect_correction("received counters", &["--user", "7"], |store| {
        forge_user(store, "7", 3, 10);
    });
    observer.expect("a rebuild", "note:1", |api| {
        lose(&store, 1);
        assert_eq!(api.counts(1)["like"], 1);
    });
    assert_eq!(observer.missing, [""; 0]);
    assert!(!observer.stream.is_reset);
}

/// Deletes the counters of a note.
fn lose(store: &TestStore, eid: u64) {
    let key = store.counters("v1", &format!("note:{eid}"), PARTITIONS);
    let mut client = store.server.client();
    match store.has_tables {
        true => client.ok(&format!("CTAB.DEL {key} {eid}")),
        false => client.ok(&format!("DEL {key}")),
    };
}
