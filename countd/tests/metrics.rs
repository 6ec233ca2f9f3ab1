//! Every metric is exposed with the right value.

use crate::support::{
    Api, Countd, Settings, assert_refused, metric, on_note, set_schema, wait_until_drained, with,
};
use countint_tests::{Server, wait_until};
use serde_json::json;

const CONFIG: &str = "[log]\npartitions = 1\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 1000\n[limits]\nuser = { per_second = 1, burst = 8 }\n";

/// The names of the exposed metrics, sorted, without labels.
fn names(api: &Api) -> Vec<String> {
    let (_, text) = api.get("/metrics");
    let text = text.as_str().expect("a text");
    let types = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let mut names: Vec<String> = types.map(str::to_owned).collect();
    names.sort();
    for name in &names {
        assert!(
            text.contains(&format!("# HELP {name} ")),
            "{name} has a help text"
        );
    }
    names
}

#[track_caller]
fn assert_metrics(api: &Api, expected: &[(&str, u64)]) {
    for (name, value) in expected {
        assert_eq!(metric(api, name), *value, "{name}");
    }
}

/// Sends requests of every kind: 5 events from actions, one of them for a user's counter, and 2 duplicates.
fn send_requests(api: &Api) {
    let like = with(on_note(1, 42), json!({ "author": 7 }));
    api.act("like", like.clone());
    api.act("like", like);
    let keyed = with(on_note(1, 42), json!({ "idempotencyKey": "k" }));
    api.act("read", keyed.clone());
    api.act("read", keyed);
    let lines: Vec<String> = ["read", "comment", "comment", "nonsense"]
        .iter()
        .map(|metric| with(on_note(2, 43), json!({ "metric": metric })).to_string())
        .collect();
    let (status, _) = api
        .try_post("/api/v1/actions", &lines.join("\n"))
        .expect("a response");
    assert_eq!(status, 200);
    assert_refused(
        api,
        "/action/nonsense",
        &on_note(1, 42),
        404,
        "unknown_metric",
    );
    api.counts(1);
    api.ok(api.get("/api/v1/counter/note/1"));
    assert_eq!(api.get("/nowhere").0, 404);
}

#[test]
fn every_metric_has_the_right_value() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let start = |command| {
        Countd::with(
            &server,
            &Settings {
                command,
                config: CONFIG,
            },
        )
    };
    let (serve, consumer) = (start("serve"), start("consume"));
    let (api, ops) = (serve.api(), consumer.api());
    send_requests(&api);
    // Three envelopes, of which one is a duplicate. And a poison message.
    let envelope = |id: &str| {
        json!({
            "event_id": id, "event_type": "view", "aggregate_type": "note", "aggregate_id": 3, "payload": { "delta": 1, "uid": 9 },
        })
    };
    let envelopes = json!([envelope("a"), envelope("a"), envelope("b")]);
    assert_eq!(api.ok(api.post("/events", &envelopes))["accepted"], 3);
    server.client().ok("XADD x:cnt-update:0 0-* e nonsense");
    // Nine actions, with a burst of eight.
    for eid in 0..9 {
        api.post("/action/fav", &on_note(eid, 44));
    }
    wait_until_drained(&server, 1);

    let favs: u64 = (0..9)
        .map(|eid| api.counts(eid)["fav"].as_u64().expect("a count"))
        .sum();
    assert_metrics(
        &api,
        &[
            ("countd_events_appended_total", 5 + 3 + favs),
            ("countd_actions_duplicated_total", 2),
            ("countd_limited_total{scope=\"user\"}", 9 - favs),
            ("countd_limit_failures_total", 0),
            (
                "countd_http_requests_total{route=\"/action/{metric}\",method=\"POST\",status=\"200\"}",
                4 + favs,
            ),
            (
                "countd_http_requests_total{route=\"/action/{metric}\",method=\"POST\",status=\"404\"}",
                1,
            ),
            (
                "countd_http_requests_total{route=\"/actions\",method=\"POST\",status=\"200\"}",
                1,
            ),
            (
                "countd_http_requests_total{route=\"/counter/{etype}/{eid}\",method=\"GET\",status=\"200\"}",
                2 + 9,
            ),
            (
                "countd_http_requests_total{route=\"/events\",method=\"POST\",status=\"200\"}",
                1,
            ),
            (
                "countd_http_requests_total{route=\"none\",method=\"GET\",status=\"404\"}",
                1,
            ),
            (
                "countd_http_request_seconds_count{route=\"/action/{metric}\"}",
                5 + 9,
            ),
            ("countd_http_request_seconds_count{route=\"/events\"}", 1),
            (
                "countd_http_request_seconds_bucket{route=\"/events\",le=\"+Inf\"}",
                1,
            ),
        ],
    );
    assert!(metric(&api, "countd_redis_seconds_count{kind=\"command\"}") >= 10);
    assert!(metric(&api, "countd_redis_seconds_count{kind=\"pipeline\"}") >= 1);

    wait_until("there is no lag", || metric(&ops, "countd_lag_events") == 0);
    let applied = 5 + 2 + favs;
    assert_metrics(
        &ops,
        &[
            ("countd_events_applied_total", applied),
            ("countd_events_duplicated_total", 1),
            ("countd_events_dead_total", 1),
            ("countd_batch_events_sum", applied + 2),
            ("countd_lag_seconds", 0),
            ("countd_consumer_retries_total", 0),
            ("countd_commit_conflicts_total", 0),
        ],
    );
    let commits = metric(&ops, "countd_commits_total");
    assert!((1..=applied + 2).contains(&commits), "{commits}");
    assert_metrics(
        &ops,
        &[
            ("countd_batch_events_count", commits),
            ("countd_commands_per_event_count", commits),
        ],
    );
    // The tables of the notes and of the author if all is one batch; at most one write of each for each event.
    let writes = metric(&ops, "countd_counter_writes_total");
    assert!((2..=2 * applied).contains(&writes), "{writes}");
    assert!(metric(&ops, "countd_event_age_seconds_count") >= 1);
    assert!(metric(&ops, "countd_redis_seconds_count{kind=\"command\"}") >= commits);

    let mut all = [names(&api), names(&ops)].concat();
    all.sort();
    all.dedup();
    let page = include_str!("../../docs/countd/operations.md");
    for name in &all {
        assert!(
            page.contains(&format!("`{name}`")),
            "the page for operators does not explain {name}"
        );
    }
    assert_eq!(all.len(), 59, "{all:?}");
}

#[test]
fn a_consumer_process_serves_only_operators() {
    let server = Server::start();
    let config = "[auth]\ntokens = [{ token = \"admin-admin-admin\", rights = [\"admin\"] }]\n";
    set_schema(&server, config);
    let consumer = Countd::with(
        &server,
        &Settings {
            command: "consume",
            config,
        },
    );
    let api = consumer.api();
    let admin = api.authorized("Bearer admin-admin-admin");
    assert_eq!(
        [
            api.get("/healthz").0,
            api.get("/readyz").0,
            api.get("/metrics").0
        ],
        [200, 200, 401]
    );
    assert_eq!(admin.get("/api/v1/metrics").0, 200);
    assert_eq!(admin.get("/counter/note/1").0, 404);
    assert_eq!(admin.post("/action/like", &on_note(1, 42)).0, 404);
    server.client().ok("DEL schema:v1");
    assert_eq!(api.get("/readyz").0, 503);
}

#[test]
fn the_lag_grows_while_a_poison_message_is_held() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let consumer = Countd::with(
        &server,
        &Settings {
            command: "consume",
            config: CONFIG,
        },
    );
    let api = consumer.api();
    let mut client = server.client();
    // The dead letter cannot be written, so later entries wait.
    client.ok("SET x:cnt-update:dead text");
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .expect("a clock")
        .as_millis() as u64;
    let append = |payload: String| {
        let args = ["XADD", "x:cnt-update:0", "0-*", "e", &payload];
        args.map(str::to_owned).to_vec()
    };
    let event = |metric: &str, ago: u64| {
        let more = json!({ "metric": metric, "delta": 1, "ts": now - ago });
        append(with(on_note(1, 42), more).to_string())
    };
    client.pipeline(&[
        event("nonsense", 3_600_000),
        event("read", 60_000),
        event("read", 60_000),
    ]);
    wait_until("the lag is 3", || metric(&api, "countd_lag_events") == 3);
    wait_until("commits are retried", || {
        metric(&api, "countd_consumer_retries_total") >= 2
    });
    let lag = metric(&api, "countd_lag_seconds");
    assert!((3_600..7_200).contains(&lag), "{lag}");
    client.ok("DEL x:cnt-update:dead");
    wait_until("there is no lag", || metric(&api, "countd_lag_events") == 0);
    assert_metrics(
        &api,
        &[
            ("countd_events_applied_total", 2),
            ("countd_lag_seconds", 0),
        ],
    );
}
