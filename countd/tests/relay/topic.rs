//! A relay of data whose log is Kafka: rows become records of the topic, and each counts once.

use super::{NOTES, Shop};
use crate::support::Countd;
use crate::support::database::{Kind, for_each_database};
use crate::support::kafka::{Mock, TOPIC, Topic};
use countint_tests::wait_until;

/// The number of partitions of the topic.
const TOPIC_PARTITIONS: i32 = 4;
/// The number of parts of a test.
const PARTS: u64 = 3;
/// The number of users whose likes are inserted in each part.
const EACH: u64 = 800;
const USERS: u64 = PARTS * EACH;

for_each_database! {
    rows_of_a_relay_that_is_killed_are_counted_once_from_the_topic
}

fn rows_of_a_relay_that_is_killed_are_counted_once_from_the_topic(kind: Kind) {
    let brokers = Mock::start(TOPIC_PARTITIONS);
    rows_are_counted_once(kind, &brokers.addresses(), &brokers.topic(), |_, relay| {
        relay.kill();
        relay.launch();
    });
}

/// `interrupt` is called in each part of the test, with its number. It kills the relay, and starts it again.
pub(crate) fn rows_are_counted_once(
    kind: Kind,
    brokers: &str,
    topic: &Topic,
    mut interrupt: impl FnMut(u64, &mut Countd),
) {
    let kafka = format!(
        "batch = 50\n[kafka]\nbrokers = [\"{}\"]\ntopic = \"{TOPIC}\"",
        brokers.replace(',', "\", \"")
    );
    let shop = Shop::start(kind, &kafka);
    let mut relay = shop.relay();
    for part in 0..PARTS {
        shop.like(part * EACH, (part + 1) * EACH);
        // Most often some of the rows are under way then.
        wait_until("some rows are relayed", || shop.waiting() < EACH - 40);
        interrupt(part, &mut relay);
    }
    wait_until("all rows are relayed", || shop.waiting() == 0);
    wait_until("all records are counted", || {
        let api = shop.api();
        (0..NOTES).all(|note| api.counts(note)["like"] == USERS / NOTES)
    });
    let records = topic.records();
    let relayed = records.iter().filter(|record| record.source().is_none());
    assert!(relayed.count() as u64 >= USERS);
    shop.wait_until_relayed();
    shop.assert_liked(USERS);
}
