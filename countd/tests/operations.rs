//! Operations: schemas, probes, metrics, shutdown and tokens.

use crate::support::{
    Api, Countd, assert_refused, on_note, printed, run, wait_until_drained, with,
};
use countint_tests::{Server, wait_until};
use serde_json::json;

#[test]
fn an_extended_schema_applies_without_a_restart() {
    let server = Server::start();
    let config = "[entities]\nnote = \"v1\"\n[metrics.like]\nnature = \"once\"\ncount = \"now\"\n[metrics.share]\nnature = \"repeatable\"\ncount = \"batched\"\n";
    let countd = Countd::start(&server, config);
    let api = countd.api();
    api.act("like", on_note(1, 42));
    assert_refused(&api, "/action/share", &on_note(1, 42), 422, "unprocessable");
    printed(&run(&server, config, &["schema", "extend", "v1", "share"]));
    api.act("share", on_note(1, 42));
    wait_until_drained(&server, 1024);
    assert_eq!(api.counts(1)["share"], 1, "the object has grown");
    assert_eq!(api.counts(1)["like"], 1);
}

#[test]
fn probes_and_metrics_are_exposed() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let api = countd.api();
    assert_eq!(api.get("/healthz").0, 200);
    assert_eq!(api.get("/readyz").0, 200);
    api.act("like", on_note(1, 42));
    api.act("like", on_note(1, 42));
    wait_until("the metrics are updated", || {
        let (_, text) = api.get("/metrics");
        let text = text.as_str().expect("a text");
        [
            "countd_events_appended_total 1",
            "countd_actions_duplicated_total 1",
            "countd_events_applied_total 1",
        ]
        .iter()
        .all(|line| text.lines().any(|found| found == *line))
    });
    server.client().ok("DEL schema:v1");
    assert_eq!(api.get("/readyz").0, 503);
}

#[test]
fn the_openapi_document_describes_every_route() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let api = countd.api();
    let (_, document) = api.get("/openapi.json");
    let paths = document["paths"].as_object().expect("paths");
    let mut described: Vec<String> = Vec::new();
    for (path, operations) in paths {
        for method in operations.as_object().expect("operations").keys() {
            described.push(format!("{method} {path}"));
            // By default there is no stream of changes: see changes.
            if path == "/changes" {
                continue;
            }
            // Under both prefixes the request reaches a route.
            for root in ["", "/api/v1"] {
                let path = format!("{root}{}", path.replace(['{', '}'], ""));
                let headers = [("content-type", "application/json")];
                let method = method.to_uppercase();
                let response = api.request_text(&method, &path, &headers, "0").json;
                let code = &response["code"];
                assert!(
                    code != "no_route" && code != "no_method",
                    "{method} {path}: {response}"
                );
            }
        }
    }
    described.sort();
    let page = include_str!("../../docs/countd/api.md");
    for path in paths.keys().map(|path| path.trim_start_matches('/')) {
        assert!(
            page.contains(path),
            "docs/countd/api.md does not name {path}"
        );
    }
    assert_eq!(
        described,
        [
            "delete /entity/{etype}/{eid}",
            "delete /user/{uid}",
            "get /changes",
            "get /counter/{etype}/{eid}",
            "get /entity/{etype}/{eid}",
            "get /healthz",
            "get /history/{metric}/{etype}/{eid}",
            "get /hot",
            "get /jobs/{id}",
            "get /metrics",
            "get /openapi.json",
            "get /rank/{name}",
            "get /readyz",
            "get /relation/counter",
            "get /status/{etype}/{eid}",
            "get /user/{uid}/followers",
            "get /user/{uid}/followings",
            "get /user/{uid}/{metric}/{etype}",
            "get /who/{metric}/{etype}/{eid}",
            "post /action/{metric}",
            "post /actions",
            "post /counter/adjust",
            "post /counter/batch",
            "post /counter/reset",
            "post /events",
            "post /feed",
            "post /history/batch",
            "post /relation/counter/batch",
            "post /relation/counter/reset",
            "post /status/batch",
            "put /entity/{etype}/{eid}",
        ]
    );
}

#[test]
fn shutdown_flushes_what_was_read() {
    let server = Server::start();
    let mut countd = Countd::start(&server, "");
    let api = countd.api();
    let lines: Vec<String> = (0..2_000)
        .map(|i| with(on_note(i % 50, i), json!({ "metric": "read" })).to_string())
        .collect();
    let (status, _) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("a response");
    assert_eq!(status, 200);
    countd.stop();
    countd.launch();
    wait_until_drained(&server, 1024);
    let total: u64 = (0..50)
        .map(|eid| countd.api().counts(eid)["read"].as_u64().expect("a count"))
        .sum();
    assert_eq!(total, 2_000);
}

#[test]
fn tokens_have_permissions() {
    let server = Server::start();
    let config = "[auth]\ntokens = [{ token = \"reader-reader-reader\", rights = [\"read\"] }, \
                  { token = \"writer-writer-writer\", rights = [\"read\", \"write\"] }, \
                  { token = \"admin-admin-admin\", rights = [\"admin\"] }]\n";
    let countd = Countd::start(&server, config);
    let anonymous = countd.api();
    let [reader, writer, admin] = [
        "reader-reader-reader",
        "writer-writer-writer",
        "admin-admin-admin",
    ]
    .map(|token| anonymous.authorized(&format!("Bearer {token}")));
    let unknown = anonymous.authorized("Bearer reader-reader-reade");
    let basic = anonymous.authorized("Basic reader-reader-reader");
    for root in ["", "/api/v1"] {
        let act = |api: &Api| api.post(&format!("{root}/action/like"), &on_note(1, 42)).0;
        let read = |api: &Api| api.get(&format!("{root}/counter/note/1")).0;
        let scrape = |api: &Api| api.get(&format!("{root}/metrics")).0;
        for api in [&anonymous, &unknown, &basic] {
            assert_eq!([act(api), read(api), scrape(api)], [401, 401, 401]);
        }
        assert_eq!(
            [act(&reader), read(&reader), scrape(&reader)],
            [403, 200, 403]
        );
        assert_eq!(
            [act(&writer), read(&writer), scrape(&writer)],
            [200, 200, 403]
        );
        assert_eq!([act(&admin), read(&admin), scrape(&admin)], [403, 403, 200]);
        for path in ["healthz", "readyz", "openapi.json"] {
            assert_eq!(anonymous.get(&format!("{root}/{path}")).0, 200, "{path}");
        }
    }
    assert!(
        !countd.log().contains("reader-reader"),
        "tokens are not logged"
    );
}
