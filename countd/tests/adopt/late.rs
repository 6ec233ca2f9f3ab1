//! Calls that reach the server after steps of an adoption that their process does not know yet: it was suspended, or the network was slow.

use super::setup::{CONFIG, PARTITIONS, adopt, advance, assert_adopted, refused_calls};
use crate::migrate::setup::wait_for_epoch;
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, adoptable};
use crate::support::{
    Api, Countd, Link, Settings, on_note, pause, printed, run, set_schema, wait_until_drained, with,
};
use countint_tests::reply;
use serde_json::{Value as Json, json};
use std::ffi::OsString;
use std::thread;

/// A note that gets its first counts from late calls, and one that has counts before. Both have the text at which calls are held.
const NEW: u64 = 4_711_001;
const OLD: u64 = 4_711_002;
const HELD: &str = "4711";

/// The layout when a process decides what to send, and the one when it arrives.
struct Steps {
    sent: &'static str,
    arrives: &'static str,
    /// Whether scripts of the former cannot be used in the latter.
    is_over: bool,
}

const fn steps(sent: &'static str, arrives: &'static str, is_over: bool) -> Steps {
    Steps {
        sent,
        arrives,
        is_over,
    }
}

const ALL: [Steps; 5] = [
    steps("plain", "plain-or-module", false),
    steps("plain", "module-or-plain", true),
    steps("plain", "module", true),
    steps("plain-or-module", "module-or-plain", false),
    steps("plain-or-module", "module", true),
];

/// Data that was created without the module, and a process that reaches it over a link.
struct Setup {
    store: TestStore,
    link: Link,
    /// Sends calls that arrive late.
    late: Countd,
    other: Countd,
}

impl Setup {
    /// The late process runs one command, another one the other command.
    fn new(late: &'static str, other: &'static str, steps: &Steps) -> Setup {
        let mut store = adoptable();
        set_schema(&store.server, &CONFIG);
        let link = Link::to(&store.server);
        let settings = |command| Settings {
            command,
            config: &CONFIG,
        };
        let url = format!("redis://127.0.0.1:{}/", link.port());
        let url: Vec<(OsString, OsString)> = vec![("COUNTD_REDIS__URL".into(), url.into())];
        let late = Countd::with_environment(&store.server, &settings(late), url);
        let other = Countd::with(&store.server, &settings(other));
        let api = other.api();
        for user in [1, 2] {
            api.act("like", on_note(OLD, user));
            api.act("read", on_note(OLD, user));
            api.act("comment", on_note(OLD, user));
        }
        wait_until_drained(&store.server, PARTITIONS);
        store.server.load_module();
        if steps.sent != "plain" {
            advance(&store.server, &CONFIG, steps.sent);
            let mut client = store.server.client();
            let epoch = reply::text(client.ok("HGET countd:layout epoch"));
            wait_for_epoch(&mut client, epoch.parse().expect("a number"));
        }
        Setup {
            store,
            link,
            late,
            other,
        }
    }

    /// Lets the adoption go on while calls are held, delivers them, and asserts that the server refused a call if it had to.
    fn deliver_late(&self, steps: &Steps) {
        self.link.wait_until_held();
        match steps.arrives {
            "module" => drop(adopt(&self.store.server, &CONFIG)),
            step => advance(&self.store.server, &CONFIG, step),
        }
        assert_eq!(refused_calls(&self.store.server), 0);
        self.link.release();
    }

    /// Ends the adoption, and asserts that both notes have their counts, of each once.
    fn assert_counted(&self, steps: &Steps, [new, old]: [Json; 2]) {
        let server = &self.store.server;
        wait_until_drained(server, PARTITIONS);
        assert_eq!(refused_calls(server) > 0, steps.is_over);
        // No late call has written what the adoption has to convert once more.
        if steps.arrives == "module" {
            assert_adopted(server, &CONFIG);
        }
        adopt(server, &CONFIG);
        for (note, expected) in [(NEW, new), (OLD, old)] {
            assert_eq!(self.other_api().counts(note), expected, "{note}");
        }
        assert_invariants(server, &CONFIG);
        assert_adopted(server, &CONFIG);
        assert_eq!(printed(&run(server, &CONFIG, &["dead", "list"])), "");
    }

    /// The API of the process that serves.
    fn other_api(&self) -> Api {
        self.other.api()
    }
}

/// Sends a request until it succeeds. A refused one has changed nothing: it is sent again without an idempotency key.
fn send(api: &Api, path: &str, body: &Json) {
    for _ in 0..3_000 {
        let (status, reply) = api.post(path, body);
        match status {
            200 => return,
            503 => pause(),
            _ => panic!("{path} {body}: {status} {reply}"),
        }
    }
    panic!("{path} {body}: retries exhausted");
}

#[test]
fn late_actions_count_once() {
    for steps in &ALL {
        let setup = Setup::new("serve", "all", steps);
        let api = setup.late.api();
        let adjusted = json!({ "etype": "note", "eid": OLD.to_string(), "metric": "repost", "add": 5, "reason": "a test" });
        let requests = [
            ("/action/like", on_note(NEW, 9)),
            ("/action/comment", on_note(NEW, 9)),
            ("/action/like", on_note(OLD, 9)),
            (
                "/action/like",
                with(on_note(OLD, 1), json!({ "op": "remove" })),
            ),
            ("/action/comment", on_note(OLD, 9)),
            ("/counter/adjust", adjusted),
        ];
        setup.link.hold_at(HELD);
        thread::scope(|scope| {
            for (path, body) in &requests {
                scope.spawn(|| send(&api, path, body));
            }
            setup.deliver_late(steps);
        });
        let new = json!({ "read": 0, "like": 1, "fav": 0, "comment": 1, "repost": 0 });
        let old = json!({ "read": 2, "like": 2, "fav": 0, "comment": 3, "repost": 5 });
        setup.assert_counted(steps, [new, old]);
    }
}

#[test]
fn late_commits_count_once() {
    for steps in &ALL {
        let setup = Setup::new("consume", "serve", steps);
        // The commit has the keys of counters, which no other call of the consumer has.
        setup.link.hold_at(&format!("cnt:v1:note:{HELD}"));
        let api = setup.other_api();
        for note in [NEW, OLD] {
            api.act("read", on_note(note, 9));
            api.act("like", on_note(note, 9));
        }
        setup.deliver_late(steps);
        let new = json!({ "read": 1, "like": 1, "fav": 0, "comment": 0, "repost": 0 });
        let old = json!({ "read": 3, "like": 3, "fav": 0, "comment": 2, "repost": 0 });
        setup.assert_counted(steps, [new, old]);
    }
}
