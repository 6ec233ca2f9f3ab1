//! Scenarios on clusters of three real brokers: those of the mock cluster, those with Admin API requests that the mock does not implement
//! (DeleteRecords, DeleteGroups, DeleteTopics, CreatePartitions, AlterConfigs), and one in which brokers are killed. They are the longest
//! tests with real brokers, and begin first, because tests run in the order of their names.

use super::{Setup, TOPIC_PARTITIONS};
use super::{
    accepted_topics, check, consumers, last_second, offsets, outage, rebuild, redis, retention,
    splits, topics,
};
use crate::support::kafka::Brokers;
use crate::support::stores::module;
use std::time::Instant;

/// The name, lines of the section `[kafka]`, and the scenario.
type Scenario<'b> = (&'static str, &'static str, fn(Setup<&'b Brokers>));

/// Processes, Redis and offsets.
#[rustfmt::skip]
fn process_scenarios<'b>() -> [Scenario<'b>; 13] {
    [
        ("consumers are killed", "", consumers::consumers_are_killed),
        ("consumers join and leave", "", consumers::consumers_join_and_leave),
        ("a zombie is woken", "", consumers::a_zombie_is_woken),
        ("the only process is paused", "", consumers::the_only_process_is_paused),
        ("offsets are committed", "", offsets::offsets_are_committed),
        ("committed offsets are deleted", "", offsets::committed_offsets_are_deleted),
        ("other consumers join the group", "", offsets::other_consumers_join_and_leave_the_group),
        ("Redis loses writes", "", redis::redis_loses_writes),
        ("Redis and countd lose writes", "", redis::redis_and_countd_lose_writes),
        ("Redis is killed", "", redis::redis_is_killed),
        ("Redis loses its last second", "", last_second::the_last_second_is_lost),
        ("a batch is confirmed late", outage::SLOW_BATCHES, outage::a_batch_is_confirmed_late),
        ("an entity is split", splits::SETTINGS, splits::an_entity_is_split),
    ]
}

/// Records that are removed, and topics that are changed.
#[rustfmt::skip]
fn topic_scenarios<'b>() -> [Scenario<'b>; 13] {
    [
        ("uncounted records are removed", "", retention::uncounted_records_are_removed),
        ("uncounted records are removed under a process", "", retention::uncounted_records_are_removed_under_a_process),
        ("retention removes records under a process", "", retention::retention_removes_records_under_a_process),
        ("removed records are skipped", retention::SKIP, retention::removed_records_are_skipped),
        ("removed records are skipped under a process", retention::SKIP, retention::removed_records_are_skipped_under_a_process),
        ("removed records are skipped after a stop", "", retention::removed_records_are_skipped_after_a_stop),
        ("counted records are removed", "", retention::counted_records_are_removed),
        ("records are removed before a rebuild", "", rebuild::records_are_removed_before_a_rebuild),
        ("the topic is re-created", "", topics::a_re_created_topic_is_refused),
        ("a re-created topic is accepted", "", accepted_topics::a_re_created_topic_is_accepted),
        ("the topic is re-created under a process", "", topics::a_topic_is_re_created_under_a_process),
        ("the topic grows", "", topics::a_topic_that_grows_is_refused),
        ("the topic is compacted", "", check::a_compacted_topic_is_refused),
    ]
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn records_count_once_on_three_brokers() {
    let brokers = Brokers::start(3, TOPIC_PARTITIONS);
    run(&brokers, &process_scenarios());
    if wanted().is_empty() {
        let begun = begin(&brokers, "brokers are killed during a split and a merge");
        let setup = Setup::on(brokers, module(), splits::SETTINGS);
        splits::brokers_are_killed_during_a_split_and_a_merge(setup);
        eprintln!("{:.1?}", begun.elapsed());
    }
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn removed_records_and_changed_topics_are_noticed_on_three_brokers() {
    let brokers = Brokers::start(3, TOPIC_PARTITIONS);
    run(&brokers, &topic_scenarios());
}

/// The part of the names of wanted scenarios: `COUNTINT_SCENARIO`, or nothing for all.
fn wanted() -> String {
    std::env::var("COUNTINT_SCENARIO").unwrap_or_default()
}

/// Runs the wanted scenarios. Each has its own Redis and its own topic.
fn run<'b>(brokers: &'b Brokers, scenarios: &[Scenario<'b>]) {
    let wanted = wanted();
    for (name, settings, scenario) in scenarios {
        if name.contains(&wanted) {
            let begun = begin(brokers, name);
            scenario(Setup::on(brokers, module(), settings));
            eprintln!("{:.1?}", begun.elapsed());
        }
    }
}

/// Begins a scenario with an empty topic.
pub(super) fn begin(brokers: &Brokers, name: &str) -> Instant {
    eprintln!("scenario: {name}");
    brokers.delete_topic();
    brokers.delete_group(offsets::GROUP);
    brokers.create_topic(TOPIC_PARTITIONS);
    Instant::now()
}
