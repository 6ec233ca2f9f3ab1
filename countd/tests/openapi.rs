//! The examples of the OpenAPI document are requests that succeed, and the responses to them.

use crate::support::{Countd, Response, Settings, set_schema};
use countd::domain::config::DEFAULTS;
use countint_tests::{Server, wait_until};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// The operations in an order in which each example gets its example response.
const ORDER: [(&str, &str); 22] = [
    ("put", "/entity/{etype}/{eid}"),
    ("get", "/entity/{etype}/{eid}"),
    ("post", "/action/{metric}"),
    ("post", "/actions"),
    ("post", "/counter/reset"),
    ("post", "/events"),
    ("get", "/counter/{etype}/{eid}"),
    ("post", "/counter/batch"),
    ("get", "/history/{metric}/{etype}/{eid}"),
    ("post", "/history/batch"),
    ("get", "/status/{etype}/{eid}"),
    ("post", "/status/batch"),
    ("post", "/feed"),
    ("get", "/who/{metric}/{etype}/{eid}"),
    ("get", "/user/{uid}/{metric}/{etype}"),
    ("get", "/user/{uid}/followings"),
    ("get", "/user/{uid}/followers"),
    ("get", "/relation/counter"),
    ("post", "/relation/counter/batch"),
    ("post", "/relation/counter/reset"),
    ("post", "/counter/adjust"),
    ("get", "/healthz"),
];
/// Operations whose responses have IDs and times of their own.
const JOBS: [(&str, &str); 3] = [
    ("delete", "/entity/{etype}/{eid}"),
    ("delete", "/user/{uid}"),
    ("get", "/jobs/{id}"),
];
/// Operations whose responses have the current day.
const OF_TODAY: [(&str, &str); 1] = [("get", "/rank/{name}")];
/// Operations whose responses have no example.
const WITHOUT_EXAMPLE: [(&str, &str); 4] = [
    ("get", "/changes"),
    ("get", "/readyz"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
];

/// The path of an operation with its example parameters.
fn example_path(path: &str, operation: &Json) -> String {
    let (mut path, mut query) = (format!("/api/v1{path}"), Vec::new());
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().expect("a name");
        let example = parameter["example"].as_str();
        match (parameter["in"].as_str(), example) {
            (Some("path"), example) => {
                let example = example.unwrap_or_else(|| panic!("{path}: {name} has no example"));
                path = path.replace(&format!("{{{name}}}"), example);
            }
            (Some("query"), Some(example)) => query.push(format!("{name}={example}")),
            (_, None) => assert_eq!(parameter["required"], false, "{path}: {name}"),
            _ => {}
        }
    }
    match query.is_empty() {
        true => path,
        false => format!("{path}?{}", query.join("&")),
    }
}

/// Each example of a request body, with its content type.
fn example_bodies(operation: &Json) -> Vec<(String, String)> {
    let contents = operation["requestBody"]["content"].as_object();
    let text = |(content_type, content): (&String, &Json)| {
        let example = &content["example"];
        assert!(!example.is_null(), "{content_type}: no example");
        let text = match content_type.as_str() {
            "application/x-ndjson" => {
                let lines = example.as_array().expect("a list of lines");
                let lines: Vec<String> = lines.iter().map(Json::to_string).collect();
                lines.join("\n")
            }
            _ => example.to_string(),
        };
        (content_type.clone(), text)
    };
    contents.into_iter().flatten().map(text).collect()
}

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
    let paths = document["paths"].as_object().expect("paths");
    let operations: BTreeSet<(&str, &str)> = paths
        .iter()
        .flat_map(|(path, operations)| {
            let operations = operations.as_object().expect("operations");
            operations
                .keys()
                .map(move |method| (method.as_str(), path.as_str()))
        })
        .collect();
    let known: BTreeSet<(&str, &str)> = ORDER
        .into_iter()
        .chain(JOBS)
        .chain(OF_TODAY)
        .chain(WITHOUT_EXAMPLE)
        .collect();
    assert_eq!(operations, known, "each operation is tried");
    for (method, path) in ORDER {
        let operation = &paths[path][method];
        let target = example_path(path, operation);
        let responses: Vec<Response> = match method {
            "get" => vec![api.request(&target, &[], None)],
            _ => example_bodies(operation)
                .iter()
                .map(|(content_type, body)| {
                    let headers = [("content-type", content_type.as_str())];
                    api.request_text(&method.to_uppercase(), &target, &headers, body)
                })
                .collect(),
        };
        assert!(!responses.is_empty(), "{method} {path}");
        let contents = &operation["responses"]["200"]["content"];
        for response in responses {
            assert_eq!(response.status, 200, "{method} {target}: {}", response.json);
            let content_type = response.header("content-type").split(';').next();
            let content = &contents[content_type.expect("a content type")];
            assert!(content.is_object(), "{method} {path}: {contents}");
            if path != "/healthz" {
                assert_eq!(response.json, content["example"], "{method} {target}");
            }
        }
    }
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
    let (_, document) = api.get("/api/v1/openapi.json");
    let mut job = String::new();
    for (method, path) in JOBS {
        let operation = &document["paths"][path][method];
        let target = match method {
            "get" => job.clone(),
            _ => example_path(path, operation),
        };
        wait_until("the response is as in the example", || {
            let response = api.request_text(&method.to_uppercase(), &target, &[], "");
            let status = response.status.to_string();
            let example =
                &operation["responses"][&status]["content"]["application/json"]["example"];
            if method == "delete" {
                job = response.header("location").to_owned();
            }
            // A job that runs has other fields than one that has ended.
            response.json["state"] == example["state"] && {
                assert_eq!(fields(&response.json), fields(example), "{method} {target}");
                assert_eq!(
                    response.json["kind"].is_string(),
                    example["kind"].is_string()
                );
                true
            }
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

fn check_ids(value: &Json, ids: &mut usize) {
    match value {
        Json::Object(fields) => {
            for (name, value) in fields {
                if ["eid", "uid", "author", "aggregate_id"].contains(&name.as_str())
                    && !value.is_object()
                {
                    assert!(value.is_string(), "{name}: {value}");
                    *ids += 1;
                }
                check_ids(value, ids);
            }
        }
        Json::Array(items) => items.iter().for_each(|item| check_ids(item, ids)),
        _ => {}
    }
}
