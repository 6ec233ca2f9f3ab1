//! Errors of requests, on every operation that the OpenAPI document describes.

use super::{api_operations, assert_problem, start};
use crate::support::operations::Operation;
use crate::support::{Api, Response};
use countint_tests::Server;
use serde_json::{Value as Json, json};

/// The maximum numbers of items in these tests.
const LIMITS: &str = "[http]\nmax_body_bytes = 2000\nmax_batch = 3\nmax_actions = 3\n";

/// Whether each line of the body has a result of its own.
fn has_lines(operation: &Operation) -> bool {
    operation.path == "/actions"
}

#[test]
fn every_operation_rejects_other_methods_and_parameters() {
    let server = Server::start();
    let countd = start(&server, LIMITS);
    let api = countd.api();
    for root in ["", "/api/v1"] {
        for operation in api_operations(&api) {
            let target = format!("{root}{}", operation.target());
            let response = api.request_text("PATCH", &target, &[], "");
            assert_problem(&response, "no_method");
            let allowed = response.header("allow");
            assert!(allowed.contains(&operation.method), "{target}: {allowed}");
            if operation.bodies().is_empty() {
                let separator = if target.contains('?') { '&' } else { '?' };
                let target = format!("{target}{separator}nonsense=1");
                let response = api.request_text(&operation.method, &target, &[], "");
                assert_problem(&response, "malformed");
            }
        }
        let nowhere = api.request(&format!("{root}/nowhere"), &[], None);
        assert_problem(&nowhere, "no_route");
    }
}

#[test]
fn every_body_is_checked() {
    let server = Server::start();
    let countd = start(&server, LIMITS);
    let api = countd.api();
    for root in ["", "/api/v1"] {
        for operation in api_operations(&api) {
            for (content_type, body) in operation.bodies() {
                let target = format!("{root}{}", operation.target());
                check_body(&api, (&operation, &target), (&content_type, &body));
            }
        }
    }
}

fn check_body(
    api: &Api,
    (operation, target): (&Operation, &str),
    (content_type, body): (&str, &str),
) {
    for other in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/xml",
    ] {
        let response = operation.send_body(api, target, (other, body));
        assert_problem(&response, "unsupported_media_type");
    }
    let nothing = api.request_text(&operation.method, target, &[], "");
    assert_problem(&nothing, "unsupported_media_type");
    let long = "x".repeat(3_000);
    let response = operation.send_body(api, target, (content_type, &long));
    assert_problem(&response, "too_large");
    if has_lines(operation) {
        return;
    }
    let response = operation.send_body(api, target, (content_type, "nonsense"));
    assert_problem(&response, "malformed");
    if content_type == "application/json" {
        let merge_patch = "application/merge-patch+json";
        let response = operation.send_body(api, target, (merge_patch, body));
        assert_eq!(response.status, 200, "{target}: {}", response.json);
        // A body has only documented fields.
        let mut more: Json = serde_json::from_str(body).expect("JSON");
        if let Some(fields) = more.as_object_mut() {
            fields.insert("nonsense".to_owned(), json!(1));
            let response = operation.send_body(api, target, (content_type, &more.to_string()));
            assert_problem(&response, "malformed");
        }
    }
}

/// Bodies with four items in a list of the example.
fn with_long_lists(operation: &Operation) -> Vec<String> {
    let long = |list: &Json| json!(vec![list[0].clone(); 4]);
    match operation.json_body() {
        None => Vec::new(),
        Some(list @ Json::Array(_)) => vec![long(&list).to_string()],
        Some(example) => {
            let fields = example.as_object().expect("an object");
            let lists = fields.iter().filter(|(_, value)| value.is_array());
            let bodies = lists.map(|(name, list)| {
                let mut body = example.clone();
                body[name] = long(list);
                body.to_string()
            });
            bodies.collect()
        }
    }
}

#[test]
fn every_list_has_a_maximum() {
    let server = Server::start();
    let countd = start(&server, LIMITS);
    let api = countd.api();
    let mut lists = 0;
    for operation in api_operations(&api) {
        for body in with_long_lists(&operation) {
            let of = ("application/json", body.as_str());
            let response = operation.send_body(&api, &operation.target(), of);
            assert_problem(&response, "too_many");
            lists += 1;
        }
    }
    assert!(lists >= 10, "{lists} lists in bodies");
    let lines = ["{}"; 4].join("\n");
    for path in ["/actions", "/events"] {
        let (status, body) = api
            .try_send(path, "application/x-ndjson", &lines)
            .expect("a response");
        assert_eq!(status, 413, "{path}: {body}");
    }
}

/// The parameter or the field of a body that names something that must be configured or exist, a name that is unknown, and its error.
const NAMES: [(&str, &str, &str); 6] = [
    ("metric", "nope", "unknown_metric"),
    ("metrics", "nope", "unknown_metric"),
    ("etype", "cat", "unknown_type"),
    ("counters", "nope", "unknown_counter"),
    ("counter", "nope", "unknown_counter"),
    ("name", "nope", "unknown_ranking"),
];

/// Replaces every field of this name. Returns whether there is one.
fn replace(body: &mut Json, field: &str, value: &str) -> bool {
    match body {
        Json::Object(fields) => {
            let mut found = false;
            for (name, of) in fields {
                if name == field {
                    *of = if of.is_array() {
                        json!([value])
                    } else {
                        json!(value)
                    };
                    found = true;
                } else {
                    found |= replace(of, field, value);
                }
            }
            found
        }
        Json::Array(items) => items
            .iter_mut()
            .fold(false, |found, item| replace(item, field, value) | found),
        _ => false,
    }
}

/// The response to the example request with another value of a parameter or field; `None` if it has no such field.
fn send_with(api: &Api, operation: &Operation, field: &str, value: &str) -> Option<Response> {
    let target = operation.target_with(|name, example| {
        let value = if name == field { value } else { example };
        value.to_owned()
    });
    let is_parameter = target != operation.target();
    let mut body = operation.json_body();
    let is_field = body
        .as_mut()
        .is_some_and(|body| replace(body, field, value));
    if !is_parameter && !is_field {
        return None;
    }
    Some(match body {
        Some(body) => operation.send_body(api, &target, ("application/json", &body.to_string())),
        None => api.request_text(&operation.method, &target, &[], ""),
    })
}

#[test]
fn unknown_names_are_404_on_every_operation() {
    let server = Server::start();
    let countd = start(&server, "[changes]\nenabled = true\n");
    let api = countd.api();
    let mut requests = 0;
    for operation in api_operations(&api) {
        for (field, unknown, code) in NAMES {
            if let Some(response) = send_with(&api, &operation, field, unknown) {
                assert_problem(&response, code);
                requests += 1;
            }
        }
    }
    assert!(requests > 30, "{requests} parameters and fields with names");
    let response = api.request(
        "/action/unnope",
        &[],
        Some(&json!({ "eid": "1", "uid": "2" })),
    );
    assert_problem(&response, "unknown_metric");
    let response = api.request("/jobs/0123456789abcdef0123456789abcdef", &[], None);
    assert_problem(&response, "unknown_job");
}
