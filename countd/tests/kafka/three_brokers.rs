//! Scenarios on one cluster of three real brokers: those of the mock cluster, those with Admin API requests that the mock does not implement
//! (DeleteRecords, DeleteGroups, DeleteTopics, CreatePartitions, AlterConfigs), and one in which brokers are killed.

use super::{Setup, TOPIC_PARTITIONS};
use super::{check, consumers, last_second, offsets, rebuild, redis, retention, splits, topics};
use crate::support::kafka::Brokers;
use crate::support::stores::module;
use std::time::Instant;

/// The name, lines of the section `[kafka]`, and the scenario.
type Scenario<'b> = (&'static str, &'static str, fn(Setup<&'b Brokers>));

#[rustfmt::skip]
fn scenarios<'b>() -> [Scenario<'b>; 22] {
    [
        ("consumers are killed", "", consumers::consumers_are_killed),
        ("consumers join and leave", "", consumers::consumers_join_and_leave),
        ("a zombie is woken", "", consumers::a_zombie_is_woken),
        ("the only process is paused", "", consumers::the_only_process_is_paused),
        ("offsets are committed", "", offsets::offsets_are_committed),
        ("committed offsets are deleted", "", offsets::committed_offsets_are_deleted),
        ("Redis loses writes", "", redis::redis_loses_writes),
        ("Redis and countd lose writes", "", redis::redis_and_countd_lose_writes),
        ("Redis is killed", "", redis::redis_is_killed),
        ("Redis loses its last second", "", last_second::the_last_second_is_lost),
        ("an entity is split", splits::SETTINGS, splits::an_entity_is_split),
        ("uncounted records are removed", "", retention::uncounted_records_are_removed),
        ("uncounted records are removed under a process", "", retention::uncounted_records_are_removed_under_a_process),
        ("retention removes records under a process", "", retention::retention_removes_records_under_a_process),
        ("removed records are skipped", retention::SKIP, retention::removed_records_are_skipped),
        ("removed records are skipped under a process", retention::SKIP, retention::removed_records_are_skipped_under_a_process),
        ("counted records are removed", "", retention::counted_records_are_removed),
        ("records are removed before a rebuild", "", rebuild::records_are_removed_before_a_rebuild),
        ("the topic is re-created", "", topics::a_re_created_topic_is_refused),
        ("the topic is re-created under a process", "", topics::a_topic_is_re_created_under_a_process),
        ("the topic grows", "", topics::a_topic_that_grows_is_refused),
        ("the topic is compacted", "", check::a_compacted_topic_is_refused),
    ]
}

/// Each scenario has its own Redis and its own topic.
#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn records_count_once_on_three_brokers() {
    let brokers = Brokers::start(3, TOPIC_PARTITIONS);
    let wanted = std::env::var("COUNTINT_SCENARIO").unwrap_or_default();
    for (name, settings, scenario) in scenarios() {
        if !name.contains(&wanted) {
            continue;
        }
        let begun = begin(&brokers, name);
        scenario(Setup::on(&brokers, module(), settings));
        eprintln!("{:.1?}", begun.elapsed());
    }
    if !wanted.is_empty() {
        return;
    }
    let begun = begin(&brokers, "brokers are killed during a split and a merge");
    let setup = Setup::on(brokers, module(), splits::SETTINGS);
    splits::brokers_are_killed_during_a_split_and_a_merge(setup);
    eprintln!("{:.1?}", begun.elapsed());
}

/// Begins a scenario with an empty topic.
pub(super) fn begin(brokers: &Brokers, name: &str) -> Instant {
    eprintln!("scenario: {name}");
    brokers.delete_topic();
    brokers.delete_group(offsets::GROUP);
    brokers.create_topic(TOPIC_PARTITIONS);
    Instant::now()
}
