//! Each error code has one status and the same body on every route: problem details of RFC 9457.

mod refusals;

use crate::support::{Countd, Response, Settings, on_note, set_schema, with};
use countint_tests::Server;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// The documented codes and their statuses.
const CODES: [(&str, u16); 30] = [
    ("malformed", 400),
    ("unauthorized", 401),
    ("forbidden", 403),
    ("uid_mismatch", 403),
    ("no_route", 404),
    ("unknown_counter", 404),
    ("unknown_job", 404),
    ("unknown_metric", 404),
    ("unknown_ranking", 404),
    ("unknown_type", 404),
    ("no_method", 405),
    ("too_large", 413),
    ("too_many", 413),
    ("uri_too_long", 414),
    ("unsupported_media_type", 415),
    ("author_mismatch", 422),
    ("key_reused", 422),
    ("no_history", 422),
    ("no_reverse", 422),
    ("unprocessable", 422),
    ("limited", 429),
    ("headers_too_large", 431),
    ("damaged", 500),
    ("internal", 500),
    ("busy", 503),
    ("not_counting", 503),
    ("not_filled", 503),
    ("schema", 503),
    ("timeout", 503),
    ("unavailable", 503),
];

/// Asserts that a response has the code and its status, and complete details.
#[track_caller]
pub fn assert_problem(response: &Response, code: &str) {
    let json = &response.json;
    let row = CODES.iter().find(|(name, _)| *name == code);
    let (_, status) = row.expect("a documented code");
    assert_eq!(
        (response.status, json["code"].as_str()),
        (*status, Some(code)),
        "{json}"
    );
    assert_eq!(response.header("content-type"), "application/problem+json");
    assert_eq!(json["type"], format!("urn:countd:problem:{code}"));
    assert_eq!(json["status"], *status);
    assert!(
        json["title"].is_string() && json["detail"].is_string(),
        "{json}"
    );
    assert_eq!(json["traceId"], response.header("x-trace-id"), "{json}");
    let retry_after = json["retryAfter"].as_u64();
    assert_eq!(retry_after, response.retry_after, "{json}");
    assert_eq!(retry_after.is_some(), [429, 503].contains(status), "{json}");
}

fn start(server: &Server, config: &str) -> Countd {
    let config = &format!("{config}[users]\ncounters = [\"unread\"]\n");
    set_schema(server, config);
    let command = "serve";
    Countd::with(server, &Settings { command, config })
}

/// The routes with a body, each with a valid one.
fn posts() -> Vec<(&'static str, Json)> {
    let items = json!([{ "etype": "note", "eid": "1" }]);
    let envelope = json!({ "event_id": "e1", "event_type": "like", "aggregate_type": "note", "aggregate_id": "1",
        "payload": { "delta": 1, "uid": "42" } });
    vec![
        ("/action/like", on_note(1, 42)),
        (
            "/actions",
            with(on_note(1, 42), json!({ "metric": "like" })),
        ),
        ("/events", envelope),
        (
            "/counter/reset",
            json!({ "etype": "note", "eid": "1", "metric": "read" }),
        ),
        ("/counter/batch", json!({ "items": items })),
        (
            "/status/batch",
            json!({ "uid": "42", "items": items, "metrics": ["like"] }),
        ),
        ("/relation/counter/batch", json!({ "uids": ["42"] })),
        (
            "/relation/counter/reset",
            json!({ "uid": "42", "counter": "unread" }),
        ),
        ("/feed", json!({ "uid": "42", "items": items })),
    ]
}

/// Reads without a body.
const GETS: [&str; 8] = [
    "/counter/note/1",
    "/status/note/1?uid=42&metrics=like",
    "/relation/counter?uid=42",
    "/who/like/note/1",
    "/user/42/like/note",
    "/user/42/followings",
    "/user/42/followers",
    "/entity/note/1",
];

fn is_line(path: &str) -> bool {
    path == "/actions"
}

#[test]
fn the_page_and_the_document_list_every_code() {
    let page = include_str!("../../../docs/countd/api.md");
    for (code, status) in CODES {
        let row = page
            .lines()
            .find(|line| line.starts_with('|') && line.contains(&format!("`{code}`")));
        let row = row.unwrap_or_else(|| panic!("{code} is not documented"));
        assert!(row.contains(&status.to_string()), "{row}");
    }
    let server = Server::start();
    let countd = start(&server, "");
    let (_, document) = countd.api().get("/openapi.json");
    let described = &document["components"]["schemas"]["ErrorCode"]["enum"];
    let described: BTreeSet<&str> = described
        .as_array()
        .expect("the codes")
        .iter()
        .filter_map(Json::as_str)
        .collect();
    let codes: BTreeSet<&str> = CODES.iter().map(|(code, _)| *code).collect();
    assert_eq!(described, codes);
}

#[test]
fn every_route_rejects_bad_requests_with_the_same_codes() {
    let server = Server::start();
    let config = "[http]\nmax_body_bytes = 2000\nmax_batch = 3\nmax_actions = 3\n";
    let countd = start(&server, config);
    let api = countd.api();
    for root in ["", "/api/v1"] {
        for (path, body) in posts() {
            let path = &format!("{root}{path}");
            let content_type = |name| [("content-type", name)];
            for name in [
                "text/plain",
                "application/x-www-form-urlencoded",
                "application/xml",
            ] {
                let response = api.request(path, &content_type(name), Some(&body));
                assert_problem(&response, "unsupported_media_type");
            }
            let nothing = api.request_text("POST", path, &[], "");
            assert_problem(&nothing, "unsupported_media_type");
            let long = "x".repeat(3_000);
            let response = api.request_text("POST", path, &content_type("application/json"), &long);
            assert_problem(&response, "too_large");
            let response = api.request_text("DELETE", path, &[], "");
            assert_problem(&response, "no_method");
            if is_line(path.trim_start_matches("/api/v1")) {
                continue;
            }
            let response =
                api.request_text("POST", path, &content_type("application/json"), "nonsense");
            assert_problem(&response, "malformed");
            let good = api.request(
                path,
                &content_type("application/merge-patch+json"),
                Some(&body),
            );
            assert_eq!(good.status, 200, "{path}: {}", good.json);
        }
        for path in GETS {
            let path = &format!("{root}{path}");
            assert_problem(&api.request_text("PATCH", path, &[], ""), "no_method");
            let separator = if path.contains('?') { '&' } else { '?' };
            let response = api.request(&format!("{path}{separator}nonsense=1"), &[], None);
            assert_problem(&response, "malformed");
        }
        assert_problem(
            &api.request(&format!("{root}/nowhere"), &[], None),
            "no_route",
        );
    }
    let four = json!([{ "etype": "note", "eid": "1" }, { "etype": "note", "eid": "2" },
        { "etype": "note", "eid": "3" }, { "etype": "note", "eid": "4" }]);
    for (path, body) in [
        ("/counter/batch", json!({ "items": four })),
        (
            "/status/batch",
            json!({ "uid": "1", "items": four, "metrics": ["like"] }),
        ),
        (
            "/relation/counter/batch",
            json!({ "uids": ["1", "2", "3", "4"] }),
        ),
        ("/events", json!([0, 0, 0, 0])),
    ] {
        assert_problem(&api.request(path, &[], Some(&body)), "too_many");
    }
}

#[test]
fn unknown_metrics_and_types_are_404_on_every_route() {
    let server = Server::start();
    let countd = start(&server, "");
    let api = countd.api();
    for path in [
        "/counter/note/1?metrics=nope",
        "/status/note/1?uid=1&metrics=nope",
        "/who/nope/note/1",
        "/user/42/nope/note",
    ] {
        assert_problem(&api.request(path, &[], None), "unknown_metric");
    }
    for path in [
        "/counter/cat/1",
        "/status/cat/1?uid=1&metrics=like",
        "/who/like/cat/1",
        "/user/42/like/cat",
    ] {
        assert_problem(&api.request(path, &[], None), "unknown_type");
    }
    let of = |etype: &str| json!([{ "etype": etype, "eid": "1" }]);
    let on_cat = json!({ "etype": "cat", "eid": "1", "uid": "42" });
    for (path, body, code) in [
        ("/action/nope", on_note(1, 42), "unknown_metric"),
        ("/action/unnope", on_note(1, 42), "unknown_metric"),
        ("/action/like", on_cat, "unknown_type"),
        (
            "/counter/reset",
            json!({ "etype": "note", "eid": "1", "metric": "nope" }),
            "unknown_metric",
        ),
        (
            "/counter/reset",
            json!({ "etype": "cat", "eid": "1", "metric": "read" }),
            "unknown_type",
        ),
        (
            "/counter/batch",
            json!({ "items": of("cat") }),
            "unknown_type",
        ),
        (
            "/counter/batch",
            json!({ "items": of("note"), "metrics": ["nope"] }),
            "unknown_metric",
        ),
        (
            "/status/batch",
            json!({ "uid": "1", "items": of("cat"), "metrics": ["like"] }),
            "unknown_type",
        ),
        (
            "/status/batch",
            json!({ "uid": "1", "items": of("note"), "metrics": ["nope"] }),
            "unknown_metric",
        ),
    ] {
        assert_problem(&api.request(path, &[], Some(&body)), code);
    }
    // A line and an envelope report the same code and its status.
    let lines = [
        ("nope", "note", "unknown_metric"),
        ("like", "cat", "unknown_type"),
    ];
    for (metric, etype, code) in lines {
        let line = json!({ "metric": metric, "etype": etype, "eid": "1", "uid": "42" });
        let (status, text) = api
            .try_post("/actions", &line.to_string())
            .expect("a response");
        let json: Json = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            (status, &json["error"]["code"]),
            (200, &json!(code)),
            "{json}"
        );
        assert_eq!(json["error"]["status"], 404, "{json}");
        assert!(json["error"]["detail"].is_string(), "{json}");
        let envelope = json!({ "event_id": "e", "event_type": metric, "aggregate_type": etype, "aggregate_id": "1",
            "payload": { "delta": 1, "uid": "42" } });
        let response = api.request("/events", &[], Some(&envelope));
        assert_problem(&response, "unprocessable");
        let item = &response.json["errors"][0];
        assert_eq!(
            (&item["item"], &item["code"], &item["status"]),
            (&json!(0), &json!(code), &json!(404)),
            "{item}"
        );
    }
    // The metric exists, but not for this type.
    let response = api.request("/counter/note/1?metrics=follow", &[], None);
    assert_problem(&response, "unprocessable");
    // The first action that names the author registers them.
    let named =
        |author: &str| json!({ "etype": "note", "eid": "2", "uid": "42", "author": author });
    assert_eq!(
        api.request("/action/like", &[], Some(&named("7"))).status,
        200
    );
    assert_problem(
        &api.request("/action/like", &[], Some(&named("8"))),
        "author_mismatch",
    );
    // An idempotency key belongs to one request.
    let keyed = |author: &str| json!({ "etype": "note", "eid": "1", "uid": "42", "author": author, "idempotencyKey": "k" });
    assert_eq!(
        api.request("/action/like", &[], Some(&keyed("7"))).status,
        200
    );
    assert_problem(
        &api.request("/action/like", &[], Some(&keyed("8"))),
        "key_reused",
    );
    // A field is named.
    let response = api.request("/counter/note/a:b", &[], None);
    assert_problem(&response, "malformed");
    assert_eq!(response.json["errors"][0]["field"], "eid");
}
