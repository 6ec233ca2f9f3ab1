//! Each error code has one status and the same body on every route: problem details of RFC 9457.

mod refusals;
mod requests;

use crate::support::operations::{Operation, operations};
use crate::support::{Api, Countd, Response, Settings, set_schema};
use countd::domain::config::DEFAULTS;
use countint_tests::Server;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// The documented codes and their statuses.
const CODES: [(&str, u16); 33] = [
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
    ("merging", 503),
    ("not_acknowledged", 503),
    ("not_counting", 503),
    ("not_filled", 503),
    ("schema", 503),
    ("stopping", 503),
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

/// A process that answers every operation: with a ranking, counts by day, and a counter of users.
fn start(server: &Server, config: &str) -> Countd {
    let read = "[metrics.read]\n";
    let (_, metrics) = DEFAULTS.split_once(read).expect("metrics");
    let config = &format!(
        "{config}[users]\ncounters = [\"unread\"]\n[rank.hot]\nweights = {{ read = 1 }}\nwindow_days = 7\n\
         {read}daily = true\n{metrics}"
    );
    set_schema(server, config);
    let command = "serve";
    Countd::with(server, &Settings { command, config })
}

/// The operations of the API, without health checks, metrics and the document. They come from the document, so the tests include new ones.
fn api_operations(api: &Api) -> Vec<Operation> {
    let all = operations(api);
    let others = all.iter().filter(|operation| !operation.is_of_api());
    let others: Vec<&str> = others.map(|operation| operation.path.as_str()).collect();
    assert_eq!(others, ["/healthz", "/metrics", "/openapi.json", "/readyz"]);
    all.into_iter().filter(Operation::is_of_api).collect()
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
fn items_and_actions_have_the_same_codes() {
    let server = Server::start();
    let countd = start(&server, "");
    let api = countd.api();
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
