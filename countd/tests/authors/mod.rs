//! Authors of entities: registered once, and credited with exactly the counters of their entities.

mod keys;
mod memory;

use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, assert_refused, metric, on_note, wait_until_drained, with};
use countint_tests::reply;
use serde_json::{Value as Json, json};

const PARTITIONS: u16 = 16;
const CONFIG: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n";

for_each_store! {
    [module objects plain cluster cluster_objects]
    a_like_without_the_author_is_taken_back_from_the_author
    another_author_is_refused_and_changes_nothing
    a_new_author_is_credited_with_what_the_entity_has
    an_entity_moves_with_its_credit
    an_entity_without_an_author_any_more_gets_one_from_an_action_only
    envelopes_name_authors
    ids_of_every_form_have_authors
    a_repeated_action_registers_the_author
    actions_with_an_idempotency_key_register_the_author
    a_reset_takes_the_credit_back
    a_removed_counter_takes_the_credit_back
}

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

fn a_like_without_the_author_is_taken_back_from_the_author(store: TestStore) {
    let setup = Setup::new(store);
    setup.like(1, 42, Some(7));
    setup.api.act("unlike", on_note(1, 42));
    setup.like(1, 42, Some(7));
    assert_eq!(setup.likes([7]), [1]);
    assert_eq!(setup.api.counts(1)["like"], 1);
    setup.api.act("unlike", on_note(1, 42));
    assert_eq!(setup.likes([7]), [0]);
    // A client that never names the author.
    setup.like(1, 43, None);
    assert_eq!(setup.likes([7]), [1]);
}

fn another_author_is_refused_and_changes_nothing(store: TestStore) {
    let setup = Setup::new(store);
    let api = &setup.api;
    setup.like(1, 42, Some(7));
    let other = |uid| with(on_note(1, uid), json!({ "author": 8 }));
    for metric in ["like", "fav", "read", "comment"] {
        assert_refused(
            api,
            &format!("/action/{metric}"),
            &other(43),
            422,
            "author_mismatch",
        );
    }
    assert_refused(
        api,
        "/action/publish",
        &on_note(1, 43),
        422,
        "author_mismatch",
    );
    let contradiction = with(on_note(2, 43), json!({ "author": 8 }));
    assert_refused(api, "/action/publish", &contradiction, 422, "unprocessable");
    let follow = json!({ "eid": 1, "uid": 2, "author": 3 });
    assert_refused(api, "/action/follow", &follow, 422, "unprocessable");
    let lines: Vec<String> = [other(43), on_note(1, 44), other(45)]
        .iter()
        .map(|action| with(action.clone(), json!({ "metric": "like" })).to_string())
        .collect();
    let (status, response) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("a response");
    let results: Vec<bool> = response
        .lines()
        .map(|line| line.contains("\"changed\":true"))
        .collect();
    assert_eq!(
        (status, results),
        (200, vec![false, true, false]),
        "{response}"
    );
    assert_eq!(response.matches("author_mismatch").count(), 2, "{response}");
    assert_eq!(setup.likes([7, 8]), [2, 0]);
    let counts = api.counts(1);
    assert_eq!(
        counts,
        json!({ "read": 0, "like": 2, "fav": 0, "comment": 0, "repost": 0 })
    );
    assert_eq!(setup.author("1"), "7");
}

fn a_new_author_is_credited_with_what_the_entity_has(store: TestStore) {
    let setup = Setup::new(store);
    for uid in 1..=5 {
        setup.like(1, uid, None);
        setup.like(2, uid, None);
        setup.api.act("fav", on_note(2, uid));
    }
    setup.drain();
    assert!(setup.put(1, &json!(7)));
    assert!(!setup.put(1, &json!("7")));
    // The user who publishes is the author.
    setup.api.act("publish", on_note(2, 8));
    assert_eq!(setup.likes([7, 8]), [5, 5]);
    assert_eq!(setup.api.user(8)["favsReceived"], 5);
    assert_eq!(setup.api.user(8)["posts"], 1);
    assert_eq!(
        (setup.author("1"), setup.author("2"), setup.author("3")),
        (json!("7"), json!("8"), Json::Null)
    );
    // Publishing undone: the entity keeps its author.
    setup.api.act("unpublish", on_note(2, 8));
    setup.like(2, 9, None);
    assert_eq!(setup.likes([8]), [6]);
}

fn an_entity_moves_with_its_credit(store: TestStore) {
    let setup = Setup::new(store);
    for note in [1, 2] {
        for uid in 1..=4 {
            setup.like(note, uid, Some(7));
        }
    }
    // Several changes before the consumer has committed any.
    assert!(setup.put(1, &json!(8)));
    assert!(setup.put(1, &json!(7)));
    assert!(setup.put(1, &json!(9)));
    setup.like(1, 5, None);
    assert_eq!(setup.likes([7, 8, 9]), [4, 0, 5]);
    setup.api.act("unlike", on_note(1, 1));
    assert!(setup.put(1, &json!(7)));
    setup.api.act("unlike", on_note(1, 2));
    assert_eq!(setup.likes([7, 8, 9]), [7, 0, 0]);
    let action = with(on_note(1, 6), json!({ "author": 9 }));
    assert_refused(&setup.api, "/action/like", &action, 422, "author_mismatch");
}

fn an_entity_without_an_author_any_more_gets_one_from_an_action_only(store: TestStore) {
    let setup = Setup::new(store);
    assert!(!setup.put(2, &Json::Null));
    setup.like(1, 1, Some(7));
    setup.like(1, 2, None);
    assert_eq!(setup.likes([7]), [2]);
    assert!(setup.put(1, &Json::Null));
    assert!(!setup.put(1, &Json::Null));
    assert_eq!(setup.likes([7]), [0]);
    assert_eq!(setup.author("1"), Json::Null);
    // An envelope may have been written before the author was removed.
    setup
        .api
        .ok(setup.api.post("/events", &envelope("e-1", 1, Some(7))));
    assert_eq!(setup.likes([7]), [0]);
    assert_eq!(setup.api.counts(1)["like"], 3);
    setup.like(1, 3, Some(9));
    assert_eq!(setup.likes([7, 9]), [0, 4]);
}

fn envelope(event_id: &str, note: u64, author: Option<u64>) -> Json {
    json!({
        "event_id": event_id, "event_type": "like", "aggregate_type": "note", "aggregate_id": note,
        "payload": { "delta": 1, "uid": 42, "author": author },
    })
}

fn envelopes_name_authors(store: TestStore) {
    let setup = Setup::new(store);
    let send = |events: Json| drop(setup.api.ok(setup.api.post("/events", &events)));
    send(json!([
        envelope("a", 1, None),
        envelope("b", 1, Some(7)),
        envelope("c", 1, Some(7))
    ]));
    assert_eq!(setup.likes([7]), [3]);
    assert_eq!(setup.author("1"), "7");
    assert_eq!(metric(&setup.api, "countd_author_mismatches_total"), 0);
    // The registered author is credited.
    send(json!([
        envelope("d", 1, Some(8)),
        envelope("a", 1, Some(7))
    ]));
    assert_eq!(setup.likes([7, 8]), [4, 0]);
    assert_eq!(metric(&setup.api, "countd_author_mismatches_total"), 1);
    let publish = json!({
        "event_id": "p", "event_type": "publish", "aggregate_type": "note", "aggregate_id": 2,
        "payload": { "delta": 1, "uid": 9 },
    });
    send(json!([envelope("e", 2, None), publish]));
    assert_eq!(setup.likes([9]), [1]);
}

fn ids_of_every_form_have_authors(store: TestStore) {
    let setup = Setup::new(store);
    let max = u64::MAX.to_string();
    let eids = ["0", "7", &max, "007", "18446744073709551616", "a-1", "x_.-"];
    let uids = [
        "0",
        "9999999999",
        "10000000000",
        "10000000001",
        &max,
        "-",
        "0010",
        "u-1",
    ];
    for (number, eid) in eids.iter().enumerate() {
        let path = format!("/entity/note/{eid}");
        for uid in uids {
            setup
                .api
                .ok(setup.api.put(&path, &json!({ "author": uid })));
            assert_eq!(setup.author(eid), uid, "{eid}");
        }
        for uid in 0..=number {
            let action = json!({ "etype": "note", "eid": eid, "uid": uid });
            setup.api.act("like", action);
        }
        // Each form of author has the entity once, with its credit.
        for uid in uids {
            setup
                .api
                .ok(setup.api.put(&path, &json!({ "author": uid })));
            setup.drain();
            let of = |uid: &str| {
                setup
                    .api
                    .ok(setup.api.get(&format!("/relation/counter?uid={uid}")))
            };
            assert_eq!(
                of(uid)["counts"]["likesReceived"],
                json!(number + 1),
                "{eid} {uid}"
            );
            for other in uids.iter().filter(|other| **other != uid) {
                assert_eq!(
                    of(other)["counts"]["likesReceived"],
                    0,
                    "{eid}: {uid}, not {other}"
                );
            }
        }
        setup
            .api
            .ok(setup.api.put(&path, &json!({ "author": null })));
        assert_eq!(setup.author(eid), Json::Null);
    }
}

fn a_repeated_action_registers_the_author(store: TestStore) {
    let setup = Setup::new(store);
    setup.like(1, 42, None);
    setup.drain();
    let repeated = with(on_note(1, 42), json!({ "author": 7 }));
    assert_eq!(setup.api.act("like", repeated)["changed"], false);
    assert_eq!(setup.likes([7]), [1]);
    // An action on a metric that feeds nobody.
    setup.like(2, 42, None);
    setup
        .api
        .act("read", with(on_note(2, 42), json!({ "author": 7 })));
    assert_eq!(setup.likes([7]), [2]);
}

fn actions_with_an_idempotency_key_register_the_author(store: TestStore) {
    let setup = Setup::new(store);
    let action = |note, author| {
        with(
            on_note(note, 42),
            json!({ "author": author, "idempotencyKey": "k" }),
        )
    };
    for (note, metric) in [(1, "like"), (2, "read"), (3, "comment")] {
        let first = setup.api.act(metric, action(note, 7));
        assert_eq!(first["changed"], true);
        assert_eq!(setup.api.act(metric, action(note, 7)), first);
        assert_eq!(setup.author(&note.to_string()), "7");
    }
    // Nothing is remembered of a refused action.
    assert_refused(
        &setup.api,
        "/action/fav",
        &action(1, 8),
        422,
        "author_mismatch",
    );
    assert_eq!(setup.api.act("fav", action(1, 7))["changed"], true);
    assert_eq!(setup.likes([7, 8]), [1, 0]);
}

/// A repeatable metric that feeds authors, counted at once or batched.
fn rated(count: &str) -> String {
    format!(
        "{CONFIG}[metrics.read]\nnature = \"repeatable\"\ncount = \"{count}\"\nusers = [{{ counter = \"likesReceived\", of = \"author\" }}]\n"
    )
}

fn a_reset_takes_the_credit_back(store: TestStore) {
    let setup = Setup::with_config(store, &rated("now"));
    let read = |author: Option<u64>| {
        setup
            .api
            .act("read", with(on_note(1, 42), json!({ "author": author })))
    };
    read(None);
    read(Some(7));
    read(None);
    assert_eq!(setup.likes([7]), [3]);
    let reset = json!({ "etype": "note", "eid": 1, "metric": "read" });
    assert_eq!(
        setup.api.ok(setup.api.post("/counter/reset", &reset))["was"],
        3
    );
    assert_eq!(setup.likes([7]), [0]);
    read(None);
    assert_eq!(setup.likes([7]), [1]);
}

/// The credit follows the counter, whatever changes it.
fn a_removed_counter_takes_the_credit_back(store: TestStore) {
    let setup = Setup::with_config(store, &rated("batched"));
    for _ in 0..5 {
        setup
            .api
            .act("read", with(on_note(1, 42), json!({ "author": 7 })));
    }
    assert_eq!(setup.likes([7]), [5]);
    let mut client = setup.store.server.client();
    let key = match setup.store.has_tables {
        true => setup.store.key("tab:v1:note", "", "note:1"),
        false => setup.store.key("cnt:v1:note:", "1", "note:1"),
    };
    let p = TestStore::partition("note:1", PARTITIONS);
    let key = match setup.store.has_tables {
        true if key.ends_with('}') => key,
        true => format!("tab:v1:note:{p}"),
        false => key,
    };
    assert_eq!(reply::int(client.call(&["DEL", &key])), 1);
    for _ in 0..2 {
        setup.api.act("read", on_note(1, 42));
    }
    assert_eq!(setup.likes([7]), [2]);
}
