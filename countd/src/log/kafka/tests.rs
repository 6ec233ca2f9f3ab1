//! Producer, reader and offsets with the mock cluster of librdkafka.

use super::*;
use crate::domain::config::Config;
use crate::domain::keys::{Keys, PartitionHash};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::watch;

const NAME: &str = "cnt-update";
const PATIENCE: Duration = Duration::from_secs(30);

/// A topic with two partitions, and the cluster that has it.
fn topic() -> (MockCluster<'static, DefaultProducerContext>, Topic) {
    topic_with("timeout_ms = 10000")
}

/// [`topic`] with lines of the section `[kafka]`.
fn topic_with(more: &str) -> (MockCluster<'static, DefaultProducerContext>, Topic) {
    let cluster = MockCluster::new(1).expect("a mock cluster");
    cluster.create_topic(NAME, 2, 1).expect("a topic");
    let brokers = cluster.bootstrap_servers();
    let text = format!("[kafka]\nbrokers = [\"{brokers}\"]\n{more}");
    let settings = Config::parse(&text).expect("valid").kafka;
    let identity = TopicIdentity {
        name: NAME.to_owned(),
        id: None,
        partitions: 2,
    };
    let keys = Keys::new(4, false, PartitionHash::Murmur2);
    (cluster, Topic::for_test(identity, settings, keys))
}

/// A record. Those with odd values are copies.
fn record(partition: u16, value: u64) -> OutgoingRecord {
    OutgoingRecord {
        partition,
        key: format!("note:{value}"),
        value: value.to_string().into_bytes(),
        headers: match value % 2 {
            0 => Vec::new(),
            _ => vec![(SOURCE, "3".to_owned()), (SEQUENCE, value.to_string())],
        },
    }
}

async fn send(topic: &Topic, partition: u16, values: std::ops::Range<u64>) {
    let records: Vec<OutgoingRecord> = values.map(|value| record(partition, value)).collect();
    for result in topic.producer().send(&records).await {
        result.expect("confirmed");
    }
}

/// Sends a record to partition 0 until it is confirmed. Returns the number of attempts.
async fn send_until_confirmed(topic: &Topic, value: u64) -> u64 {
    let (since, mut attempts) = (Instant::now(), 1);
    while topic.producer().send(&[record(0, value)]).await[0].is_err() {
        assert!(since.elapsed() < PATIENCE, "{attempts} records failed");
        attempts += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    attempts
}

/// Reads a number of records.
async fn read(reader: &mut Reader, count: usize) -> Vec<(u16, u64, bool)> {
    let mut read = Vec::new();
    let since = Instant::now();
    while read.len() < count {
        assert!(since.elapsed() < PATIENCE, "{read:?}");
        reader.wait(Duration::from_millis(100)).await;
        let mut records = Records::default();
        reader.take(&mut records, count - read.len(), usize::MAX);
        read.extend(
            records
                .iter()
                .map(|record| (record.topic_partition, record.offset, record.is_copy)),
        );
    }
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_read_from_offsets_and_again_after_a_seek() {
    let (_cluster, topic) = topic();
    send(&topic, 0, 0..10).await;
    send(&topic, 1, 0..3).await;
    let (_sender, watermarks) = watch::channel(Watermarks::default());
    let mut reader = Reader::new(topic.clone(), watermarks).expect("a reader");
    reader.assign(&BTreeMap::from([(0, 4)])).expect("assigned");
    let expected: Vec<(u16, u64, bool)> = (4..10).map(|o| (0, o, o % 2 == 1)).collect();
    assert_eq!(read(&mut reader, 6).await, expected);
    assert_eq!((reader.next(0), reader.next(1)), (Some(10), None));
    // A batch was dropped, and a partition is added.
    let from = BTreeMap::from([(0, 8), (1, 2)]);
    reader.assign(&from).expect("assigned");
    let mut again = read(&mut reader, 3).await;
    again.sort_unstable();
    assert_eq!(again, [(0, 8, false), (0, 9, true), (1, 2, false)]);
    // What is being read needs no new assignment.
    let from = BTreeMap::from([(0, 10), (1, 3)]);
    reader.assign(&from).expect("assigned");
    send(&topic, 1, 3..4).await;
    assert_eq!(read(&mut reader, 1).await, [(1, 3, true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_outside_of_the_topic_are_noticed() {
    let (_cluster, topic) = topic();
    let mut marks = Watermarks {
        generation: 1,
        bounds: BTreeMap::from([(0, (5, 20))]),
        ..Watermarks::default()
    };
    let (sender, watermarks) = watch::channel(marks.clone());
    let mut reader = Reader::new(topic, watermarks).expect("a reader");
    assert_eq!(reader.check(1, 0), None, "its offsets are not known");
    assert_eq!(reader.check(0, 5), Some(Ok(())));
    assert_eq!(reader.check(0, 20), Some(Ok(())));
    let lost = ReaderError::Lost { first: 5, count: 3 };
    assert_eq!(reader.check(0, 2), Some(Err(lost)));
    // A look may be older than the position.
    assert_eq!(reader.check(0, 21), None);
    marks.generation = 3;
    sender.send_replace(marks);
    let truncated = ReaderError::Truncated { end: 20 };
    assert_eq!(reader.check(0, 21), Some(Err(truncated)));
    assert_eq!(reader.check(0, 7), Some(Ok(())));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_topic_is_watched_and_described() {
    let (_cluster, topic) = topic();
    send(&topic, 1, 0..7).await;
    assert_eq!(end_offsets(&topic).await.expect("offsets"), [0, 7]);
    topic.verify().await.expect("the same topic");
    let (mut watermarks, _committer) = Watermarks::watch(topic).expect("watched");
    let seen = watermarks.wait_for(|marks| marks.generation > 0);
    let seen = tokio::time::timeout(PATIENCE, seen).await;
    let seen = seen.expect("in time").expect("watched").clone();
    assert_eq!(seen.bounds, BTreeMap::from([(0, (0, 0)), (1, (0, 7))]));
    assert_eq!((seen.refusal, seen.problem), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_no_broker_accepts_fail_in_time() {
    let (cluster, topic) = topic();
    send(&topic, 0, 0..1).await;
    cluster.broker_down(1).expect("down");
    let results = topic.producer().send(&[record(0, 1)]).await;
    assert!(
        matches!(results.as_slice(), [Err(error)] if error.is_transient()),
        "{results:?}"
    );
    cluster.broker_up(1).expect("up");
    send_until_confirmed(&topic, 1).await;
}

/// A topic without a broker that accepts connections, and a request that was cancelled while its record was in the queue.
/// Returns the number of records that may have been appended before.
async fn cancelled_request() -> (MockCluster<'static, DefaultProducerContext>, Topic, u64) {
    // When the broker is back, the next attempt to connect comes soon.
    let (cluster, topic) =
        topic_with("timeout_ms = 1000\nproperties = { \"reconnect.backoff.max.ms\" = 100 }");
    let before = send_until_confirmed(&topic, 0).await;
    cluster.broker_down(1).expect("down");
    let request = tokio::spawn({
        let topic = topic.clone();
        async move { topic.producer().send(&[record(0, 1)]).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    request.abort();
    assert!(request.await.is_err_and(|error| error.is_cancelled()));
    (cluster, topic, before)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_a_cancelled_request_is_not_appended_after_its_timeout() {
    let (cluster, topic, before) = cancelled_request().await;
    // The client is replaced when it is three seconds old, and ended half a second later.
    tokio::time::sleep(Duration::from_secs(6)).await;
    cluster.broker_up(1).expect("up");
    let attempts = send_until_confirmed(&topic, 2).await;
    // An attempt that was not confirmed may have been appended.
    let ends = end_offsets(&topic).await.expect("offsets");
    assert!((2..=before + attempts).contains(&ends[0]), "{ends:?}");
}

#[test]
fn a_runtime_ends_while_records_of_cancelled_requests_are_unconfirmed() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (_cluster, topic, _) = runtime.block_on(cancelled_request());
    drop(runtime);
    drop(topic);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_goes_on_after_a_rejected_record() {
    let (cluster, topic) = topic();
    send(&topic, 0, 0..1).await;
    let rejects = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED];
    for value in [1, 2] {
        cluster.request_errors(RDKafkaApiKey::Produce, &rejects);
        let results = topic.producer().send(&[record(0, value)]).await;
        assert!(matches!(results.as_slice(), [Err(_)]), "{results:?}");
        send_until_confirmed(&topic, value).await;
    }
    assert_eq!(end_offsets(&topic).await.expect("offsets"), [3, 0]);
}
