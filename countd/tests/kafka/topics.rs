//! The topic: its partitions, its identity, and what is refused.

use super::retention::note_in;
use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, read, start, wait_for_metric};
use crate::support::kafka::{Brokers, Mock, TOPIC, config};
use crate::support::stores::{TestStore, module};
use crate::support::{Running, on_note, run, set_schema};
use countint_tests::{Server, wait_until};
use std::thread::sleep;
use std::time::Duration;

/// Why another topic is refused.
pub(super) const CREATED_AGAIN: &str = "the topic cnt-update was created again: its ID is";

/// Starts a process, which must end with an error. Returns it.
#[track_caller]
pub(super) fn refused(server: &Server, config: &str) -> String {
    let config = config.replace(
        "[consumer]\n",
        "[http]\nlisten = \"127.0.0.1:0\"\n[consumer]\n",
    );
    let countd = Running::start(server, &config, &["all"]);
    let (succeeded, _, errors) = countd.end();
    assert!(!succeeded, "{errors}");
    errors
}

/// Runs `log accept-topic` when no process uses the data any more. Returns whether it succeeded, and what it printed as an error.
pub(super) fn accept(store: &TestStore, config: &str, options: &[&str]) -> (bool, String) {
    let command = [&["log", "accept-topic"], options].concat();
    let mut ended = None;
    wait_until("no process uses the data", || {
        let output = run(&store.server, config, &command);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_used = errors.contains("processes use this data");
        ended = Some((output.status.success(), errors));
        !is_used
    });
    ended.expect("it has ended")
}

#[test]
fn other_numbers_of_partitions_are_refused() {
    for partitions in [3, 12, 32, 2048] {
        let store = module();
        let mock = Mock::start(partitions);
        let config = config(&mock.addresses(), PARTITIONS, "");
        set_schema(&store.server, &config);
        let error = refused(&store.server, &config);
        let expected = format!(
            "the topic {TOPIC} has {partitions} partitions: they must be a power of two, and at most {PARTITIONS}"
        );
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn a_topic_of_another_cluster_is_refused() {
    let mut setup = Setup::start();
    setup
        .topic
        .produce(&(0..200).map(|i| read(i, 1)).collect::<Vec<_>>());
    setup.assert_exact();
    setup.countd.kill();
    let other = Mock::start(TOPIC_PARTITIONS);
    let config = config(&other.addresses(), PARTITIONS, "");
    let error = refused(&setup.store.server, &config);
    assert!(error.contains(CREATED_AGAIN), "{error}");
    // The right one is counted on.
    setup.topic.produce(&[read(1, 2)]);
    setup.countd.launch();
    setup.assert_exact();
    assert_eq!(setup.api().counts(1)["read"], 2);
}

/// Brokers older than Kafka 2.8 have no IDs of topics. When they are upgraded, the ID is recorded, and another topic is refused.
#[test]
fn the_id_of_a_topic_is_recorded_when_its_brokers_are_upgraded() {
    let brokers = Mock::without_topic_ids(TOPIC_PARTITIONS);
    let mut setup = Setup::on(brokers, module(), "");
    setup.produce(1);
    setup.assert_exact();
    setup.countd.kill();
    setup.brokers.upgrade();
    setup.countd.launch();
    setup.produce(2);
    setup.assert_exact();
    setup.countd.kill();
    let other = Mock::start(TOPIC_PARTITIONS);
    let config = config(&other.addresses(), PARTITIONS, "");
    let error = refused(&setup.store.server, &config);
    assert!(error.contains(CREATED_AGAIN), "{error}");
}

pub(super) fn a_re_created_topic_is_refused(mut setup: Setup<&Brokers>) {
    setup.produce(1);
    setup.assert_exact();
    setup.countd.kill();
    setup.brokers.delete_topic();
    setup.brokers.create_topic(TOPIC_PARTITIONS);
    // It has as many records as the former one, and others.
    setup.produce(2);
    let error = refused(&setup.store.server, &setup.config);
    assert!(error.contains(CREATED_AGAIN), "{error}");
}

/// The topic has lost its last records, or is another one of the same ID: a position of countd is beyond its end.
#[test]
fn a_position_beyond_the_end_of_the_topic_is_refused() {
    let mut setup = Setup::start();
    setup.produce(1);
    setup.assert_exact();
    let [stopped, goes_on] = [1, 2].map(note_in);
    setup.countd.kill();
    let end = setup.topic.watermarks()[1].1;
    // The partitions of the data whose records are in partition 1 of the topic.
    let partitions = (1..PARTITIONS).step_by(TOPIC_PARTITIONS as usize);
    let partitions: Vec<u16> = partitions.collect();
    let mut client = setup.store.server.client();
    let mut set_positions = |store: &TestStore, to: i64| {
        for partition in &partitions {
            let (positions, field) = (store.positions(*partition), format!("topic:{partition}"));
            client.ok(&format!("HSET {positions} {field} {to}"));
        }
    };
    let beyond = end + 10_000;
    set_positions(&setup.store, beyond);
    setup.countd.launch();
    let api = setup.api();
    wait_until("the process is not ready", || api.get("/readyz").0 == 503);
    let error = format!(
        "partition 1 of the topic ends at offset {end}, before the position {beyond}: it was created again, or has lost records"
    );
    let log = setup.countd.log();
    assert!(log.contains(&error), "{log}");
    // No more records are appended by actions: some of them would be taken for counted ones.
    let act = |metric: &str| {
        let path = format!("/action/{metric}");
        api.post(&path, &on_note(stopped, 99)).0
    };
    wait_until("repeatable events are refused", || act("read") == 503);
    assert_eq!(act("like"), 200);
    setup.produce(2);
    wait_until("other partitions go on", || {
        api.counts(goes_on)["read"] == 20
    });
    // The partition grows beyond the position: what the topic has lost stays lost, also after a restart.
    let many = (0..=10_000).map(|_| read(stopped, 3));
    setup.topic.produce(&many.collect::<Vec<_>>());
    assert!(setup.topic.watermarks()[1].1 > beyond);
    assert_stays_refused(&setup, stopped);
    setup.countd.kill();
    setup.countd.launch();
    assert_stays_refused(&setup, stopped);
    // It cannot be accepted, and another topic can.
    setup.countd.kill();
    let (_, errors) = accept(&setup.store, &setup.config, &[]);
    assert!(
        errors.contains("set kafka.topic to another topic"),
        "{errors}"
    );
    let other = Mock::start(TOPIC_PARTITIONS);
    let config = config(&other.addresses(), PARTITIONS, "");
    let (succeeded, errors) = accept(&setup.store, &config, &[]);
    assert!(succeeded, "{errors}");
    let countd = start(&setup.store, &config, "all");
    countd.api().act("read", on_note(stopped, 98));
    wait_until("it is counted", || {
        countd.api().counts(stopped)["read"] == 11
    });
}

/// Asserts that nothing is counted of the partition with a note, and that the process appends nothing to the topic.
#[track_caller]
fn assert_stays_refused(setup: &Setup<Mock>, note: u64) {
    let api = setup.api();
    wait_until("the process is not ready", || api.get("/readyz").0 == 503);
    let ends = setup.topic.watermarks();
    for _ in 0..5 {
        assert_eq!(api.post("/action/read", &on_note(note, 97)).0, 503);
        sleep(Duration::from_millis(400));
        assert_eq!(api.counts(note)["read"], 10);
    }
    assert_eq!(setup.topic.watermarks(), ends);
}

/// The process runs when the topic is re-created: it counts nothing of the new one.
pub(super) fn a_topic_is_re_created_under_a_process(setup: Setup<&Brokers>) {
    setup.produce(1);
    // The process knows from then on that the partition is not empty.
    setup.api().act("read", on_note(7, 2));
    setup.assert_exact();
    let before = setup.api().counts(7);
    setup.brokers.delete_topic();
    setup.brokers.create_topic(TOPIC_PARTITIONS);
    // An action is not confirmed by a record of the new topic, although the process has not looked at it: it has fewer records than the former
    // one.
    let api = setup.api();
    let act = || api.post("/action/read", &on_note(7, 1)).0;
    assert_eq!(act(), 503);
    setup.produce(2);
    setup.produce(3);
    wait_until("the process is not ready", || api.get("/readyz").0 == 503);
    let log = setup.countd.log();
    assert!(log.contains("the topic is not used"), "{log}");
    // The new one has more records than the former one by now.
    for _ in 0..10 {
        assert_eq!(act(), 503, "{}", setup.countd.log());
        sleep(Duration::from_millis(300));
    }
    // Likes are counted by Redis alone, and their events wait.
    let like = api.post("/action/like", &on_note(7, 9_999)).0;
    assert_eq!(like, 200);
    wait_for_metric(&api, "countd_kafka_unpublished_events", |events| events > 0);
    assert_eq!(api.counts(7)["read"], before["read"]);
}

pub(super) fn a_topic_that_grows_is_refused(mut setup: Setup<&Brokers>) {
    setup.produce(1);
    setup.assert_exact();
    setup.countd.kill();
    setup.brokers.set_partitions(2 * TOPIC_PARTITIONS as usize);
    let error = refused(&setup.store.server, &setup.config);
    assert!(error.contains("has 8 partitions, and had 4"), "{error}");
}

/// A process whose data has a log in streams already takes the topic on, and counts what is left in the streams.
#[test]
fn data_with_streams_continues_with_a_topic() {
    let store = module();
    let streams =
        format!("[log]\npartitions = {PARTITIONS}\nretain = 100\n[consumer]\nlinger_ms = 5\n");
    let mut countd = start(&store, &streams, "all");
    for note in 0..30 {
        countd.api().act("read", crate::support::on_note(note, 1));
        countd.api().act("like", crate::support::on_note(note, 1));
    }
    countd.kill();
    let setup = Setup::on(Mock::start(TOPIC_PARTITIONS), store, "");
    for note in 0..30 {
        setup.api().act("read", crate::support::on_note(note, 1));
    }
    setup.drain();
    for note in 0..30 {
        let counts = setup.api().counts(note);
        assert_eq!(
            (counts["read"].as_u64(), counts["like"].as_u64()),
            (Some(2), Some(1)),
            "note {note}"
        );
    }
}
