//! What the tests rely on: the clients of the harness.

use super::{TOPIC_PARTITIONS, read};
use crate::support::kafka::{Brokers, Mock, SentReads, Topic, expected};
use crate::support::stores::TestStore;
use std::collections::BTreeMap;

fn records_by_partition(topic: &Topic) -> BTreeMap<i32, usize> {
    let mut records: BTreeMap<i32, usize> = BTreeMap::new();
    for record in topic.records() {
        *records.entry(record.partition).or_default() += 1;
        // The partitioner of librdkafka against MurmurHash2 of this project.
        let key = record.key.expect("a key");
        let expected = i32::from(TestStore::partition(&key, 1024)) % TOPIC_PARTITIONS;
        assert_eq!(record.partition, expected, "{key}");
    }
    records
}

#[test]
fn a_mock_cluster_keeps_records_in_the_partitions_of_their_keys() {
    let mock = Mock::start(TOPIC_PARTITIONS);
    let topic = mock.topic();
    topic.produce(&(0..200).map(|note| read(note, 1)).collect::<Vec<_>>());
    let found = records_by_partition(&topic);
    assert_eq!(found.values().sum::<usize>(), 200);
    assert_eq!(found.len(), TOPIC_PARTITIONS as usize);
    assert_eq!(expected(&topic.records()).len(), 200);
    topic.commit("group", |partition| i64::from(partition) + 5);
    assert_eq!(topic.committed("group"), [5, 6, 7, 8]);
    // Records of a client that was interrupted are delivered when the brokers are back.
    mock.go_away();
    std::thread::scope(|scope| {
        let producing = scope.spawn(|| topic.produce(&[read(1, 2)]));
        mock.come_back();
        producing.join().expect("it is delivered");
    });
    assert_eq!(topic.records().len(), 201);
}

/// A topic with a read of note 1, and what the client that produced it expects.
fn one_read(mock: &Mock) -> (Topic, SentReads) {
    let (topic, mut sent) = (mock.topic(), SentReads::default());
    sent.produce(&topic, &[read(1, 1)]);
    sent.assert_in_topic(&topic.records());
    (topic, sent)
}

#[test]
#[should_panic(expected = "0 reads of note:1 in the topic, 1..=1 acknowledged and sent")]
fn an_acknowledged_read_that_is_not_in_the_topic_is_noticed() {
    let (_, sent) = one_read(&Mock::start(TOPIC_PARTITIONS));
    sent.assert_in_topic(&Mock::start(TOPIC_PARTITIONS).topic().records());
}

#[test]
#[should_panic(expected = "2 reads of note:1 in the topic, 1..=1 acknowledged and sent")]
fn a_read_that_is_in_the_topic_twice_is_noticed() {
    let mock = Mock::start(TOPIC_PARTITIONS);
    let (topic, sent) = one_read(&mock);
    topic.produce(&[read(1, 1)]);
    sent.assert_in_topic(&topic.records());
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn brokers_keep_records_when_one_of_three_is_killed() {
    let mut brokers = Brokers::start(3, TOPIC_PARTITIONS);
    let topic = brokers.topic();
    for node in 0..3 {
        topic.produce(&(0..50).map(|note| read(note, 1)).collect::<Vec<_>>());
        brokers.kill(node);
        topic.produce(&(0..50).map(|note| read(note, 2)).collect::<Vec<_>>());
        brokers.launch(node);
    }
    assert_eq!(records_by_partition(&topic).values().sum::<usize>(), 300);
    brokers.delete_records(0, 5);
    assert_eq!(topic.watermarks()[0].0, 5);
    topic.commit("group", |_| 3);
    assert_eq!(topic.committed("group"), [3; 4]);
    brokers.delete_group("group");
    assert_eq!(topic.committed("group"), [-1; 4]);
    brokers.delete_topic();
    brokers.create_topic(8);
    assert_eq!(topic.watermarks(), [(0, 0); 8]);
}
