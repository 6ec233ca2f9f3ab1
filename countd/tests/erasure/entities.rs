//! Erasing entities.

use super::search::holders;
use super::{CONFIG, PARTITIONS, Setup, config_with, on, wait_until_done, with};
use crate::support::assert_refused;
use crate::support::stores::{TestStore, cluster, for_each_store, module, plain};
use countint_tests::{reply, wait_until};
use serde_json::{Value as Json, json};

for_each_store! {
    [module objects plain cluster cluster_objects]
    an_erased_entity_leaves_nothing
    an_erased_entity_can_be_used_again
}

/// A snowflake, so that a text that contains it names the entity.
pub const ERASED: &str = "812345678901234567";
/// The users who like a note.
pub const LIKES: u64 = 25;

/// What users do to a note, with author 7.
pub fn act(setup: &Setup, note: &str) {
    let api = &setup.api;
    for uid in 1..=LIKES {
        let uid = &uid.to_string();
        api.act("like", with(on(note, uid), json!({ "author": 7 })));
        api.act("read", on(note, uid));
    }
    for uid in ["1", "2"] {
        api.act("fav", with(on(note, uid), json!({ "idempotencyKey": "k" })));
        api.act(
            "comment",
            with(on(note, uid), json!({ "idempotencyKey": "k" })),
        );
    }
    api.act("publish", on(note, "7"));
}

pub fn state(setup: &Setup, note: &str) -> Json {
    setup.drain();
    let counters = ["1", "2", "7"].map(|uid| setup.user(uid));
    let metrics = ["like", "fav", "publish"];
    let users = metrics.map(|metric| setup.who(metric, "note", note));
    json!([counters, users, setup.note(note), setup.author(note)])
}

#[track_caller]
pub fn assert_nothing_is_left(setup: &Setup, note: &str) {
    let mut client = setup.store.server.client();
    let found = holders(&mut client, note);
    assert!(found.is_empty(), "{note}: {found:#?}");
    let counts = setup.note(note);
    let expected = json!({ "read": 0, "like": 0, "fav": 0, "comment": 0, "repost": 0 });
    assert_eq!(counts, expected);
    assert_eq!(setup.author(note), Json::Null);
    for metric in ["like", "fav", "publish"] {
        assert!(setup.who(metric, "note", note).is_empty());
    }
}

fn erase_beside_another(setup: &Setup, note: &str) {
    act(setup, "1");
    let before = state(setup, "1");
    act(setup, note);
    setup.drain();
    assert_eq!(setup.user("7"), json!([0, 0, 2, 2 * LIKES, 4]));
    let mut client = setup.store.server.client();
    assert!(
        holders(&mut client, note).len() > 3,
        "the search finds the note"
    );
    let job = setup.erase(&format!("/entity/note/{note}"));
    assert_eq!(job["kind"], "eraseEntity");
    assert_eq!(job["facts"], LIKES + 3, "{job}");
    assert_eq!(job["keys"], 4, "{job}");
    setup.drain();
    assert_nothing_is_left(setup, note);
    assert_eq!(state(setup, "1"), before);
}

fn an_erased_entity_leaves_nothing(store: TestStore) {
    erase_beside_another(&Setup::new(store, CONFIG), ERASED);
}

fn an_erased_entity_can_be_used_again(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    let note = "n-812345678901234567";
    act(&setup, note);
    let before = state(&setup, note);
    setup.erase(&format!("/entity/note/{note}"));
    setup.drain();
    assert_nothing_is_left(&setup, note);
    act(&setup, note);
    assert_eq!(state(&setup, note), before);
}

#[test]
fn an_entity_is_erased_from_all_fact_stores() {
    for facts in ["sharded", "daily", "bitmap"] {
        erase_beside_another(&Setup::new(module(), &config_with(facts)), ERASED);
    }
    erase_beside_another(&Setup::new(plain(), &config_with("daily")), ERASED);
}

#[test]
fn an_entity_with_many_facts_is_erased_page_by_page() {
    let setup = Setup::new(module(), CONFIG);
    let line = |uid: u64| {
        let action = with(
            on(ERASED, &uid.to_string()),
            json!({ "metric": "like", "author": 7 }),
        );
        action.to_string()
    };
    for page in 0..5 {
        let lines: Vec<String> = (0..900).map(|uid| line(page * 900 + uid)).collect();
        let (status, _) = setup
            .api
            .try_post("/actions", &lines.join("\n"))
            .expect("a response");
        assert_eq!(status, 200);
    }
    let job = setup.erase(&format!("/entity/note/{ERASED}"));
    assert_eq!(job["facts"], 4_500);
    setup.drain();
    assert_nothing_is_left(&setup, ERASED);
    assert_eq!(setup.user("7"), json!([0, 0, 0, 0, 0]));
}

#[test]
fn what_cannot_be_erased_is_refused() {
    let setup = Setup::new(module(), CONFIG);
    let refused = |path: &str| {
        let (status, problem) = setup.api.delete(path);
        (status, problem["code"].as_str().expect("a code").to_owned())
    };
    let problem = |status, code: &str| (status, code.to_owned());
    assert_eq!(refused("/entity/user/7"), problem(422, "unprocessable"));
    assert_eq!(refused("/entity/nothing/7"), problem(404, "unknown_type"));
    assert_eq!(refused("/entity/note/a:7"), problem(400, "malformed"));
    assert_eq!(refused("/user/a:7"), problem(400, "malformed"));
    let (status, problem) = setup.api.get("/jobs/0123");
    assert_eq!((status, &problem["code"]), (404, &json!("unknown_job")));
    assert_refused(&setup.api, "/user/7", &json!({}), 405, "no_method");
}

/// An event can be counted after the counters were deleted, although it was appended before.
#[test]
fn a_late_event_registers_no_author() {
    let setup = Setup::new(cluster(), CONFIG);
    act(&setup, ERASED);
    setup.drain();
    let own = TestStore::partition(&format!("note:{ERASED}"), PARTITIONS);
    // The last step waits for all partitions, the others for that of the entity.
    let other = (own + 1) % PARTITIONS;
    let mut client = setup.store.server.client();
    let (positions, field) = (setup.store.positions(other), other.to_string());
    let position = reply::text(client.call(&["HGET", &positions, &field]));
    client.call(&["HSET", &positions, &field, "x"]);
    let job = setup.delete(&format!("/entity/note/{ERASED}"));
    wait_until("the last step waits", || {
        setup.api.get(&job).1["error"].as_str().is_some()
    });
    assert_eq!(setup.note(ERASED)["like"], 0);
    let event = json!({
        "etype": "note", "eid": ERASED, "metric": "like", "delta": 1, "uid": "1", "author": "7",
    });
    let log = setup.store.log(own);
    client.call(&["XADD", &log, "0-*", "e", &event.to_string()]);
    wait_until("the event is counted", || setup.note(ERASED)["like"] == 1);
    assert_eq!(setup.author(ERASED), Json::Null);
    client.call(&["HSET", &positions, &field, &position]);
    wait_until_done(&setup.api, &job);
    let mut found = holders(&mut client, ERASED);
    found.retain(|holder| holder.starts_with("aut"));
    assert!(found.is_empty(), "{found:#?}");
    // A new life of the entity can have another author.
    let action = with(on(ERASED, "9"), json!({ "author": 8 }));
    setup.api.act("fav", action);
    assert_eq!(setup.author(ERASED), json!("8"));
}
