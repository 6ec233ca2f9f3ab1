//! Brokers that are away: *once* actions go on, and others are refused until the brokers are back.

use super::{
    PARTITIONS, Setup, TOPIC_PARTITIONS, act_until_accepted, assert_equals_records, event, read,
    start, wait_for_metric,
};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::{
    Brokers, Mock, Outage, SentReads, TwoOfThree, config, copies, wait_until_counted,
    wait_until_published,
};
use crate::support::stores::module;
use crate::support::{Api, metric, on_note, with};
use serde_json::json;
use std::thread;
use std::time::Duration;

const TIMEOUT: &str = "timeout_ms = 1000";
/// Reads that follow each other in less than 2 seconds share a request.
pub(super) const SLOW_BATCHES: &str = "timeout_ms = 3000\nproperties = { \"linger.ms\" = 2000 }";
/// The entries of streams whose copies are not in the topic.
const UNPUBLISHED: &str = "countd_kafka_unpublished_events";

#[test]
fn repeatable_actions_are_refused_while_brokers_are_away() {
    repeatable_actions_are_refused(&mut Mock::start(TOPIC_PARTITIONS));
}

#[test]
fn counting_goes_on_when_brokers_are_back() {
    counting_goes_on(&mut Mock::start(TOPIC_PARTITIONS));
}

#[test]
fn a_process_starts_although_brokers_are_away() {
    a_process_starts(&mut Mock::start(TOPIC_PARTITIONS));
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn facts_are_accepted_while_two_of_three_brokers_are_killed() {
    on_three_brokers(TwoOfThree::killed);
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn facts_are_accepted_while_two_of_three_brokers_are_suspended() {
    on_three_brokers(TwoOfThree::suspended);
}

/// The name of a scenario, and the scenario.
type Scenario = (&'static str, fn(&mut TwoOfThree));

/// Runs all scenarios, each with its own topic.
fn on_three_brokers(outage: fn(Brokers) -> TwoOfThree) {
    let scenarios: [Scenario; 3] = [
        (
            "repeatable actions are refused",
            repeatable_actions_are_refused,
        ),
        ("counting goes on", counting_goes_on),
        ("a process starts", a_process_starts),
    ];
    let mut outage = outage(Brokers::start(3, TOPIC_PARTITIONS));
    for (name, scenario) in scenarios {
        eprintln!("scenario: {name}");
        outage.brokers.delete_topic();
        outage.brokers.create_topic(TOPIC_PARTITIONS);
        scenario(&mut outage);
    }
}

#[track_caller]
fn assert_refused(api: &Api) {
    let response = api.request("/action/read", &[], Some(&on_note(1_000, 42)));
    assert_eq!(response.status, 503, "{}", response.json);
    assert_eq!(response.json["code"], "unavailable");
    assert!(response.retry_after.is_some_and(|seconds| seconds > 0));
}

/// Waits until reads are accepted in every partition of the topic.
fn wait_until_accepted(api: &Api) {
    for note in 100..140 {
        act_until_accepted(api, "read", &on_note(note, 1));
    }
}

fn repeatable_actions_are_refused(brokers: &mut impl Outage) {
    let setup = Setup::on(brokers, module(), TIMEOUT);
    let api = setup.api();
    wait_until_accepted(&api);
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
    // The likes and the read, which are counted and not copied.
    wait_for_metric(&api, UNPUBLISHED, |entries| entries == 12);
    setup.brokers.come_back();
    // A read that was refused may be in the topic all the same, before the one of its partition that is accepted. It then counts.
    wait_until_accepted(&api);
    setup.assert_exact();
    wait_until_published(&setup.store, PARTITIONS);
    assert_eq!(
        api.counts(3),
        json!({ "read": 1, "like": 10, "fav": 0, "comment": 0, "repost": 0 })
    );
    assert_eq!(copies(&setup.topic.records()).len(), 12);
    wait_for_metric(&api, UNPUBLISHED, |entries| entries == 0);
}

fn counting_goes_on(brokers: &mut impl Outage) {
    let setup = Setup::on(brokers, module(), TIMEOUT);
    for round in 0..3 {
        let records: Vec<_> = (0..1_000).map(|i| read(i % 50, round)).collect();
        setup.topic.produce(&records);
        setup.brokers.go_away();
        thread::sleep(Duration::from_millis(300));
        setup.brokers.come_back();
    }
    setup.topic.produce(&[event(1, &json!({}))]);
    setup.assert_exact();
    assert_eq!(setup.api().counts(1)["read"], 61);
    assert_invariants(&setup.store.server, &setup.config);
}

/// Likes work from the first moment on, and reads as soon as the brokers are there.
fn a_process_starts(brokers: &mut impl Outage) {
    let store = module();
    let config = config(&brokers.addresses(), PARTITIONS, TIMEOUT);
    // A process has recorded the topic before.
    drop(start(&store, &config, "all"));
    brokers.go_away();
    let countd = start(&store, &config, "all");
    let api = countd.api();
    assert_eq!(api.act("like", on_note(1, 1))["count"], 1);
    assert_refused(&api);
    brokers.come_back();
    wait_until_accepted(&api);
    let topic = brokers.topic();
    let records = wait_until_counted(&store, &topic, PARTITIONS);
    assert_equals_records(&api, &records);
    wait_until_published(&store, PARTITIONS);
    assert_eq!(copies(&topic.records()).len(), 1);
}

/// Two reads of one request to a broker, which appends them, and confirms them after the older one has timed out.
pub(super) fn a_batch_is_confirmed_late(setup: Setup<&Brokers>) {
    const ATTEMPTS: usize = 5;
    let mut sent = SentReads::default();
    let is_late = || setup.countd.log().contains("not confirmed in kafka");
    for _ in 0..ATTEMPTS {
        // On a busy machine the reads may be confirmed before the brokers are suspended.
        if is_late() {
            break;
        }
        confirm_late(&setup, &mut sent);
    }
    assert!(is_late(), "no read has timed out");
    assert!(sent.acknowledged_by_api() >= 2, "the first and the last");
    sent.assert_in_topic(&setup.drain());
    setup.assert_exact();
    assert_invariants(&setup.store.server, &setup.config);
}

/// Produces a batch of two reads, whose acknowledgement arrives after the older one has timed out, and a read before and after the batch.
fn confirm_late(setup: &Setup<&Brokers>, sent: &mut SentReads) {
    let api = setup.api();
    sent.act(&api, 1);
    let reads: [SentReads; 2] = thread::scope(|scope| {
        let read = || {
            let mut read = SentReads::default();
            read.act(&api, 1);
            read
        };
        let first = scope.spawn(read);
        thread::sleep(Duration::from_millis(1_700));
        let second = scope.spawn(read);
        thread::sleep(Duration::from_millis(200));
        let signal = |signal| (0..3).for_each(|node| setup.brokers.signal(node, signal));
        signal("STOP");
        // The older read has timed out, also for librdkafka, which looks once a second, and the younger one has not.
        thread::sleep(Duration::from_millis(2_300));
        signal("CONT");
        [first, second].map(|read| read.join().expect("sent"))
    });
    for read in reads {
        sent.merge(read);
    }
    sent.act(&api, 1);
}
