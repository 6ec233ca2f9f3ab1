//! A relay of data whose log is Kafka: rows become records of the topic, and each counts once.

use super::{NOTES, Shop};
use crate::support::database::{Kind, for_each_database};
use crate::support::kafka::{Mock, TOPIC};
use countint_tests::wait_until;

/// The number of partitions of the topic.
const TOPIC_PARTITIONS: i32 = 4;
const USERS: u64 = 2_000;

for_each_database! {
    rows_of_a_relay_that_is_killed_are_counted_once_from_the_topic
}

fn rows_of_a_relay_that_is_killed_are_counted_once_from_the_topic(kind: Kind) {
    let brokers = Mock::start(TOPIC_PARTITIONS);
    let kafka = format!(
        "batch = 50\n[kafka]\nbrokers = [\"{}\"]\ntopic = \"{TOPIC}\"",
        brokers.addresses().replace(',', "\", \"")
    );
    let shop = Shop::start(kind, &kafka);
    shop.like(0, USERS);
    let mut relay = shop.relay();
    for part in 1..=3 {
        wait_until("some rows are relayed", || {
            shop.waiting() <= USERS - part * 100
        });
        relay.kill();
        relay.launch();
    }
    wait_until("all rows are relayed", || shop.waiting() == 0);
    wait_until("all records are counted", || {
        let api = shop.api();
        (0..NOTES).all(|note| api.counts(note)["like"] == USERS / NOTES)
    });
    let records = brokers.topic().records();
    let relayed = records.iter().filter(|record| record.source().is_none());
    assert!(relayed.count() as u64 >= USERS);
    shop.wait_until_relayed();
    shop.assert_liked(USERS);
}
