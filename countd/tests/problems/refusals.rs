//! Errors that do not depend on the request: rights, limits, Redis and schemas.

use super::{GETS, assert_problem, is_line, posts, start};
use crate::support::stores::TestStore;
use crate::support::{Countd, Settings};
use countint_tests::{Server, wait_until};
use serde_json::Value as Json;

#[test]
fn every_route_requires_a_token_with_its_right() {
    let server = Server::start();
    let config = "[auth]\ntokens = [{ token = \"admin-admin-admin\", rights = [\"admin\"] }]\n";
    let countd = start(&server, config);
    let anonymous = countd.api();
    let admin = anonymous.authorized("Bearer admin-admin-admin");
    for (api, code) in [(&anonymous, "unauthorized"), (&admin, "forbidden")] {
        let requests = posts();
        let requests = requests.iter().map(|(path, body)| (*path, Some(body)));
        for (path, body) in requests.chain(GETS.map(|path| (path, None))) {
            let response = api.request(path, &[], body);
            assert_problem(&response, code);
            let challenge = response.header("www-authenticate");
            assert_eq!(challenge.starts_with("Bearer"), code == "unauthorized");
        }
    }
    assert_problem(&anonymous.request("/metrics", &[], None), "unauthorized");
}

#[test]
fn every_route_is_limited_with_429() {
    let server = Server::start();
    let config = "[limits]\nexempt = []\naddress = { per_second = 1, burst = 1 }\n";
    let countd = start(&server, config);
    let api = countd.api();
    let limited = |path: &str, body: Option<&Json>| {
        let mut responses = (0..50).map(|_| api.request(path, &[], body));
        let response = responses.find(|response| response.status != 200);
        assert_problem(&response.expect("a refusal"), "limited");
    };
    posts()
        .iter()
        .for_each(|(path, body)| limited(path, Some(body)));
    GETS.iter().for_each(|path| limited(path, None));
}

#[test]
fn every_route_reports_redis_and_damaged_keys() {
    let mut server = Server::builder().append_only(true).start();
    let countd = start(&server, "[redis]\nresponse_timeout_ms = 500\n");
    let api = countd.api();
    let mut client = server.client();
    let (note, user) = (
        TestStore::partition("note:1", 1024),
        TestStore::partition("42", 1024),
    );
    for key in [
        &format!("tab:v1:note:{note}"),
        &format!("aut:note:{note}"),
        "rbm:like:note:1",
        "rbm:follow:user:42",
        "rtl:like:note:42",
        "rtl:follow:user:42",
        &format!("utab:{user}"),
    ] {
        client.ok(&format!("SADD {key} 1"));
    }
    for path in GETS {
        assert_problem(&api.request(path, &[], None), "damaged");
    }
    let damaged = ["/action/like", "/counter/reset"];
    for (path, body) in posts() {
        if damaged.contains(&path) {
            assert_problem(&api.request(path, &[], Some(&body)), "damaged");
        }
    }
    drop(client);
    // An ACL that rejects commands while countd runs.
    server.client().ok("ACL SETUSER default -rbm.page");
    let status = api.request(GETS[1], &[], None);
    assert_problem(&status, "internal");
    server.client().ok("ACL SETUSER default +@all");
    server.kill();
    for path in GETS {
        wait_until("Redis is unavailable", || {
            api.request(path, &[], None).status == 503
        });
        assert_problem(&api.request(path, &[], None), "unavailable");
    }
    for (path, body) in posts().iter().filter(|(path, _)| !is_line(path)) {
        assert_problem(&api.request(path, &[], Some(body)), "unavailable");
    }
    assert_problem(&api.request("/readyz", &[], None), "unavailable");
}

#[test]
fn a_missing_schema_is_503_on_every_route() {
    let server = Server::start();
    let command = "serve";
    let countd = Countd::with(
        &server,
        &Settings {
            command,
            config: "",
        },
    );
    let api = countd.api();
    assert_problem(&api.request("/readyz", &[], None), "schema");
    assert_problem(&api.request("/counter/note/1", &[], None), "schema");
    let paths = [
        "/action/like",
        "/events",
        "/counter/reset",
        "/counter/batch",
    ];
    for (path, body) in posts().iter().filter(|(path, _)| paths.contains(path)) {
        assert_problem(&api.request(path, &[], Some(body)), "schema");
    }
}
