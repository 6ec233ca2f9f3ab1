//! A sink of data whose log is Kafka: repeatable events are records of the topic, and those of facts are entries of streams.

use super::{PARTITIONS, Rows, Warehouse, database, sections};
use crate::support::database::Kind;
use crate::support::kafka::{Brokers, Cluster, Mock, config};
use crate::support::stores::{TestStore, cluster, module};
use crate::support::{Countd, metric, on_note};
use countint_tests::wait_until;
use serde_json::json;

/// The number of partitions of the topic.
const TOPIC_PARTITIONS: i32 = 4;
/// The number of notes.
const NOTES: u64 = 10;

fn start(brokers: &impl Cluster, kind: Kind, store: TestStore) -> Warehouse {
    let database = database(kind);
    let log = config(&brokers.addresses(), PARTITIONS, "");
    let config = log + &sections(&database, "batch = 50");
    Warehouse::of_config(database, store, config)
}

/// Starts the process that serves and consumes with another configuration.
fn configure(warehouse: &mut Warehouse, config: String) {
    warehouse.countd.stop();
    warehouse.countd = Countd::start(&warehouse.store.server, &config);
    warehouse.config = config;
}

/// A record with a read.
fn read(note: u64, uid: u64, delta: u64) -> (String, String) {
    let (eid, uid) = (note.to_string(), uid.to_string());
    let read = json!({ "etype": "note", "eid": eid, "metric": "read", "uid": uid, "delta": delta, "ts": 1_750_000_000_000_u64 });
    (format!("note:{note}"), read.to_string())
}

/// Likes by the API, and reads by the API and by another producer of the topic.
fn act(warehouse: &Warehouse, brokers: &impl Cluster, expected: &mut Rows, round: u64) {
    for note in 0..NOTES {
        warehouse.api().act("read", on_note(note, round));
    }
    produce(warehouse, brokers, expected, (round, 2));
}

/// Likes by the API, and reads by another producer of the topic: three of each note in a round, with those by the API.
fn produce(
    warehouse: &Warehouse,
    brokers: &impl Cluster,
    expected: &mut Rows,
    (round, delta): (u64, u64),
) {
    let api = warehouse.api();
    for note in 0..NOTES {
        let uid = round * 100 + note;
        api.act("like", on_note(note, uid));
        let name = note.to_string();
        expected.like(&name, [uid]);
        brokers.topic().produce(&[read(note, uid, delta)]);
        expected.count(&name, "read", 3 * round);
    }
}

fn rows_follow_the_topic(brokers: &impl Cluster, kind: Kind, store: TestStore) {
    let warehouse = start(brokers, kind, store);
    let sink = warehouse.sink();
    let mut expected = Rows::default();
    act(&warehouse, brokers, &mut expected, 1);
    warehouse.wait_for(&expected);
    warehouse.wait_for_pass(&sink, 1);
    for round in 2..6 {
        act(&warehouse, brokers, &mut expected, round);
    }
    warehouse.wait_for(&expected);
    assert_eq!(metric(&sink.api(), "countd_sink_passes_total"), 1);
    // Records that were forwarded from streams arrive later, and change nothing.
    wait_until("all records are read", || {
        metric(&sink.api(), "countd_sink_lag") == 0
    });
}

#[test]
fn rows_of_postgresql_follow_a_topic() {
    rows_follow_the_topic(&Mock::start(TOPIC_PARTITIONS), Kind::Postgres, cluster());
}

#[test]
fn rows_of_mariadb_follow_a_topic() {
    rows_follow_the_topic(&Mock::start(TOPIC_PARTITIONS), Kind::MariaDb, module());
}

/// The sink, the process that counts, and Redis, which loses nothing.
#[test]
fn rows_of_a_topic_are_right_whatever_is_killed() {
    let mock = Mock::start(TOPIC_PARTITIONS);
    let mut warehouse = start(&mock, Kind::Postgres, cluster());
    let mut sink = warehouse.sink();
    let mut expected = Rows::default();
    for round in 1..10 {
        act(&warehouse, &mock, &mut expected, round);
        match round % 3 {
            0 => {
                sink.kill();
                sink.launch();
            }
            1 => {
                warehouse.countd.kill();
                warehouse.countd.launch();
            }
            _ => {
                warehouse.store.server.kill();
                warehouse.store.server.start_again();
                // It is ready as soon as one node of a cluster is.
                let api = warehouse.api();
                let is_read = |note| api.get(&format!("/counter/note/{note}")).0 == 200;
                wait_until("all notes can be read", || (0..NOTES).all(is_read));
            }
        }
    }
    warehouse.wait_for(&expected);
}

/// What is not counted is not written: the sink waits for the consumer.
#[test]
fn records_are_written_when_they_are_counted() {
    let mock = Mock::start(TOPIC_PARTITIONS);
    let mut warehouse = start(&mock, Kind::Postgres, module());
    let sink = warehouse.sink();
    let mut expected = Rows::default();
    act(&warehouse, &mock, &mut expected, 1);
    warehouse.wait_for(&expected);
    warehouse.wait_for_pass(&sink, 1);
    warehouse.countd.stop();
    let records: Vec<_> = (0..500).map(|uid| read(1, uid, 1)).collect();
    mock.topic().produce(&records);
    // The sink has time to read them.
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(warehouse.rows(), expected);
    warehouse.countd.launch();
    expected.count("1", "read", 503);
    warehouse.wait_for(&expected);
    assert_eq!(metric(&sink.api(), "countd_sink_passes_total"), 1);
}

/// The tables are compared once when the log is moved to Kafka, and when it is moved back.
#[test]
fn a_log_that_is_moved_to_kafka_keeps_its_sink() {
    let mock = Mock::start(TOPIC_PARTITIONS);
    let mut warehouse = Warehouse::start(Kind::Postgres, "batch = 50");
    let streams = warehouse.config.clone();
    let log = config(&mock.addresses(), PARTITIONS, "");
    let kafka = log + &sections(&warehouse.database, "batch = 50");
    let mut expected = Rows::default();
    for (reads, config) in [(1, None), (2, Some(kafka)), (3, Some(streams))] {
        if let Some(config) = config {
            configure(&mut warehouse, config);
        }
        let mut sink = warehouse.sink();
        warehouse.api().act("read", on_note(1, reads));
        expected.count("1", "read", reads);
        warehouse.wait_for(&expected);
        warehouse.wait_for_pass(&sink, 1);
        sink.stop();
    }
}

/// Brokers are killed, and records that the sink has not read are removed: it compares all rows.
#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn rows_are_right_after_brokers_are_killed_and_records_are_removed() {
    let mut brokers = Brokers::start(3, TOPIC_PARTITIONS);
    let warehouse = start(&brokers, Kind::MariaDb, module());
    let mut sink = warehouse.sink();
    let mut expected = Rows::default();
    for round in 1..=3 {
        let node = round as usize - 1;
        brokers.kill(node);
        // Reads by the API may be refused now.
        produce(&warehouse, &brokers, &mut expected, (round, 3));
        brokers.launch(node);
    }
    warehouse.wait_for(&expected);
    sink.stop();
    // No entries of streams name these counters.
    for note in 0..NOTES {
        brokers.topic().produce(&[read(note, 1, 3)]);
        expected.count(&note.to_string(), "read", 12);
    }
    wait_until("all records are counted", || {
        (0..NOTES).all(|note| warehouse.api().counts(note)["read"] == 12)
    });
    for (partition, (_, end)) in (0..).zip(brokers.topic().watermarks()) {
        brokers.delete_records(partition, end);
    }
    sink.launch();
    warehouse.wait_for(&expected);
    assert!(sink.log().contains("records of the topic are missing"));
    warehouse.wait_for_pass(&sink, 1);
}
