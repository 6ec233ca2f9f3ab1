//! Errors that do not depend on the request: rights, limits, Redis and schemas.

use super::{api_operations, assert_problem, start};
use crate::support::operations::Operation;
use crate::support::stores::TestStore;
use crate::support::{Countd, Settings};
use countint_tests::{Server, wait_until};
use std::collections::BTreeSet;

/// The entity and the user of the examples.
const EID: &str = "114327608932745216";
const UID: &str = "113984275610238976";

/// The operations that require the right `admin`.
const ADMINISTRATION: [(&str, &str); 5] = [
    ("DELETE", "/entity/{etype}/{eid}"),
    ("DELETE", "/user/{uid}"),
    ("GET", "/hot"),
    ("GET", "/jobs/{id}"),
    ("POST", "/counter/adjust"),
];

fn is_line(operation: &Operation) -> bool {
    operation.path == "/actions"
}

/// The names of the operations that a condition selects.
fn names<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> BTreeSet<(&'a str, &'a str)> {
    operations.into_iter().map(Operation::name).collect()
}

#[test]
fn every_operation_requires_a_token_with_its_right() {
    let server = Server::start();
    let rights = ["read", "write", "admin"];
    let tokens = rights.map(|right| {
        format!("{{ token = \"{right}-{right}-{right}-{right}\", rights = [\"{right}\"] }}")
    });
    let config = format!("[auth]\ntokens = [{}]\n", tokens.join(", "));
    let countd = start(&server, &config);
    let anonymous = countd.api();
    let api_of =
        |right: &str| anonymous.authorized(&format!("Bearer {right}-{right}-{right}-{right}"));
    for operation in api_operations(&anonymous) {
        let name = operation.name();
        let response = operation.send(&anonymous, "");
        assert_problem(&response, "unauthorized");
        assert!(response.header("www-authenticate").starts_with("Bearer"));
        let mut permitted = Vec::new();
        for right in rights {
            let response = operation.send(&api_of(right), "/api/v1");
            match response.status {
                403 => {
                    assert_problem(&response, "forbidden");
                    assert_eq!(response.header("www-authenticate"), "");
                }
                // The example of an unknown job, and changes, which are off.
                404 => permitted.push(right),
                status => {
                    assert!(
                        [200, 202, 503].contains(&status),
                        "{name:?}: {}",
                        response.json
                    );
                    permitted.push(right);
                }
            }
        }
        let expected = match ADMINISTRATION.contains(&name) {
            true => "admin",
            false if is_read(&operation) => "read",
            false => "write",
        };
        assert_eq!(permitted, [expected], "{name:?}");
    }
    let metrics = anonymous.request("/metrics", &[], None);
    assert_problem(&metrics, "unauthorized");
}

/// Whether an operation changes nothing.
fn is_read(operation: &Operation) -> bool {
    operation.method == "GET" || operation.path.ends_with("/batch") || operation.path == "/feed"
}

#[test]
fn every_operation_is_limited_with_429() {
    let server = Server::start();
    let config = "[limits]\nexempt = []\naddress = { per_second = 1, burst = 10 }\n";
    let countd = start(&server, config);
    let api = countd.api();
    let all = api_operations(&api);
    for operation in &all {
        assert!(operation.documents(429), "{:?}", operation.name());
        let mut responses = (0..100).map(|_| operation.send(&api, ""));
        let response = responses.find(|response| response.status == 429);
        assert_problem(&response.expect("a refusal"), "limited");
    }
}

/// A token cannot be guessed by trying many, whatever right it has. Scrapes of `/metrics` are not limited.
#[test]
fn requests_with_a_wrong_token_are_limited() {
    let server = Server::start();
    let config = "[auth]\ntokens = [{ token = \"0123456789abcdef\", rights = [\"read\", \"write\", \"admin\"] }]\n\
                  [limits]\nexempt = []\naddress = { per_second = 1, burst = 10 }\n";
    let countd = start(&server, config);
    let guess = countd.api().authorized("Bearer fedcba9876543210");
    for operation in api_operations(&guess) {
        let mut responses = (0..100).map(|_| operation.send(&guess, ""));
        let response = responses.find(|response| response.status != 401);
        assert_problem(&response.expect("a refusal"), "limited");
    }
    for _ in 0..20 {
        let metrics = guess.request("/metrics", &[], None);
        assert_problem(&metrics, "unauthorized");
    }
}

#[test]
fn every_operation_reports_damaged_keys() {
    let server = Server::start();
    let countd = start(&server, "");
    let api = countd.api();
    let mut client = server.client();
    let (note, user) = (
        TestStore::partition(&format!("note:{EID}"), 1024),
        TestStore::partition(UID, 1024),
    );
    let job = "8f14e45fceea167a5a36dedd4bea2543";
    for key in [
        &format!("tab:v1:note:{note}"),
        &format!("aut:note:{note}"),
        &format!("rbm:like:note:{EID}"),
        &format!("rbm:follow:user:{UID}"),
        &format!("rtl:publish:note:{UID}"),
        &format!("rtl:follow:user:{UID}"),
        &format!("utab:{user}"),
        &format!("h:agg:read:note:{EID}"),
        &format!("countd:{{jobs}}:{job}"),
        "rank:hot:note:state",
    ] {
        client.ok(&format!("SADD {key} 1"));
    }
    let all = api_operations(&api);
    // The other operations: batches, whose items fail alone; appends to the log; jobs, which run later; changes, which are off; hot
    // entities, which have no keys; and rankings, which are filled again.
    let undamaged = all.iter().filter(|operation| {
        let response = operation.send(&api, "");
        let is_damaged = response.status == 500;
        if is_damaged {
            assert_problem(&response, "damaged");
        }
        !is_damaged
    });
    let expected = [
        ("DELETE", "/entity/{etype}/{eid}"),
        ("DELETE", "/user/{uid}"),
        ("GET", "/changes"),
        ("GET", "/hot"),
        ("GET", "/rank/{name}"),
        ("POST", "/actions"),
        ("POST", "/counter/batch"),
        ("POST", "/events"),
        ("POST", "/feed"),
        ("POST", "/history/batch"),
        ("POST", "/relation/counter/batch"),
        ("POST", "/status/batch"),
    ];
    assert_eq!(names(undamaged), BTreeSet::from(expected));
    for path in [
        "/counter/batch",
        "/feed",
        "/history/batch",
        "/relation/counter/batch",
        "/status/batch",
    ] {
        let operation = all.iter().find(|operation| operation.path == path);
        let response = operation.expect("described").send(&api, "");
        let item = response
            .json
            .pointer("/items/0")
            .or(response.json.pointer("/users/0"));
        let error = &item.expect("an item")["error"];
        assert_eq!(error["code"], "damaged", "{path}: {}", response.json);
    }
}

#[test]
fn every_operation_reports_that_redis_is_unavailable() {
    let mut server = Server::builder().append_only(true).start();
    let countd = start(
        &server,
        "[redis]\nresponse_timeout_ms = 500\n[rank]\ncache_ms = 0\n",
    );
    let api = countd.api();
    // An ACL that rejects commands while countd runs.
    server.client().ok("ACL SETUSER default -rbm.page");
    let status = api.request(
        &format!("/status/note/{EID}?uid={UID}&metrics=like"),
        &[],
        None,
    );
    assert_problem(&status, "internal");
    server.client().ok("ACL SETUSER default +@all");
    server.kill();
    for operation in api_operations(&api) {
        // Each line has a status of its own, and changes are off.
        if is_line(&operation) || operation.path == "/changes" {
            continue;
        }
        let name = operation.name();
        wait_until("Redis is unavailable", || {
            operation.send(&api, "").status == 503
        });
        let response = operation.send(&api, "/api/v1");
        assert_eq!(response.status, 503, "{name:?}: {}", response.json);
        assert_problem(&response, "unavailable");
    }
    assert_problem(&api.request("/readyz", &[], None), "unavailable");
}

#[test]
fn a_missing_schema_is_503_on_every_operation() {
    let server = Server::start();
    // Without the default schema.
    let (command, config) = ("serve", "[entities]\nnote = \"v1\"\n");
    let countd = Countd::with(&server, &Settings { command, config });
    let api = countd.api();
    assert_problem(&api.request("/readyz", &[], None), "schema");
    let all = api_operations(&api);
    let with_schema = all.iter().filter(|operation| {
        let response = operation.send(&api, "");
        let is_schema = response.json["code"] == "schema";
        if is_schema {
            assert_problem(&response, "schema");
        }
        is_schema
    });
    let expected = [
        ("GET", "/counter/{etype}/{eid}"),
        ("POST", "/action/{metric}"),
        ("POST", "/counter/adjust"),
        ("POST", "/counter/batch"),
        ("POST", "/counter/reset"),
        ("POST", "/events"),
        ("POST", "/feed"),
    ];
    assert_eq!(names(with_schema), BTreeSet::from(expected));
}
