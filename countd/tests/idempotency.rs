//! Idempotency keys: a retry gets the first answer, and another request with the same key is rejected.

use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, Response, on_note, wait_until_drained, with};
use serde_json::{Value as Json, json};

/// A *once* metric in each fact store, and repeatable metrics of each counting mode.
const CONFIG: &str = r#"
[metrics.like]
nature = "once"
count = "now"
[metrics.fav]
nature = "once"
count = "now"
facts = "sharded"
[metrics.save]
nature = "once"
count = "never"
facts = "bitmap"
[metrics.comment]
nature = "repeatable"
count = "now"
[metrics.read]
nature = "repeatable"
count = "batched"
"#;
const METRICS: [&str; 5] = ["like", "fav", "save", "comment", "read"];

fn act(api: &Api, metric: &str, headers: &[(&str, &str)], action: &Json) -> Response {
    api.request(&format!("/api/v1/action/{metric}"), headers, Some(action))
}

#[track_caller]
fn assert_first(response: &Response) {
    assert_eq!(response.status, 200, "{}", response.json);
    assert_eq!(response.header("idempotent-replayed"), "");
    assert_eq!(response.json["changed"], true, "{}", response.json);
}

#[track_caller]
fn assert_replayed(response: &Response, first: &Response) {
    assert_eq!(response.status, 200, "{}", response.json);
    assert_eq!(response.header("idempotent-replayed"), "true");
    assert_eq!(response.json, first.json);
}

#[track_caller]
fn assert_code(response: &Response, status: u16, code: &str) {
    assert_eq!(
        (response.status, response.json["code"].as_str()),
        (status, Some(code)),
        "{}",
        response.json
    );
}

fn retry_gets_the_first_answer(TestStore { server, .. }: TestStore) {
    let mut countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    let header = [("idempotency-key", "k-1")];
    let mut first = Vec::new();
    for metric in METRICS {
        let response = act(&api, metric, &header, &on_note(1, 42));
        assert_first(&response);
        first.push(response);
        // What others do in between does not change the answer.
        act(&api, metric, &[], &on_note(1, 43));
    }
    countd.kill();
    countd.launch();
    let api = countd.api();
    for (metric, first) in METRICS.iter().zip(&first) {
        let quoted = [("idempotency-key", "\"k-1\"")];
        let field = with(on_note(1, 42), json!({ "idempotencyKey": "k-1" }));
        for response in [
            act(&api, metric, &header, &on_note(1, 42)),
            act(&api, metric, &quoted, &on_note(1, 42)),
            act(&api, metric, &[], &field),
            act(&api, metric, &header, &field),
        ] {
            assert_replayed(&response, first);
        }
    }
    wait_until_drained(&server, 1024);
    assert_eq!(
        api.counts(1),
        json!({ "read": 2, "like": 2, "fav": 2, "comment": 2, "repost": 0 })
    );
    assert_invariants(&server, CONFIG);
}

fn key_of_another_request_is_rejected(TestStore { server, .. }: TestStore) {
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    let header = [("idempotency-key", "k")];
    let by = |author: &str| with(on_note(1, 42), json!({ "author": author }));
    for metric in METRICS {
        let first = act(&api, metric, &header, &by("7"));
        assert_first(&first);
        for other in [by("8"), on_note(1, 42)] {
            assert_code(&act(&api, metric, &header, &other), 422, "key_reused");
        }
        assert_replayed(&act(&api, metric, &header, &by("7")), &first);
        // The key belongs to a user and an entity.
        assert_first(&act(&api, metric, &header, &on_note(1, 43)));
        assert_first(&act(&api, metric, &header, &on_note(2, 42)));
    }
    let field = with(on_note(1, 42), json!({ "idempotencyKey": "other" }));
    assert_code(&act(&api, "like", &header, &field), 422, "unprocessable");
    for bad in ["", "a b", "a:b", "\""] {
        let header = [("idempotency-key", bad)];
        let response = act(&api, "like", &header, &on_note(9, 42));
        assert_code(&response, 400, "malformed");
    }
}

fn failed_request_is_not_remembered(store: TestStore) {
    let server = &store.server;
    let countd = Countd::start(server, CONFIG);
    let api = countd.api();
    let header = [("idempotency-key", "k")];
    let mut client = server.client();
    let log = store.log(TestStore::partition("note:1", 1024));
    client.ok(&format!("LPUSH {log} x"));
    for metric in ["like", "fav", "comment"] {
        let response = act(&api, metric, &header, &on_note(1, 42));
        assert_code(&response, 500, "damaged");
    }
    client.ok(&format!("DEL {log}"));
    for metric in ["like", "fav", "comment"] {
        assert_first(&act(&api, metric, &header, &on_note(1, 42)));
    }
}

fn keys_of_an_older_version_are_understood(TestStore { server, .. }: TestStore) {
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    for metric in METRICS {
        let key = format!("act:dedup:note:1:{metric}:add:42:k");
        server.client().ok(&format!("SET {key} 1 EX 1000"));
        let response = act(&api, metric, &[("idempotency-key", "k")], &on_note(1, 42));
        assert_eq!(response.json, json!({ "changed": false }), "{metric}");
        assert_eq!(response.header("idempotent-replayed"), "true");
    }
    let reset = json!({ "etype": "note", "eid": "1", "metric": "comment" });
    server
        .client()
        .ok("SET act:dedup:note:1:comment:reset:-:k 1 EX 1000");
    let headers = [("idempotency-key", "k")];
    let response = api.request("/counter/reset", &headers, Some(&reset));
    assert_eq!(response.json, json!({ "was": 0 }));
}

fn each_line_has_its_own_key(TestStore { server, .. }: TestStore) {
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    let line = |metric: &str, author: u64| {
        let fields = json!({ "metric": metric, "author": author, "idempotencyKey": "k" });
        with(on_note(1, 42), fields).to_string()
    };
    let lines = METRICS.map(|metric| line(metric, 7));
    let send = |lines: &[String]| -> Vec<Json> {
        let (status, text) = api
            .try_post("/actions", &lines.join("\n"))
            .expect("a response");
        assert_eq!(status, 200, "{text}");
        let json = |line| serde_json::from_str(line).expect("JSON");
        text.lines().map(json).collect()
    };
    let first = send(&lines);
    assert!(first.iter().all(|answer| answer["changed"] == true));
    assert!(first.iter().all(|answer| answer.get("replayed").is_none()));
    for (answer, first) in send(&lines).iter().zip(first) {
        assert_eq!(*answer, with(first, json!({ "replayed": true })));
    }
    for answer in send(&METRICS.map(|metric| line(metric, 8))) {
        assert_eq!(answer["error"]["code"], "key_reused", "{answer}");
        assert_eq!(answer["error"]["status"], 422, "{answer}");
    }
    let headers = [
        ("idempotency-key", "k"),
        ("content-type", "application/json"),
    ];
    let response = api.request_text("POST", "/actions", &headers, &lines[0]);
    assert_code(&response, 422, "unprocessable");
}

fn reset_with_a_key_happens_once(TestStore { server, .. }: TestStore) {
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    let reset = json!({ "etype": "note", "eid": "1", "metric": "comment" });
    let send = |key: &str| {
        let response = api.request("/counter/reset", &[("idempotency-key", key)], Some(&reset));
        assert_eq!(response.status, 200, "{}", response.json);
        response
    };
    for _ in 0..3 {
        api.act("comment", on_note(1, 42));
    }
    let first = send("a");
    assert_eq!(first.json, json!({ "was": 3 }));
    assert_eq!(first.header("idempotent-replayed"), "");
    api.act("comment", on_note(1, 42));
    assert_replayed(&send("a"), &first);
    assert_eq!(api.counts(1)["comment"], 1, "a replay changes nothing");
    assert_eq!(send("b").json, json!({ "was": 1 }));
    let field = with(reset.clone(), json!({ "idempotencyKey": "b" }));
    assert_replayed(
        &api.request("/counter/reset", &[], Some(&field)),
        &send("b"),
    );
}

for_each_store! {
    [module plain cluster]
    retry_gets_the_first_answer
    key_of_another_request_is_rejected
    failed_request_is_not_remembered
    each_line_has_its_own_key
    reset_with_a_key_happens_once
}

/// Tests that use the key names of a single server, which have no hash tags.
mod keys {
    use super::*;

    for_each_store! {
        [module plain]
        keys_of_an_older_version_are_understood
    }
}
