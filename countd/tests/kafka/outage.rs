//! Brokers that are away: *once* actions go on, and others are refused until the brokers are back.

use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, event, read, start};
use crate::support::kafka::{Mock, config, wait_until_published};
use crate::support::stores::module;
use crate::support::{Api, metric, on_note, with};
use countint_tests::wait_until;
use serde_json::json;

const TIMEOUT: &str = "timeout_ms = 1000";

#[track_caller]
fn assert_refused(api: &Api) {
    let response = api.request("/action/read", &[], Some(&on_note(1_000, 42)));
    assert_eq!(response.status, 503, "{}", response.json);
    assert_eq!(response.json["code"], "unavailable");
    assert!(response.retry_after.is_some_and(|seconds| seconds > 0));
}

#[test]
fn repeatable_actions_are_refused_while_brokers_are_away() {
    let setup = Setup::with(module(), TIMEOUT);
    let api = setup.api();
    api.act("read", on_note(1, 1));
    setup.brokers.go_away();
    assert_refused(&api);
    // Events, and lines of a batch. The likes among them go on.
    let (_, comment) = super::envelope("e-1", 1);
    let response = api.request(
        "/events",
        &[],
        Some(&serde_json::from_str(&comment).expect("JSON")),
    );
    assert_eq!(response.status, 503, "{}", response.json);
    assert!(response.retry_after.is_some());
    let lines =
        ["read", "like"].map(|metric| with(on_note(2, 1), json!({ "metric": metric })).to_string());
    let (status, lines) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("a response");
    assert_eq!(status, 200, "{lines}");
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["error"]["code"], "unavailable", "{lines:?}");
    assert_eq!(lines[1]["changed"], true, "{lines:?}");
    for uid in 10..20 {
        assert_eq!(api.act("like", on_note(3, uid))["count"], uid - 9);
    }
    // What needs one step in Redis needs no broker.
    api.act(
        "read",
        with(on_note(3, 1), json!({ "idempotencyKey": "k" })),
    );
    assert_eq!(api.get("/readyz").0, 200);
    assert!(metric(&api, "countd_kafka_produce_errors_total") > 0);
    setup.brokers.come_back();
    wait_until("reads are accepted again", || {
        api.post("/action/read", &on_note(4, 1)).0 == 200
    });
    // A read that was refused may be in the topic all the same: it then counts.
    setup.assert_exact();
    wait_until_published(&setup.store, PARTITIONS);
    assert_eq!(
        api.counts(3),
        json!({ "read": 1, "like": 10, "fav": 0, "comment": 0, "repost": 0 })
    );
}

#[test]
fn counting_goes_on_when_brokers_are_back() {
    let setup = Setup::with(module(), TIMEOUT);
    for round in 0..3 {
        let records: Vec<_> = (0..1_000).map(|i| read(i % 50, round)).collect();
        setup.topic.produce(&records);
        setup.brokers.go_away();
        std::thread::sleep(std::time::Duration::from_millis(300));
        setup.brokers.come_back();
    }
    setup.topic.produce(&[event(1, &json!({}))]);
    setup.assert_exact();
    assert_eq!(setup.api().counts(1)["read"], 61);
}

/// Likes work from the first moment on, and reads as soon as the brokers are there.
#[test]
fn a_process_starts_although_brokers_are_away() {
    let store = module();
    let mock = Mock::start(TOPIC_PARTITIONS);
    let config = config(&mock.addresses(), PARTITIONS, TIMEOUT);
    // A process has recorded the topic before.
    drop(start(&store, &config, "all"));
    mock.go_away();
    let countd = start(&store, &config, "all");
    let api = countd.api();
    assert_eq!(api.act("like", on_note(1, 1))["count"], 1);
    assert_refused(&api);
    mock.come_back();
    wait_until("reads are accepted", || {
        api.post("/action/read", &on_note(1, 1)).0 == 200
    });
    let topic = mock.topic();
    let records = crate::support::kafka::wait_until_counted(&store, &topic, PARTITIONS);
    super::assert_equals_records(&api, &records);
    wait_until_published(&store, PARTITIONS);
}
