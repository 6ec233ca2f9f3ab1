//! Actions and envelopes name authors.

use super::{Setup, envelope};
use crate::support::stores::for_each_store;
use crate::support::{assert_refused, metric, on_note, with};
use serde_json::{Value as Json, json};

for_each_store! {
    [module objects plain cluster cluster_objects]
    a_like_without_the_author_is_taken_back_from_the_author
    another_author_is_refused_and_changes_nothing
    envelopes_name_authors
    a_repeated_action_registers_the_author
    actions_with_an_idempotency_key_register_the_author
}

pub fn a_like_without_the_author_is_taken_back_from_the_author(setup: impl Into<Setup>) {
    let setup = setup.into();
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

pub fn another_author_is_refused_and_changes_nothing(setup: impl Into<Setup>) {
    let setup = setup.into();
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

pub fn envelopes_name_authors(setup: impl Into<Setup>) {
    let setup = setup.into();
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

pub fn a_repeated_action_registers_the_author(setup: impl Into<Setup>) {
    let setup = setup.into();
    setup.like(1, 42, None);
    setup.drain();
    let repeated = with(on_note(1, 42), json!({ "author": 7 }));
    assert_eq!(setup.api.act("like", repeated)["changed"], false);
    assert_eq!(setup.likes([7]), [1]);
    // An action on a metric that feeds no counter of users.
    setup.like(2, 42, None);
    setup
        .api
        .act("read", with(on_note(2, 42), json!({ "author": 7 })));
    assert_eq!(setup.likes([7]), [2]);
}

pub fn actions_with_an_idempotency_key_register_the_author(setup: impl Into<Setup>) {
    let setup = setup.into();
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
