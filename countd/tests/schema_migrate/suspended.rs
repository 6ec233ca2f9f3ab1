//! A process that is suspended before a stage begins, and goes on afterwards with the schemas that it knew.

use super::setup::{CONFIG, PARTITIONS, counts, migrate, numbers, set_schemas};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, Settings, on_note, printed, run, wait_until_drained, with};
use countint_tests::wait_until;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

const NOTE: u64 = 7;

for_each_store!([module objects cluster] counts_are_exact_when_a_process_sleeps_through_stages);

/// Adds likes and reposts of the note. Likes change the counter at once.
#[derive(Default)]
struct Writer {
    sent: AtomicU64,
    confirmed: AtomicU64,
    reposts: AtomicU64,
    stop: AtomicBool,
}

impl Writer {
    /// Each writer has users of its own.
    fn run(&self, api: &Api, first_user: u64) {
        let mut user = first_user;
        while !self.stop.load(SeqCst) {
            user += 1;
            let key = json!({ "idempotencyKey": format!("repost-{user}") });
            for (metric, action) in [
                ("like", on_note(NOTE, user)),
                ("repost", with(on_note(NOTE, user), key)),
            ] {
                let is_like = metric == "like";
                self.sent.fetch_add(u64::from(is_like), SeqCst);
                let (status, body) = api.post(&format!("/action/{metric}"), &action);
                match (status, is_like) {
                    (200, true) => self.confirmed.fetch_add(1, SeqCst),
                    (200, false) => self.reposts.fetch_add(1, SeqCst),
                    // The new schema has no reposts.
                    (422, false) => 0,
                    _ => panic!("{metric}: {status} {body}"),
                };
            }
        }
    }

    /// Reads the number of likes: at least those that were confirmed before, and at most those that were sent.
    fn check(&self, api: &Api) {
        while !self.stop.load(SeqCst) {
            let confirmed = self.confirmed.load(SeqCst);
            let json = api.ok(api.get(&format!("/counter/note/{NOTE}?metrics=like")));
            let sent = self.sent.load(SeqCst);
            let found = numbers(&json["counts"]);
            assert!(
                (confirmed..=sent).contains(&found["like"]),
                "{confirmed} {found:?} {sent}"
            );
            let all = counts(api, NOTE);
            let likes = all.get("like").or(all.get("liked")).copied();
            let sent = self.sent.load(SeqCst);
            assert!(
                likes.is_some_and(|likes| (confirmed..=sent).contains(&likes)),
                "{all:?}"
            );
        }
    }
}

struct Stop<'w>(&'w Writer);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, SeqCst);
    }
}

fn counts_are_exact_when_a_process_sleeps_through_stages(store: TestStore) {
    let server = &store.server;
    set_schemas(server);
    // Counters of hot entities may be as old as their cache permits.
    let config = format!("{}[hot]\nenabled = false\n", *CONFIG);
    let settings = Settings {
        command: "all",
        config: &config,
    };
    let processes = [0, 1].map(|_| Countd::with(server, &settings));
    let apis = [processes[0].api(), processes[1].api()];
    let sleeper = &processes[0];
    let writer = Writer::default();
    thread::scope(|scope| {
        let _stop = Stop(&writer);
        for (number, api) in apis.iter().enumerate() {
            let writer = &writer;
            scope.spawn(move || writer.run(api, 1_000_000 * (1 + number as u64)));
        }
        scope.spawn(|| writer.check(&apis[1]));
        let wait_for_more = || {
            let (before, more) = (writer.confirmed.load(SeqCst), 20);
            wait_until("likes", || writer.confirmed.load(SeqCst) > before + more);
        };
        // It sleeps through the stages of each list, and acts before it has learnt of them.
        for stages in [
            &[&[][..], &["--percent", "100"], &["--done"]][..],
            &[&["--rollback"]],
            &[&["--percent", "50"]],
            &[&["--percent", "100"], &["--done"], &["--rollback"]],
            &[&["--percent", "100"], &["--done"]],
        ] {
            wait_for_more();
            sleeper.suspend();
            for options in stages {
                migrate(server, options);
                wait_for_more();
            }
            sleeper.resume();
            wait_for_more();
        }
    });
    wait_until_drained(server, PARTITIONS);
    let (likes, reposts) = (writer.confirmed.load(SeqCst), writer.reposts.load(SeqCst));
    assert_eq!(writer.sent.load(SeqCst), likes);
    assert_eq!(counts(&apis[0], NOTE)["liked"], likes);
    migrate(server, &["--rollback"]);
    for api in &apis {
        let found = counts(api, NOTE);
        assert_eq!((found["like"], found["repost"]), (likes, reposts));
    }
    assert!(reposts > 0);
    assert_eq!(printed(&run(server, &config, &["dead", "list"])), "");
    assert_invariants(server, &config);
}
