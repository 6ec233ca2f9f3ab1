//! Erasing users.

use super::search::holders;
use super::{CONFIG, PARTITIONS, Setup, config_with, on, with};
use crate::support::stores::{
    TestStore, cluster, for_each_store, module, move_days_back, plain, wait_until_compacted,
};
use crate::support::{Api, dead_reasons};
use serde_json::{Value as Json, json};

for_each_store! {
    [module objects plain cluster cluster_objects]
    an_erased_user_leaves_nothing
    users_with_ids_of_any_form_are_erased
}

/// A snowflake, so that a text that contains it names the user.
pub const ERASED: &str = "912345678901234567";
/// An ID that bitmaps can hold.
const SMALL: &str = "4123456789";

/// What a user does and what is done to the user.
pub fn act(setup: &Setup, uid: &str) {
    act_through(&setup.api, uid);
}

/// [`act`] through any API.
pub fn act_through(api: &Api, uid: &str) {
    for note in 1..=8 {
        let author = json!({ "author": 7 });
        api.act("like", with(on(&note.to_string(), uid), author));
    }
    for note in 3..=5 {
        api.act("fav", on(&note.to_string(), uid));
        api.act("unfav", on("4", uid));
    }
    for other in 101..=104 {
        api.act("follow", json!({ "eid": other.to_string(), "uid": uid }));
    }
    for other in 103..=108 {
        api.act("follow", json!({ "eid": uid, "uid": other.to_string() }));
    }
    let key = json!({ "idempotencyKey": "k-1" });
    api.act("like", with(on("9", uid), key.clone()));
    api.act("comment", with(on("9", uid), key.clone()));
    api.act(
        "follow",
        json!({ "eid": uid, "uid": "109", "idempotencyKey": "k-2" }),
    );
    api.act("read", on("9", uid));
    // Their own notes, in both ways to become an author.
    api.act("publish", on(&format!("50{}", &uid[..1]), uid));
    for note in [format!("60{}", &uid[..1]), format!("a-{}", &uid[..1])] {
        let path = format!("/entity/note/{note}");
        api.ok(api.put(&path, &json!({ "author": uid })));
        for other in 101..=103 {
            api.act("like", on(&note, &other.to_string()));
        }
    }
    let envelope = json!({
        "event_id": format!("e-{}", &uid[..1]), "event_type": "comment", "aggregate_type": "note", "aggregate_id": 9,
        "payload": { "delta": 1, "uid": uid },
    });
    api.ok(api.post("/events", &envelope));
}

/// What other users do, which stays.
pub fn others(setup: &Setup) {
    let api = &setup.api;
    for note in 1..=8 {
        let path = format!("/entity/note/{note}");
        api.ok(api.put(&path, &json!({ "author": 7 })));
    }
    for uid in 101..=109 {
        let uid = &uid.to_string();
        for note in ["3", "9", "509", "504", "609", "604", "a-9", "a-4"] {
            api.act("like", on(note, uid));
        }
        api.act("follow", json!({ "eid": "101", "uid": uid }));
        api.act("fav", with(on("4", uid), json!({ "author": 7 })));
    }
    api.act("publish", on("700", "101"));
}

/// Everything that users have in common, without counts of repeatable metrics: these keep what an erased user added.
pub fn state(setup: &Setup) -> Json {
    setup.drain();
    let notes = [
        "1", "2", "3", "4", "5", "6", "7", "8", "9", "504", "509", "604", "609", "700", "a-4",
        "a-9",
    ];
    let notes: Vec<Json> = notes
        .iter()
        .map(|note| {
            let counts = setup.note(note);
            let users = ["like", "fav", "publish"].map(|metric| setup.who(metric, "note", note));
            json!([note, counts["like"], counts["fav"], users])
        })
        .collect();
    let users: Vec<Json> = (101..=109)
        .map(|uid| uid.to_string())
        .map(|uid| json!([uid, setup.user(&uid), setup.who("follow", "user", &uid)]))
        .collect();
    json!([notes, users, setup.user("7")])
}

/// The state without the user, and what the notes that others also liked have as authors.
fn expected(store: TestStore, config: &str) -> Json {
    let setup = Setup::new(store, config);
    others(&setup);
    for note in [604, 609] {
        for other in 101..=103 {
            setup
                .api
                .act("like", on(&note.to_string(), &other.to_string()));
        }
    }
    state(&setup)
}

#[track_caller]
fn assert_nothing_is_left(setup: &Setup, uid: &str) {
    let mut client = setup.store.server.client();
    let found = holders(&mut client, uid);
    assert!(found.is_empty(), "{uid}: {found:#?}");
    assert_eq!(setup.user(uid), json!([0, 0, 0, 0, 0]));
    for (note, metric) in [("9", "like"), ("3", "like"), ("5", "fav")] {
        assert!(!setup.who(metric, "note", note).contains(&uid.to_owned()));
    }
    assert!(setup.who("follow", "user", uid).is_empty());
    for note in [
        format!("50{}", &uid[..1]),
        format!("60{}", &uid[..1]),
        format!("a-{}", &uid[..1]),
    ] {
        assert_eq!(setup.author(&note), Json::Null, "{note}");
    }
}

fn assert_erased(store: TestStore, twin: TestStore, config: &str, uid: &str) {
    let setup = Setup::new(store, config);
    act(&setup, uid);
    others(&setup);
    setup.drain();
    let mut client = setup.store.server.client();
    assert!(
        holders(&mut client, uid).len() > 20,
        "the search finds the user"
    );
    let job = setup.erase(&format!("/user/{uid}"));
    assert_eq!(job["kind"], "eraseUser");
    assert!(job["facts"].as_u64() >= Some(23), "{job}");
    assert_eq!(job["authors"], 3, "{job}");
    assert!(job["entries"].as_u64() > Some(0), "{job}");
    setup.drain();
    assert_nothing_is_left(&setup, uid);
    assert_eq!(state(&setup), expected(twin, config));
    assert!(dead_reasons(&setup.store.server, config).is_empty());
}

fn an_erased_user_leaves_nothing(store: TestStore) {
    let twin = match (store.has_module, store.has_tables) {
        (false, _) => plain(),
        _ => module(),
    };
    assert_erased(store, twin, CONFIG, ERASED);
}

fn users_with_ids_of_any_form_are_erased(store: TestStore) {
    let config = config_with("sharded");
    let setup = Setup::new(store, &config);
    let uid = "user.with_other-characters";
    act(&setup, uid);
    act(&setup, ERASED);
    setup.drain();
    setup.erase(&format!("/user/{uid}"));
    setup.drain();
    assert_nothing_is_left_of_text(&setup, uid);
    // The other user is untouched.
    assert_eq!(setup.who("follow", "user", ERASED).len(), 7);
    assert!(setup.who("like", "note", "9").contains(&ERASED.to_owned()));
}

#[track_caller]
fn assert_nothing_is_left_of_text(setup: &Setup, uid: &str) {
    let mut client = setup.store.server.client();
    let found = holders(&mut client, uid);
    assert!(found.is_empty(), "{uid}: {found:#?}");
    assert_eq!(setup.user(uid), json!([0, 0, 0, 0, 0]));
}

#[test]
fn a_user_is_erased_from_sharded_facts() {
    assert_erased(module(), module(), &config_with("sharded"), ERASED);
}

#[test]
fn a_user_is_erased_from_sharded_facts_without_the_module() {
    assert_erased(plain(), plain(), &config_with("sharded"), ERASED);
}

#[test]
fn a_user_is_erased_from_bitmaps() {
    assert_erased(module(), module(), &config_with("bitmap"), SMALL);
}

#[test]
fn a_user_is_erased_from_bitmaps_in_cluster_mode() {
    assert_erased(cluster(), module(), &config_with("bitmap"), SMALL);
}

#[test]
fn a_user_is_erased_from_days() {
    assert_erased(cluster(), module(), &config_with("daily"), ERASED);
}

#[test]
fn a_user_is_erased_from_compacted_days() {
    let config = config_with("daily");
    let setup = Setup::new(module(), &config);
    act(&setup, ERASED);
    others(&setup);
    setup.drain();
    move_days_back(&setup.store, PARTITIONS);
    wait_until_compacted(&setup.store, PARTITIONS);
    setup.erase(&format!("/user/{ERASED}"));
    setup.drain();
    assert_nothing_is_left(&setup, ERASED);
    assert_eq!(state(&setup), expected(module(), &config));
}

/// A user can come back after they were erased.
#[test]
fn an_erased_user_can_act_again() {
    let setup = Setup::new(module(), CONFIG);
    act(&setup, ERASED);
    setup.erase(&format!("/user/{ERASED}"));
    act(&setup, ERASED);
    setup.drain();
    assert_eq!(setup.user(ERASED), json!([4, 7, 1, 6, 0]));
    setup.erase(&format!("/user/{ERASED}"));
    setup.drain();
    assert_nothing_is_left(&setup, ERASED);
}
