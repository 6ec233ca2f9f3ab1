//! The examples of the OpenAPI document are requests that succeed, and the responses to them.

use crate::support::operations::{Operation, operations};
use crate::support::{Countd, Response, Settings, set_schema};
use countd::domain::config::DEFAULTS;
use countint_tests::env::workspace;
use countint_tests::{Server, wait_until};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The operations in an order in which each example gets its example response.
const ORDER: [(&str, &str); 19] = [
    ("PUT", "/entity/{etype}/{eid}"),
    ("GET", "/entity/{etype}/{eid}"),
    ("POST", "/action/{metric}"),
    ("POST", "/actions"),
    ("POST", "/counter/reset"),
    ("POST", "/events"),
    ("GET", "/counter/{etype}/{eid}"),
    ("POST", "/counter/batch"),
    ("GET", "/history/{metric}/{etype}/{eid}"),
    ("POST", "/history/batch"),
    ("GET", "/status/{etype}/{eid}"),
    ("POST", "/status/batch"),
    ("POST", "/feed"),
    ("GET", "/who/{metric}/{etype}/{eid}"),
    ("GET", "/relation/counter"),
    ("POST", "/relation/counter/batch"),
    ("POST", "/relation/counter/reset"),
    ("POST", "/counter/adjust"),
    ("GET", "/healthz"),
];
/// Operations whose responses have IDs and times of their own.
const JOBS: [(&str, &str); 3] = [
    ("DELETE", "/entity/{etype}/{eid}"),
    ("DELETE", "/user/{uid}"),
    ("GET", "/jobs/{id}"),
];
/// Lists of what a user did, which the consumer keeps.
const TIMELINES: [(&str, &str); 3] = [
    ("GET", "/user/{uid}/{metric}/{etype}"),
    ("GET", "/user/{uid}/followings"),
    ("GET", "/user/{uid}/followers"),
];
/// Operations whose responses have the current day.
const OF_TODAY: [(&str, &str); 1] = [("GET", "/rank/{name}")];
/// Operations whose responses need many requests.
const OF_MANY_REQUESTS: [(&str, &str); 1] = [("GET", "/hot")];
/// Operations whose responses have no example.
const WITHOUT_EXAMPLE: [(&str, &str); 4] = [
    ("GET", "/changes"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
];

#[test]
fn examples_are_requests_with_their_responses() {
    let server = Server::start();
    let read = "[metrics.read]\n";
    let (_, metrics) = DEFAULTS.split_once(read).expect("metrics");
    let config = format!("[users]\ncounters = [\"unread\"]\n{read}daily = true\n{metrics}");
    let config = config.as_str();
    set_schema(&server, config);
    // Without a consumer, which would count some of the examples before others are read.
    let command = "serve";
    let countd = Countd::with(&server, &Settings { command, config });
    let api = countd.api();
    let (_, document) = api.get("/api/v1/openapi.json");
    assert_eq!(document["servers"][0]["url"], "/api/v1");
    let operations = operations(&api);
    let described: BTreeSet<(&str, &str)> = operations.iter().map(Operation::name).collect();
    let known: BTreeSet<(&str, &str)> = ORDER
        .into_iter()
        .chain(TIMELINES)
        .chain(JOBS)
        .chain(OF_TODAY)
        .chain(OF_MANY_REQUESTS)
        .chain(WITHOUT_EXAMPLE)
        .collect();
    assert_eq!(described, known, "each operation is tried");
    for name in ORDER {
        let operation = find(&operations, name);
        let target = format!("/api/v1{}", operation.target());
        let responses: Vec<Response> = match operation.method.as_str() {
            "GET" => vec![operation.send(&api, "/api/v1")],
            _ => operation
                .bodies()
                .iter()
                .map(|(content_type, body)| {
                    operation.send_body(&api, &target, (content_type, body))
                })
                .collect(),
        };
        assert!(!responses.is_empty(), "{name:?}");
        let contents = &operation.description["responses"]["200"]["content"];
        for response in responses {
            assert_eq!(response.status, 200, "{name:?} {target}: {}", response.json);
            let content_type = response.header("content-type").split(';').next();
            let content = &contents[content_type.expect("a content type")];
            assert!(content.is_object(), "{name:?}: {contents}");
            if operation.path != "/healthz" {
                assert_eq!(response.json, content["example"], "{name:?} {target}");
            }
        }
    }
}

fn find<'a>(operations: &'a [Operation], name: (&str, &str)) -> &'a Operation {
    let mut operations = operations.iter();
    let found = operations.find(|operation| operation.name() == name);
    found.unwrap_or_else(|| panic!("{name:?} is not described"))
}

/// The fields of a JSON object.
fn fields(json: &Json) -> BTreeSet<&String> {
    json.as_object().expect("an object").keys().collect()
}

#[test]
fn jobs_have_the_form_of_their_examples() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let api = countd.api();
    let operations = operations(&api);
    let mut job = String::new();
    for name in JOBS {
        let operation = find(&operations, name);
        let target = match operation.method.as_str() {
            "GET" => job.clone(),
            _ => format!("/api/v1{}", operation.target()),
        };
        wait_until("the response is as in the example", || {
            let response = api.request_text(&operation.method, &target, &[], "");
            let responses = &operation.description["responses"];
            let of_status = &responses[response.status.to_string()];
            let example = &of_status["content"]["application/json"]["example"];
            if operation.method == "DELETE" {
                job = response.header("location").to_owned();
            }
            // A job that runs has other fields than one that has ended.
            response.json["state"] == example["state"] && {
                assert_eq!(fields(&response.json), fields(example), "{target}");
                assert_eq!(
                    response.json["kind"].is_string(),
                    example["kind"].is_string()
                );
                true
            }
        });
    }
}

#[test]
fn timelines_are_those_of_their_examples() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let api = countd.api();
    let (user, other) = ("113984275610238976", "113984275610241024");
    let published = json!({ "etype": "note", "eid": "114327608932745216", "uid": user });
    api.act("publish", published);
    api.act("follow", json!({ "eid": other, "uid": user }));
    api.act("follow", json!({ "eid": user, "uid": other }));
    let operations = operations(&api);
    for name in TIMELINES {
        let operation = find(&operations, name);
        let content = &operation.description["responses"]["200"]["content"]["application/json"];
        wait_until("the consumer has counted the actions", || {
            let mut response = operation.send(&api, "/api/v1").json;
            if let Some(ts) = response.pointer_mut("/items/0/ts") {
                assert!(ts.is_u64(), "{ts}");
                *ts = content["example"]["items"][0]["ts"].clone();
            }
            response == content["example"]
        });
    }
}

/// JavaScript cannot represent snowflakes as numbers.
#[test]
fn ids_in_examples_are_strings() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let (_, document) = countd.api().get("/openapi.json");
    let mut ids = 0;
    check_ids(&document, &mut ids);
    assert!(ids > 20, "{ids} IDs in examples");
    let number = json!(114_327_608_932_745_216_u64).to_string();
    let text = document.to_string();
    let unquoted = text.match_indices(&number).filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        before == Some(':') || before == Some('[') || before == Some(',')
    });
    assert_eq!(unquoted.count(), 0);
}

/// The fields that hold IDs.
const ID_FIELDS: [&str; 5] = ["eid", "uid", "uids", "author", "aggregate_id"];

/// README.md, the pages of docs, and the scripts that print requests.
fn documents() -> Vec<PathBuf> {
    let root = workspace();
    let mut found = ["README.md", "scripts/run", "scripts/fresh"]
        .map(|name| root.join(name))
        .to_vec();
    let mut directories = vec![root.join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// The first character of each value of a JSON field in a text.
fn values<'a>(text: &'a str, field: &str) -> impl Iterator<Item = char> + use<'a> {
    let parts = text
        .split(&format!("\"{field}\""))
        .skip(1)
        .collect::<Vec<_>>();
    parts.into_iter().filter_map(|rest| {
        let value = rest.trim_start().strip_prefix(':')?;
        value.trim_start().trim_start_matches('[').chars().next()
    })
}

#[test]
fn ids_in_examples_of_documents_are_strings() {
    let mut ids = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a text");
        for field in ID_FIELDS {
            for first in values(&text, field) {
                assert!(
                    !first.is_ascii_digit(),
                    "{}: {field} is a number",
                    path.display()
                );
                ids += 1;
            }
        }
    }
    assert!(ids > 30, "{ids} IDs in examples");
    assert_eq!(values("{\"eid\": 1}", "eid").next(), Some('1'));
    assert_eq!(values("{\"uids\":[7]}", "uids").next(), Some('7'));
}

fn check_ids(value: &Json, ids: &mut usize) {
    match value {
        Json::Object(fields) => {
            for (name, value) in fields {
                if ID_FIELDS.contains(&name.as_str()) && !value.is_object() {
                    let items = value.as_array();
                    let are_strings = items.is_some_and(|items| items.iter().all(Json::is_string));
                    assert!(value.is_string() || are_strings, "{name}: {value}");
                    *ids += 1;
                }
                check_ids(value, ids);
            }
        }
        Json::Array(items) => items.iter().for_each(|item| check_ids(item, ids)),
        _ => {}
    }
}
