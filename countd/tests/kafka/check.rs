//! `countd check` examines the topic.

use super::topics::CREATED_AGAIN;
use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, start};
use crate::support::kafka::{Brokers, Mock, TOPIC, config};
use crate::support::stores::module;
use crate::support::{printed, run, set_schema};
use countint_tests::wait_until;

/// Whether `countd check` succeeds, and its output.
pub(super) fn check(server: &countint_tests::Server, config: &str) -> (bool, String) {
    let output = run(server, config, &["check"]);
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn a_topic_with_another_number_of_partitions_is_reported() {
    let store = module();
    let mock = Mock::start(3);
    let config = config(&mock.addresses(), PARTITIONS, "");
    set_schema(&store.server, &config);
    let (is_right, text) = check(&store.server, &config);
    assert!(
        !is_right && text.contains('3') && text.contains("power of two"),
        "{text}"
    );
}

#[test]
fn brokers_that_are_away_are_reported() {
    let store = module();
    let config = config("127.0.0.1:1", PARTITIONS, "timeout_ms = 1000");
    set_schema(&store.server, &config);
    let (is_right, text) = check(&store.server, &config);
    assert!(!is_right && text.contains("127.0.0.1:1"), "{text}");
}

/// Brokers older than Kafka 2.8.
#[test]
fn brokers_without_ids_of_topics_are_reported() {
    const NOTE: &str = "no IDs of topics";
    let store = module();
    let mock = Mock::without_topic_ids(TOPIC_PARTITIONS);
    let config = config(&mock.addresses(), PARTITIONS, "");
    set_schema(&store.server, &config);
    let (_, text) = check(&store.server, &config);
    assert!(text.contains(NOTE), "{text}");
    mock.upgrade();
    let (_, text) = check(&store.server, &config);
    assert!(text.contains(TOPIC) && !text.contains(NOTE), "{text}");
}

/// A commit is tried with the offset that the group has.
#[test]
fn offsets_of_the_group_stay() {
    let store = module();
    let mock = Mock::start(TOPIC_PARTITIONS);
    let config = config(&mock.addresses(), PARTITIONS, "group = \"tried\"");
    set_schema(&store.server, &config);
    let topic = mock.topic();
    let (_, text) = check(&store.server, &config);
    assert!(!text.contains("cannot be published"), "{text}");
    assert_eq!(topic.committed("tried"), [0, -1, -1, -1]);
    topic.commit("tried", |partition| 7 + i64::from(partition));
    let (_, text) = check(&store.server, &config);
    assert!(!text.contains("cannot be published"), "{text}");
    assert_eq!(topic.committed("tried"), [7, 8, 9, 10]);
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn a_right_topic_passes_and_risks_are_named() {
    let brokers = Brokers::start(1, TOPIC_PARTITIONS);
    let store = module();
    let config = config(&brokers.addresses(), PARTITIONS, "");
    set_schema(&store.server, &config);
    drop(start(&store, &config, "all"));
    let text = printed(&run(&store.server, &config, &["check"]));
    assert!(text.contains(TOPIC), "{text}");
    // One replica: a broker that is lost takes its records with it.
    assert!(text.contains("replication"), "{text}");
    // Another topic of the same name.
    brokers.delete_topic();
    brokers.create_topic(TOPIC_PARTITIONS);
    let (is_right, text) = check(&store.server, &config);
    assert!(!is_right && text.contains(CREATED_AGAIN), "{text}");
    brokers.delete_topic();
    let (is_right, text) = check(&store.server, &config);
    assert!(
        !is_right && text.contains("the topic cnt-update does not exist"),
        "{text}"
    );
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn partitions_without_a_leader_and_risks_of_the_configuration_are_named() {
    let mut brokers = Brokers::start(3, TOPIC_PARTITIONS);
    risks_of_the_configuration_are_named(&brokers);
    partitions_without_a_leader_are_named(&mut brokers);
}

/// Each partition has one replica, two of them on the same broker. Without it, these have no leader.
fn partitions_without_a_leader_are_named(brokers: &mut Brokers) {
    const LEADERLESS: &str = "2 partitions of the topic have no leader";
    let store = module();
    let config = config(&brokers.addresses(), PARTITIONS, "timeout_ms = 3000");
    set_schema(&store.server, &config);
    brokers.delete_topic();
    brokers.create_topic_on(&[&[1], &[2], &[1], &[3]]);
    let (is_right, text) = check(&store.server, &config);
    assert!(is_right && !text.contains("no leader"), "{text}");
    brokers.kill(0);
    let mut last = (true, String::new());
    // The controller waits for the session of the broker to time out.
    wait_until("the partitions have no leader", || {
        last = check(&store.server, &config);
        last.1.contains(LEADERLESS)
    });
    assert!(!last.0, "a problem: {}", last.1);
    brokers.launch(0);
    wait_until("the partitions have leaders", || {
        let (is_right, text) = check(&store.server, &config);
        is_right && !text.contains("no leader")
    });
}

/// Topic settings that risk data loss are notes: the check passes.
fn risks_of_the_configuration_are_named(brokers: &Brokers) {
    let store = module();
    let config = config(&brokers.addresses(), PARTITIONS, "");
    set_schema(&store.server, &config);
    let check = || check(&store.server, &config);
    for (setting, value) in [
        ("unclean.leader.election.enable", "true"),
        ("min.insync.replicas", "1"),
        ("retention.bytes", "1000000"),
        ("retention.ms", "3600000"),
    ] {
        let risk = format!("{setting} is {value}: ");
        let (_, text) = check();
        assert!(!text.contains(&risk), "{text}");
        brokers.configure(setting, value);
        let mut last = (false, String::new());
        // Brokers learn the setting from the controller.
        wait_until("the risk is named", || {
            last = check();
            last.1.contains(&risk)
        });
        assert!(last.0, "a note: {}", last.1);
    }
}

/// A topic with three replicas passes. With `cleanup.policy=compact` it is refused.
pub(super) fn a_compacted_topic_is_refused(setup: Setup<&Brokers>) {
    let (is_right, text) = check(&setup.store.server, &setup.config);
    assert!(is_right && !text.contains("replication"), "{text}");
    setup.brokers.configure("cleanup.policy", "compact");
    let (is_right, text) = check(&setup.store.server, &setup.config);
    assert!(!is_right && text.contains("cleanup.policy"), "{text}");
}
