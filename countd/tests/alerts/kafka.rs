//! Kafka as the log: brokers that are away, another topic, and records that were removed before they were counted.

use super::{
    KAFKA_PARTITIONS as PARTITIONS, Recording, TOPIC_PARTITIONS, config_of, wait_until_collected,
};
use crate::support::kafka::{Mock, wait_until_counted, wait_until_published};
use crate::support::stores::{TestStore, module};
use crate::support::{Countd, Settings, metric, on_note, set_schema};
use countint_tests::wait_until;

fn start(store: &TestStore, config: &str) -> Countd {
    set_schema(&store.server, config);
    let command = "all";
    Countd::with(&store.server, &Settings { command, config })
}

#[test]
fn brokers_that_are_away_are_noticed() {
    let (store, mock) = (module(), Mock::start(TOPIC_PARTITIONS));
    let countd = start(&store, &config_of(&mock, "timeout_ms = 1000"));
    let api = countd.api();
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    mock.go_away();
    assert_eq!(api.post("/action/read", &on_note(1, 1)).0, 503);
    api.act("like", on_note(1, 1));
    let value = |name: &str| metric(&api, name);
    wait_until("the process has noticed it, and counted the like", || {
        value("countd_kafka_unreachable") == 1 && value("countd_kafka_unpublished_events") > 0
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(
        &[
            "CountdKafkaCopiesStalled",
            "CountdKafkaProduceErrors",
            "CountdKafkaUnreachable",
        ],
        20,
    );
}

#[test]
fn another_topic_is_noticed() {
    let (store, mock) = (module(), Mock::start(TOPIC_PARTITIONS));
    drop(start(&store, &config_of(&mock, "")));
    // It starts without brokers, because the data knows its topic.
    let other = Mock::start(TOPIC_PARTITIONS);
    other.go_away();
    let countd = start(&store, &config_of(&other, "timeout_ms = 1000"));
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    other.come_back();
    wait_until("the process has noticed it", || {
        metric(&countd.api(), "countd_kafka_topic_refused") == 1
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdKafkaTopicRefused"], 10);
}

/// The mock cluster keeps 5 MB of each partition.
#[test]
fn records_that_were_removed_before_they_were_counted_are_noticed() {
    let (store, mock) = (module(), Mock::start(TOPIC_PARTITIONS));
    let mut countd = start(&store, &config_of(&mock, "lost_records = \"skip\""));
    let topic = mock.topic();
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    let padding = "x".repeat(400);
    let read = |n: u64| {
        let record = format!(
            r#"{{"etype":"note","eid":"1","metric":"read","delta":1,"uid":"{n}","ts":1700000000000,"source":"{padding}"}}"#
        );
        ("note:1".to_owned(), record)
    };
    topic.produce(&(0..100).map(read).collect::<Vec<_>>());
    wait_until_counted(&store, &topic, PARTITIONS);
    wait_until_published(&store, PARTITIONS);
    countd.kill();
    topic.produce(&(0..16_000).map(read).collect::<Vec<_>>());
    let removed = topic.watermarks().iter().any(|(first, _)| *first > 100);
    assert!(removed, "records were removed: {:?}", topic.watermarks());
    countd.launch();
    let api = countd.api();
    wait_until("the process has skipped them", || {
        metric(&api, "countd_kafka_lost_records_total") > 0
    });
    wait_until_collected(&countd);
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdKafkaRecordsLost"], 10);
}

/// A read of a note, as another client produces it.
fn event(note: u64) -> String {
    format!(
        r#"{{"etype":"note","eid":"{note}","metric":"read","delta":1,"uid":"1","ts":1700000000000}}"#
    )
}

/// The lag comes from the positions in Redis, so a process that only serves reports it.
#[test]
fn records_that_nobody_counts_are_noticed() {
    let (store, mock) = (module(), Mock::start(TOPIC_PARTITIONS));
    let config = config_of(&mock, "");
    set_schema(&store.server, &config);
    let consume = Countd::with(
        &store.server,
        &Settings {
            command: "consume",
            config: &config,
        },
    );
    let serve = Countd::with(
        &store.server,
        &Settings {
            command: "serve",
            config: &config,
        },
    );
    let topic = mock.topic();
    let read = |n: u64| (format!("note:{n}"), event(n));
    topic.produce(&(0..100).map(read).collect::<Vec<_>>());
    wait_until_counted(&store, &topic, PARTITIONS);
    let lag = || metric(&serve.api(), "countd_topic_lag_records");
    wait_until("the records are counted, and known", || {
        lag() == 0 && metric(&serve.api(), "countd_topic_counted_records_total") == 100
    });
    let mut recording = Recording::default();
    recording.scrape(&[("serve", &serve)]);
    // Commits fail, and the consumer goes on to read.
    store
        .server
        .client()
        .ok("ACL SETUSER default -ctab.batchincr -ctab.mincrby");
    topic.produce(&(0..100).map(read).collect::<Vec<_>>());
    wait_until("they lag", || lag() == 100);
    recording.scrape(&[("serve", &serve)]);
    recording.assert_fires(&["CountdKafkaNotCounted"], 20);
    drop(consume);
}
