//! Kafka as the log: each record of the topic counts exactly once, whatever the brokers, the committed offsets, the processes and Redis do.
//! Most tests use librdkafka's mock cluster. Those with real brokers are ignored unless `scripts/test-kafka` runs them.

mod accepted_topics;
mod authors;
mod beside;
mod brokers;
mod check;
mod clients;
mod consumers;
mod copies;
mod counting;
mod dead_letters;
mod erasure;
mod groups;
mod harness;
mod kills;
mod last_second;
mod migrations;
mod model;
mod nodes;
mod offsets;
mod outage;
mod ranks;
mod rebuild;
mod rebuild_gaps;
mod redis;
mod relay;
mod retention;
mod sabotage;
mod script_run;
mod security;
mod settings;
mod splits;
mod topics;
mod users;

use crate::support::kafka::{Cluster, Mock, Record, Topic, config, expected, wait_until_counted};
use crate::support::stores::{TestStore, module};
use crate::support::{Api, Countd, Settings, set_schema, wait_until_drained};
use countint_tests::wait_until;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// The number of partitions of the data.
const PARTITIONS: u16 = 16;
/// The number of partitions of the topic.
const TOPIC_PARTITIONS: i32 = 4;

/// Brokers, Redis, and one `countd all`. The brokers are a mock cluster unless a test needs real ones.
pub(crate) struct Setup<B = Mock> {
    pub(crate) topic: Topic,
    brokers: B,
    countd: Countd,
    pub(crate) store: TestStore,
    pub(crate) config: String,
}

impl Setup {
    fn start() -> Setup {
        Setup::with(module(), "")
    }

    /// With further lines of the section `[kafka]`, and sections after them.
    pub(crate) fn with(store: TestStore, more: &str) -> Setup {
        Setup::on(Mock::start(TOPIC_PARTITIONS), store, more)
    }
}

impl<B: Cluster> Setup<B> {
    /// On these brokers, which have the topic.
    fn on(brokers: B, store: TestStore, more: &str) -> Setup<B> {
        let config = config(&brokers.addresses(), PARTITIONS, more);
        Setup {
            topic: brokers.topic(),
            countd: start(&store, &config, "all"),
            brokers,
            store,
            config,
        }
    }
}

impl<B> Setup<B> {
    pub(crate) fn api(&self) -> Api {
        self.countd.api()
    }

    /// Another process of the same data.
    pub(crate) fn another(&self, command: &'static str) -> Countd {
        start(&self.store, &self.config, command)
    }

    /// Produces 400 reads of 40 notes.
    fn produce(&self, round: u64) {
        let records: Vec<_> = (0..400).map(|i| read(i % 40, round * 1000 + i)).collect();
        self.topic.produce(&records);
    }

    /// Waits until all records and entries are counted. Returns the records.
    #[track_caller]
    fn drain(&self) -> Vec<Record> {
        let records = wait_until_counted(&self.store, &self.topic, PARTITIONS);
        wait_until_drained(&self.store.server, PARTITIONS);
        records
    }

    /// Waits until all records are counted, and asserts that the counters of repeatable metrics are the sums of the records.
    #[track_caller]
    pub(crate) fn assert_exact(&self) {
        let records = self.drain();
        assert_equals_records(&self.api(), &records);
    }
}

/// Starts a process. Several processes of the same data need their own ports only.
fn start(store: &TestStore, config: &str, command: &'static str) -> Countd {
    set_schema(&store.server, config);
    Countd::with(&store.server, &Settings { command, config })
}

/// Acts on an entity until the action is accepted. While countd has no connection to Redis, actions are refused.
#[track_caller]
fn act_until_accepted(api: &Api, metric: &str, action: &Json) {
    wait_until("the action is accepted", || {
        let (status, json) = api.post(&format!("/action/{metric}"), action);
        assert!(status == 200 || status == 503, "{status}: {json}");
        status == 200
    });
}

/// Asserts that the counters of repeatable metrics are the sums of the records.
#[track_caller]
fn assert_equals_records(api: &Api, records: &[Record]) {
    let mut counts: BTreeMap<u64, Json> = BTreeMap::new();
    for ((metric, entity), expected) in expected(records) {
        let eid = entity.strip_prefix("note:").expect("a note");
        let eid: u64 = eid.parse().expect("a number");
        let counts = counts.entry(eid).or_insert_with(|| api.counts(eid));
        assert_eq!(counts[&metric], json!(expected), "{metric} of {entity}");
    }
}

/// A record with a read of a note by another client, and its key.
pub(crate) fn read(note: u64, uid: u64) -> (String, String) {
    event(note, &json!({ "uid": uid.to_string() }))
}

/// A record with an event on a note: a read by user 1, except for the fields of `more`.
fn event(note: u64, more: &Json) -> (String, String) {
    let event = json!({ "etype": "note", "eid": note.to_string(), "metric": "read", "delta": 1, "uid": "1", "ts": 1_700_000_000_000_u64 });
    let event = crate::support::with(event, more.clone());
    (format!("note:{note}"), event.to_string())
}

/// A record with an envelope of a comment on a note, and its key.
pub(crate) fn envelope(id: &str, note: u64) -> (String, String) {
    let envelope = json!({
        "event_id": id, "event_type": "comment", "aggregate_type": "note", "aggregate_id": note.to_string(),
        "payload": { "delta": 1, "uid": "7" },
    });
    (format!("note:{note}"), envelope.to_string())
}

/// Waits until a metric of a process has a value, and returns it.
#[track_caller]
fn wait_for_metric(api: &Api, name: &str, is_right: impl Fn(u64) -> bool) -> u64 {
    let mut last = 0;
    wait_until(&format!("{name} is right"), || {
        last = crate::support::metric(api, name);
        is_right(last)
    });
    last
}
