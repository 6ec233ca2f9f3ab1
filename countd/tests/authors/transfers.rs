//! Entities get an author, another one, or none.

use super::{Setup, envelope};
use crate::support::stores::for_each_store;
use crate::support::{assert_refused, on_note, with};
use serde_json::{Value as Json, json};

for_each_store! {
    [module objects plain cluster cluster_objects]
    a_new_author_is_credited_with_what_the_entity_has
    an_entity_moves_with_its_credit
    an_entity_without_an_author_any_more_gets_one_from_an_action_only
    ids_of_every_form_have_authors
}

pub fn a_new_author_is_credited_with_what_the_entity_has(setup: impl Into<Setup>) {
    let setup = setup.into();
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

pub fn an_entity_moves_with_its_credit(setup: impl Into<Setup>) {
    let setup = setup.into();
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

pub fn an_entity_without_an_author_any_more_gets_one_from_an_action_only(setup: impl Into<Setup>) {
    let setup = setup.into();
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

pub fn ids_of_every_form_have_authors(setup: impl Into<Setup>) {
    let setup = setup.into();
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
    let put = |eid: &str, author: &Json| {
        let path = format!("/entity/note/{eid}");
        let body = json!({ "author": author });
        setup.api.ok(setup.api.put(&path, &body));
    };
    for (number, eid) in eids.iter().enumerate() {
        for uid in uids {
            put(eid, &json!(uid));
            assert_eq!(setup.author(eid), uid, "{eid}");
        }
        for uid in 0..=number {
            let action = json!({ "etype": "note", "eid": eid, "uid": uid });
            setup.api.act("like", action);
        }
    }
    // Each form of author has each form of entity once, with its credit.
    for round in 0..uids.len() {
        let author_of = |number: usize| uids[(number + round) % uids.len()];
        for (number, eid) in eids.iter().enumerate() {
            put(eid, &json!(author_of(number)));
        }
        setup.drain();
        let counters = setup
            .api
            .post("/relation/counter/batch", &json!({ "uids": uids }));
        let counters = setup.api.ok(counters);
        for (at, uid) in uids.iter().enumerate() {
            let number = (0..eids.len()).find(|number| author_of(*number) == *uid);
            let likes = number.map_or(0, |number| number + 1);
            let item = &counters["items"][at];
            assert_eq!(item["counts"]["likesReceived"], likes, "{round}: {uid}");
        }
    }
    for eid in eids {
        put(eid, &Json::Null);
        assert_eq!(setup.author(eid), Json::Null);
    }
}
