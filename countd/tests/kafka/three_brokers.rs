//! The scenarios of the mock cluster on three real brokers. They are started once, since that takes long.

use super::{Setup, TOPIC_PARTITIONS, consumers, offsets, redis};
use crate::support::kafka::Brokers;
use crate::support::stores::module;

type Scenario<'b> = fn(Setup<&'b Brokers>);

/// Each scenario has its own Redis and its own topic.
#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn records_count_once_on_three_brokers() {
    let brokers = Brokers::start(3, TOPIC_PARTITIONS);
    let scenarios: [(&str, Scenario<'_>); 8] = [
        ("consumers are killed", consumers::consumers_are_killed),
        (
            "consumers join and leave",
            consumers::consumers_join_and_leave,
        ),
        ("a zombie is woken", consumers::a_zombie_is_woken),
        (
            "the only process is paused",
            consumers::the_only_process_is_paused,
        ),
        ("offsets are committed", offsets::offsets_are_committed),
        ("Redis loses writes", redis::redis_loses_writes),
        (
            "Redis and countd lose writes",
            redis::redis_and_countd_lose_writes,
        ),
        ("Redis is killed", redis::redis_is_killed),
    ];
    for (name, scenario) in scenarios {
        eprintln!("scenario: {name}");
        brokers.delete_topic();
        brokers.create_topic(TOPIC_PARTITIONS);
        scenario(Setup::on(&brokers, module(), ""));
    }
}
