//! Processes that are suspended while the first entity of all is split, and while an entity is merged.

use super::{CONFIG, hot, merge, repeated, split};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, Settings, on_note, set_schema, wait_until_drained};
use countint_tests::{Server, reply, wait_until};
use std::ops::Range;
use std::thread::{self, sleep};
use std::time::Duration;

for_each_store! {
    [module cluster]
    a_process_that_was_suspended_during_the_first_split_answers_with_the_shards
    a_process_that_was_suspended_during_a_merge_counts_at_the_base
    a_process_that_was_suspended_until_fences_expired_counts_at_the_base
}

/// The processes `all` and `serve`. The second one is suspended.
fn processes(server: &Server) -> [Countd; 2] {
    set_schema(server, CONFIG);
    ["all", "serve"].map(|command| {
        let config = CONFIG;
        Countd::with(server, &Settings { command, config })
    })
}

fn a_process_that_was_suspended_during_the_first_split_answers_with_the_shards(store: TestStore) {
    let server = &store.server;
    let processes = processes(server);
    let [other, suspended] = [processes[0].api(), processes[1].api()];
    other.ok(other.post("/action/like", &on_note(7, 1)));
    wait_until("the like is counted", || suspended.counts(7)["like"] == 1);
    processes[1].suspend();
    let arguments = ["split", "note:7", "--shards", "4", "--grace", "31"];
    hot(server, CONFIG, &arguments);
    for uid in 2..=40 {
        other.ok(other.post("/action/like", &on_note(7, uid)));
    }
    wait_until_drained(server, 16);
    resume(server, &processes[1]);
    // It refuses until it has read the layout.
    let mut refused = 0;
    let count = loop {
        let (status, body) = suspended.try_get("/counter/note/7").expect("a response");
        match status {
            503 => refused += 1,
            _ => break body,
        }
        sleep(Duration::from_millis(5));
    };
    assert!(
        count.contains(r#""like":40"#),
        "{count} after {refused} refusals"
    );
}

/// The keys with facts of note 7, except for Strings.
fn facts(server: &Server) -> Vec<String> {
    let mut client = server.client();
    let keys = reply::array(client.ok("KEYS rbm:like:note:7*"));
    let mut keys: Vec<String> = keys.into_iter().map(reply::text).collect();
    keys.retain(|key| client.run(&format!("TYPE {key}")) != "string");
    keys
}

/// Likes of users who did not like the note, and of users who take theirs back, at once. `resume` is called when the requests have been sent.
fn like_and_unlike(api: &Api, (likes, unlikes): (Range<u64>, Range<u64>), resume: impl FnOnce()) {
    let all = likes.map(|uid| ("like", uid));
    let all: Vec<(&str, u64)> = all.chain(unlikes.map(|uid| ("unlike", uid))).collect();
    thread::scope(|scope| {
        for (action, uid) in all {
            scope.spawn(move || {
                let path = format!("/action/{action}");
                let (outcome, attempts) =
                    repeated(|| api.try_post(&path, &on_note(7, uid).to_string()));
                // An attempt that was refused may have been executed.
                assert!(
                    attempts > 1 || outcome["changed"] == true,
                    "{uid}: {outcome}"
                );
            });
        }
        // A process that is suspended has them when it goes on.
        sleep(Duration::from_secs(1));
        resume();
    });
}

/// Resumes a process. Its first attempt to read the layout fails, unless a request opens the connection again before.
fn resume(server: &Server, process: &Countd) {
    server.client().ok("CLIENT KILL TYPE normal SKIPME yes");
    process.resume();
}

/// An entity with facts at the base and at shards is merged while the second process is suspended. It goes on after `meanwhile`, with
/// likes and with likes that are taken back.
fn assert_counts_at_the_base(store: &TestStore, meanwhile: impl FnOnce(&Server)) {
    let server = &store.server;
    let processes = processes(server);
    let [other, suspended] = [processes[0].api(), processes[1].api()];
    like_and_unlike(&suspended, (1..11, 0..0), || {});
    split(server, CONFIG);
    like_and_unlike(&suspended, (11..41, 0..0), || {});
    processes[1].suspend();
    merge(server, CONFIG);
    meanwhile(server);
    like_and_unlike(&suspended, (41..81, 5..20), || {
        resume(server, &processes[1]);
    });
    let base = store.key("rbm:like:", "note:7", "note:7");
    assert_eq!(facts(server), [base]);
    for api in [&other, &suspended] {
        assert_eq!(api.counts(7)["like"], 65);
    }
    assert_invariants(server, CONFIG);
}

/// The fences at the shards refuse what it sends at first, or it refuses to send it.
fn a_process_that_was_suspended_during_a_merge_counts_at_the_base(store: TestStore) {
    assert_counts_at_the_base(&store, |_| {});
}

/// Fences expire after a day. A process that was suspended for as long is not stopped by them.
fn a_process_that_was_suspended_until_fences_expired_counts_at_the_base(store: TestStore) {
    assert_counts_at_the_base(&store, |server| {
        let mut client = server.client();
        let expiring = reply::array(client.ok("KEYS *:note:7~*"));
        assert!(!expiring.is_empty());
        for key in expiring.into_iter().map(reply::text) {
            assert_ne!(client.run(&format!("TTL {key}")), "(integer) -1", "{key}");
            client.ok(&format!("DEL {key}"));
        }
        // Longer than a process uses a layout that it could not compare.
        sleep(Duration::from_secs(31));
    });
}
