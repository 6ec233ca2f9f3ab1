//! The API, request by request, with and without the module.

use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::{
    Countd, Settings, assert_refused, on_note, set_schema, wait_until_drained, with,
};
use countint_tests::reply;
use serde_json::{Value as Json, json};

fn a_fact_counts_once_and_immediately(TestStore { server, .. }: TestStore) {
    let countd = Countd::start(&server, "");
    let api = countd.api();
    let like = with(on_note(1, 42), json!({ "author": "7" }));
    assert_eq!(
        api.act("like", like.clone()),
        json!({ "changed": true, "count": 1 })
    );
    assert_eq!(
        api.act("like", like.clone()),
        json!({ "changed": false, "count": 1 })
    );
    assert_eq!(api.counts(1)["like"], 1);
    assert_eq!(
        api.act("unlike", like.clone()),
        json!({ "changed": true, "count": 0 })
    );
    assert_eq!(
        api.act("unlike", like.clone()),
        json!({ "changed": false, "count": 0 })
    );
    assert_eq!(
        api.act("like", with(like.clone(), json!({ "op": "add" })))["changed"],
        true
    );
    assert_eq!(api.act("collect", like)["count"], 1);
    let status = api.ok(api.get("/status/note/1?uid=42&metrics=like,collect"));
    assert_eq!(
        status,
        json!({ "etype": "note", "eid": "1", "status": { "like": true, "fav": true } })
    );
    let status = api.ok(api.get("/api/v1/status/note/1?uid=43&metrics=like"));
    assert_eq!(status["status"], json!({ "like": false }));
    wait_until_drained(&server, 1024);
    let author = api.user(7);
    assert_eq!(
        (&author["likesReceived"], &author["favsReceived"]),
        (&json!(1), &json!(1))
    );
}

fn repeatable_actions_count_each_time_and_once_for_an_idempotency_key(
    TestStore { server, .. }: TestStore,
) {
    let countd = Countd::start(&server, "");
    let api = countd.api();
    for _ in 0..3 {
        assert_eq!(api.act("read", on_note(1, 42)), json!({ "changed": true }));
    }
    let keyed = with(on_note(1, 42), json!({ "idempotencyKey": "k" }));
    assert_eq!(api.act("view", keyed.clone()), json!({ "changed": true }));
    assert_eq!(
        api.act("read", keyed.clone()),
        json!({ "changed": true }),
        "an alias is the same metric, and a repeat gets the first answer"
    );
    // An idempotency key applies to one action: not to another user, nor to the opposite operation.
    let other = with(on_note(1, 43), json!({ "idempotencyKey": "k" }));
    assert_eq!(api.act("read", other), json!({ "changed": true }));
    let back = with(keyed, json!({ "op": "remove" }));
    assert_eq!(api.act("read", back), json!({ "changed": true }));
    wait_until_drained(&server, 1024);
    assert_eq!(api.counts(1)["read"], 4);
    assert_refused(
        &api,
        "/action/unread",
        &on_note(1, 42),
        422,
        "unprocessable",
    );
    api.act("read", with(on_note(2, 42), json!({ "op": "remove" })));
    wait_until_drained(&server, 1024);
    assert_eq!(api.counts(2)["read"], 0, "counters stop at 0");
    let mut client = server.client();
    let stored = client.run("GET act:dedup:note:1:read:add:42:k");
    assert!(stored.ends_with(":1:-\"") && stored.len() == 22, "{stored}");
    let left = client.run("TTL act:dedup:note:1:read:add:42:k");
    let left: i64 = left
        .trim_start_matches("(integer) ")
        .parse()
        .expect("seconds");
    assert!((172_000..=172_800).contains(&left), "{left}");
}

fn follow_and_publish_change_user_counters(TestStore { server, .. }: TestStore) {
    let countd = Countd::start(&server, "");
    let api = countd.api();
    let follow = json!({ "eid": 7, "uid": 42 });
    assert_eq!(api.act("follow", follow.clone())["changed"], true);
    assert_eq!(api.act("follow", follow.clone())["changed"], false);
    api.act("follow", json!({ "etype": "user", "eid": 7, "uid": 43 }));
    api.act("unfollow", json!({ "eid": 7, "uid": 43 }));
    api.act("publish", on_note(1, 7));
    api.act("publish", on_note(2, 7));
    api.act("unpublish", on_note(2, 7));
    wait_until_drained(&server, 1024);
    let user = |uid, counts: [u64; 5]| {
        let names = [
            "followings",
            "followers",
            "posts",
            "likesReceived",
            "favsReceived",
        ];
        let expected: serde_json::Map<_, _> = names
            .iter()
            .zip(counts)
            .map(|(n, c)| ((*n).to_owned(), json!(c)))
            .collect();
        assert_eq!(api.user(uid), Json::Object(expected), "user {uid}");
    };
    user(42, [1, 0, 0, 0, 0]);
    user(43, [0, 0, 0, 0, 0]);
    user(7, [0, 1, 1, 0, 0]);
    let batch = api.ok(api.post("/relation/counter/batch", &json!({ "uids": [7, "nobody"] })));
    assert_eq!(batch["items"][0]["counts"]["posts"], 1);
    assert_eq!(
        batch["items"][1],
        with(
            json!({ "uid": "nobody" }),
            json!({ "counts": api.user(999) })
        )
    );
}

fn invalid_requests_are_refused_with_a_reason(TestStore { server, .. }: TestStore) {
    let countd = Countd::start(
        &server,
        "[http]\nmax_batch = 3\nmax_actions = 2\nmax_body_bytes = 2000\n",
    );
    let api = countd.api();
    assert_refused(
        &api,
        "/action/nonsense",
        &on_note(1, 42),
        404,
        "unknown_metric",
    );
    assert_refused(
        &api,
        "/action/like",
        &json!({ "etype": "cat", "eid": 1, "uid": 1 }),
        404,
        "unknown_type",
    );
    assert_refused(
        &api,
        "/action/like",
        &json!({ "etype": "user", "eid": 1, "uid": 1 }),
        422,
        "unprocessable",
    );
    assert_refused(&api, "/action/follow", &on_note(1, 1), 422, "unprocessable");
    assert_refused(
        &api,
        "/action/like",
        &json!({ "eid": 1, "uid": 1 }),
        422,
        "unprocessable",
    );
    assert_refused(
        &api,
        "/action/unlike",
        &with(on_note(1, 1), json!({ "op": "add" })),
        422,
        "unprocessable",
    );
    assert_refused(
        &api,
        "/action/like",
        &with(on_note(1, 1), json!({ "metric": "fav" })),
        422,
        "unprocessable",
    );
    assert_refused(
        &api,
        "/action/like",
        &with(on_note(1, 1), json!({ "more": 1 })),
        400,
        "malformed",
    );
    for uid in ["007", "18446744073709551616", "alice"] {
        let like = json!({ "etype": "note", "eid": 1, "uid": uid });
        assert_refused(&api, "/action/like", &like, 422, "unprocessable");
        let (status, _) = api.get(&format!("/status/note/1?uid={uid}&metrics=like"));
        assert_eq!(status, 422);
    }
    for eid in [
        json!("a:b"),
        json!("{1}"),
        json!(""),
        json!(-1),
        json!(1.5),
        json!(null),
    ] {
        assert_refused(
            &api,
            "/action/like",
            &json!({ "etype": "note", "eid": eid, "uid": 1 }),
            400,
            "malformed",
        );
    }
    let four = vec![json!({ "etype": "note", "eid": 1 }); 4];
    assert_refused(
        &api,
        "/counter/batch",
        &json!({ "items": four }),
        413,
        "too_many",
    );
    let (status, _) = api.try_post("/actions", "1\n2\n3\n").expect("a response");
    assert_eq!(status, 413);
    let (status, response) = api
        .try_post("/actions", &"x".repeat(2_001))
        .expect("a response");
    assert_eq!(status, 413, "{response}");
    assert!(response.contains("too_large"), "{response}");
}

fn removing_an_absent_fact_changes_nothing_and_returns_the_count(
    TestStore { server, .. }: TestStore,
) {
    let config = "[metrics.like]\nnature = \"once\"\ncount = \"now\"\n\
                  [metrics.fav]\nnature = \"once\"\ncount = \"now\"\nfacts = \"sharded\"\n\
                  [metrics.follow]\nnature = \"once\"\ncount = \"never\"\nentities = [\"user\"]\n";
    let countd = Countd::start(&server, config);
    let api = countd.api();
    let nothing = json!({ "changed": false, "count": 0 });
    for metric in ["like", "fav"] {
        let un = format!("un{metric}");
        assert_eq!(api.act(&un, on_note(1, 42)), nothing, "{metric}");
        let keyed = with(on_note(1, 42), json!({ "idempotencyKey": un }));
        assert_eq!(api.act(&un, keyed.clone()), nothing, "{metric}");
        assert_eq!(api.act(&un, keyed), nothing, "a repeated idempotency key");
    }
    let line = with(on_note(2, 42), json!({ "metric": "unlike" })).to_string();
    let (_, response) = api.try_post("/actions", &line).expect("a response");
    assert_eq!(response, "{\"changed\":false,\"count\":0}\n");
    // A metric that is not counted immediately returns no count.
    let unfollowed = api.act("unfollow", json!({ "eid": 7, "uid": 42 }));
    assert_eq!(unfollowed, json!({ "changed": false }));
    assert_eq!(server.client().run("KEYS cnt:*"), "(empty array)");
}

fn each_action_of_a_request_has_a_result(TestStore { server, .. }: TestStore) {
    let countd = Countd::start(&server, "");
    let api = countd.api();
    let lines = [
        r#"{"metric":"like","etype":"note","eid":1,"uid":42}"#,
        "nonsense",
        r#"{"metric":"view","etype":"note","eid":1,"uid":42}"#,
        r#"{"metric":"unlike","etype":"note","eid":1,"uid":42}"#,
        r#"{"etype":"note","eid":1,"uid":42}"#,
        "",
        r#"{"metric":"like","etype":"note","eid":2,"uid":42,"idempotencyKey":"k"}"#,
        r#"{"metric":"like","etype":"note","eid":2,"uid":42,"idempotencyKey":"k"}"#,
    ];
    let (status, response) = api
        .try_post("/actions", &(lines.join("\n") + "\n"))
        .expect("a response");
    assert_eq!(status, 200, "{response}");
    let results: Vec<Json> = response
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(results.len(), lines.len(), "{response}");
    assert_eq!(results[0], json!({ "changed": true, "count": 1 }));
    assert_eq!(results[1]["error"]["code"], "malformed");
    assert_eq!(results[2], json!({ "changed": true }));
    assert_eq!(results[3], json!({ "changed": true, "count": 0 }));
    assert_eq!(results[4]["error"]["code"], "malformed");
    assert_eq!(results[5]["error"]["code"], "malformed");
    assert_eq!(results[6], json!({ "changed": true, "count": 1 }));
    assert_eq!(
        results[7],
        json!({ "changed": true, "count": 1, "replayed": true })
    );
    // A restarted server has no scripts. The order of the lines is kept when they are loaded again.
    server.client().ok("SCRIPT FLUSH");
    let lines = [
        r#"{"metric":"like","etype":"note","eid":3,"uid":42,"idempotencyKey":"k"}"#,
        r#"{"metric":"unlike","etype":"note","eid":3,"uid":42}"#,
    ];
    let (_, response) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("a response");
    assert_eq!(
        response,
        "{\"changed\":true,\"count\":1}\n{\"changed\":true,\"count\":0}\n"
    );
    // The same for a single action.
    server.client().ok("SCRIPT FLUSH");
    let keyed = with(on_note(4, 42), json!({ "idempotencyKey": "k" }));
    assert_eq!(
        api.act("like", keyed),
        json!({ "changed": true, "count": 1 })
    );
}

fn batch_reads_and_pages_of_users(TestStore { server, .. }: TestStore) {
    let countd = Countd::start(&server, "");
    let api = countd.api();
    for uid in [1, 5, 18_446_744_073_709_551_615_u64] {
        api.act("like", on_note(1, uid));
    }
    let items = json!([{ "etype": "note", "eid": "1" }, { "etype": "note", "eid": "2" }]);
    let page = api.ok(api.post(
        "/counter/batch",
        &json!({ "items": items, "metrics": ["like", "view"] }),
    ));
    assert_eq!(
        page["items"][0],
        json!({ "etype": "note", "eid": "1", "counts": { "like": 3, "read": 0 } })
    );
    assert_eq!(page["items"][1]["counts"], json!({ "like": 0, "read": 0 }));
    let hearts = api.ok(api.post(
        "/status/batch",
        &json!({ "uid": 5, "items": items, "metrics": ["like"] }),
    ));
    assert_eq!(hearts["items"][0]["status"], json!({ "like": true }));
    assert_eq!(hearts["items"][1]["status"], json!({ "like": false }));
    let first = api.ok(api.get("/who/like/note/1?limit=2"));
    assert_eq!(first["users"], json!(["18446744073709551615", "5"]));
    let cursor = first["cursor"].as_str().expect("another page");
    let second = api.ok(api.get(&format!("/who/like/note/1?limit=2&cursor={cursor}")));
    assert_eq!(second, json!({ "users": ["1"], "cursor": null }));
    for (path, status) in [
        ("/who/like/note/1?cursor=x", 400),
        ("/who/like/note/1?limit=0", 400),
        ("/who/like/note/1?limit=501", 400),
        ("/who/read/note/1", 422),
        ("/who/nope/note/1", 404),
        ("/status/note/1?uid=1&metrics=read", 422),
        ("/status/note/1?uid=1&metrics=", 400),
        ("/status/note/1", 400),
        ("/status/note/a%3Ab?uid=1&metrics=like", 400),
        ("/counter/note/1?metrics=nope", 404),
        ("/counter/user/1", 422),
        ("/counter/cat/1", 404),
        ("/status/cat/1?uid=1&metrics=like", 404),
        ("/who/like/cat/1", 404),
        ("/relation/counter", 400),
        ("/nowhere", 404),
        ("/action/like", 405),
    ] {
        let (found, response) = api.get(path);
        assert_eq!(found, status, "{path}: {response}");
        assert!(response["detail"].is_string(), "{path}: {response}");
    }
}

for_each_store! {
    [module objects plain cluster]
    a_fact_counts_once_and_immediately
    follow_and_publish_change_user_counters
    invalid_requests_are_refused_with_a_reason
    removing_an_absent_fact_changes_nothing_and_returns_the_count
    each_action_of_a_request_has_a_result
    batch_reads_and_pages_of_users
}

/// Tests that use the key names of a single server, which have no hash tags.
mod keys {
    use super::*;

    for_each_store! {
        [module objects plain]
        repeatable_actions_count_each_time_and_once_for_an_idempotency_key
    }
}

#[test]
fn the_trace_of_a_traceparent_is_in_event_and_response() {
    let store = module();
    set_schema(&store.server, "");
    let (command, config) = ("serve", "");
    let countd = Countd::with(&store.server, &Settings { command, config });
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [("traceparent", parent.as_str())];
    let body = on_note(1, 42);
    let response = countd
        .api()
        .request("/action/comment", &headers, Some(&body));
    assert_eq!(response.status, 200, "{}", response.json);
    assert_eq!(response.header("x-trace-id"), trace);
    let log = store.log(TestStore::partition("note:1", 1024));
    let entries = store.server.client().call(&["XRANGE", &log, "-", "+"]);
    let entries = reply::format(&entries);
    assert!(entries.contains(trace), "{entries}");
}
