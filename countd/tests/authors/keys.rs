//! The keys of authors on a single server: what an action sends, damaged keys, and data of an older version.

use super::{CONFIG, PARTITIONS};
use crate::support::stores::TestStore;
use crate::support::{Countd, dead_reasons, on_note, printed, run, wait_until_drained, with};
use countint_tests::Server;
use serde_json::json;

/// An action that names an author is one script.
#[test]
fn an_action_that_names_an_author_is_one_round_trip() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    let named = |note| with(on_note(note, 42), json!({ "author": 7 }));
    api.act("like", named(1));
    wait_until_drained(&server, PARTITIONS);
    let mut client = server.client();
    let mut sent = |note| {
        client.ok("CONFIG RESETSTAT");
        api.act("like", named(note));
        let stats = client.info("commandstats");
        let calls = |command: &str| {
            let stats = stats.get(&format!("cmdstat_{command}"));
            let calls = stats.and_then(|stats| {
                stats
                    .strip_prefix("calls=")?
                    .split(',')
                    .next()?
                    .parse()
                    .ok()
            });
            calls.unwrap_or(0_u64)
        };
        (calls("rbm.mark"), calls("ctab.set"))
    };
    assert_eq!(sent(2), (1, 1));
    // The process remembers the author of note 2.
    assert_eq!(sent(2).0, 1);
}

#[test]
fn data_of_an_older_version_takes_authors_from_events() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("HSET countd:layout partitions 16");
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    for author in [7, 8] {
        api.act(
            "like",
            with(on_note(1, author), json!({ "author": author })),
        );
    }
    api.act("unlike", on_note(1, 7));
    wait_until_drained(&server, PARTITIONS);
    assert_eq!(
        (&api.user(7)["likesReceived"], &api.user(8)["likesReceived"]),
        (&json!(1), &json!(1))
    );
    let (status, problem) = api.put("/entity/note/1", &json!({ "author": 7 }));
    assert_eq!(status, 422, "{problem}");
    assert_eq!(api.get("/entity/note/1").0, 422);
    let authors = client.run("KEYS aut*");
    assert!(authors.contains("empty"), "{authors}");
}

/// The credit of an author whose counters hold another type counts when the consumer has rebuilt them.
#[test]
fn a_credit_of_damaged_counters_is_counted() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    let users = format!("utab:{}", TestStore::partition("7", PARTITIONS));
    let mut client = server.client();
    client.call(&["SET", &users, "x"]);
    for uid in 1..=3 {
        api.act("like", with(on_note(1, uid), json!({ "author": 7 })));
    }
    wait_until_drained(&server, PARTITIONS);
    assert_eq!(dead_reasons(&server, CONFIG), [""; 0]);
    assert_eq!(api.user(7)["likesReceived"], 3);
    assert_eq!(api.counts(1)["like"], 3);
    drop(countd);
}

/// Keys of authors that hold another type: the events of their entities become dead letters, which are counted when they are retried.
#[test]
fn events_whose_author_cannot_be_read_become_dead_letters() {
    let partition = TestStore::partition("note:1", PARTITIONS);
    for (key, author) in [
        (format!("aut:note:{partition}"), "7"),
        (format!("auth:note:{partition}"), "a-7"),
    ] {
        let server = Server::start();
        let countd = Countd::start(&server, CONFIG);
        let api = countd.api();
        api.act("like", with(on_note(1, 1), json!({ "author": author })));
        wait_until_drained(&server, PARTITIONS);
        let mut client = server.client();
        client.ok(&format!("EVAL \"if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], 'kept') end redis.call('SET', KEYS[1], 'x')\" 1 {key}"));
        api.act("like", on_note(1, 2));
        api.act("read", on_note(1, 2));
        // An action that names an author needs the key.
        let (status, _) = api.post("/action/like", &with(on_note(1, 3), json!({ "author": 8 })));
        assert_eq!(status, 500, "{key}");
        wait_until_drained(&server, PARTITIONS);
        let reasons = dead_reasons(&server, CONFIG);
        assert_eq!(reasons, [format!("{key} holds another type")]);
        assert_eq!(api.counts(1)["read"], 1);
        client.ok(&format!("EVAL \"redis.call('DEL', KEYS[1]) if redis.call('EXISTS', 'kept') == 1 then redis.call('RENAME', 'kept', KEYS[1]) end\" 1 {key}"));
        printed(&run(&server, CONFIG, &["dead", "retry", "--all"]));
        wait_until_drained(&server, PARTITIONS);
        let counters = api.ok(api.get(&format!("/relation/counter?uid={author}")));
        assert_eq!(counters["counts"]["likesReceived"], 2, "{key}");
    }
}
