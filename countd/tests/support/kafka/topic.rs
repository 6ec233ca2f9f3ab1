//! A topic as another client sees it, which shares nothing with countd but librdkafka: its records, and a producer with the default
//! partitioner of Java clients.

use super::names::{INDEX, SEQUENCE, SOURCE, TOPIC};
use countint_tests::env::deadline;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A record of a topic.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its key, if it is a text.
    pub key: Option<String>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its headers that are texts.
    pub headers: BTreeMap<String, String>,
}

/// A topic.
pub struct Topic {
    config: ClientConfig,
    producer: FutureProducer,
    runtime: Runtime,
}

impl Topic {
    /// The topic of these brokers, with properties of librdkafka such as credentials.
    pub fn new(brokers: &str, properties: &[(&str, &str)]) -> Topic {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers);
        for (property, value) in properties {
            config.set(*property, *value);
        }
        let producer = { config.clone() }
            .set("enable.idempotence", "true")
            .set("partitioner", "murmur2_random")
            .set("linger.ms", "1")
            .set("message.timeout.ms", deadline(60).as_millis().to_string())
            .create()
            .expect("a producer");
        let runtime = tokio::runtime::Builder::new_current_thread();
        Topic {
            config,
            producer,
            runtime: { runtime }.enable_all().build().expect("a runtime"),
        }
    }

    /// Produces records with these keys and values, each to the partition of its key. Returns when all are in the log.
    #[track_caller]
    pub fn produce(&self, records: &[(String, String)]) {
        let sent: Vec<_> = records
            .iter()
            .map(|(key, value)| self.enqueue(FutureRecord::to(TOPIC).key(key).payload(value)))
            .collect();
        self.runtime.block_on(async {
            for delivery in sent {
                let delivered = delivery.await.expect("the producer lives");
                delivered.expect("a record is delivered");
            }
        });
    }

    /// Produces one record to a partition of choice, with headers. Returns its offset.
    #[track_caller]
    pub fn produce_to(
        &self,
        partition: i32,
        key: Option<&str>,
        value: &[u8],
        headers: &[(&str, &str)],
    ) -> i64 {
        let mut all = OwnedHeaders::new();
        for (key, value) in headers {
            all = all.insert(Header {
                key,
                value: Some(*value),
            });
        }
        let record = FutureRecord::<str, [u8]>::to(TOPIC)
            .partition(partition)
            .payload(value)
            .headers(all);
        let record = match key {
            Some(key) => record.key(key),
            None => record,
        };
        let delivery = self.enqueue(record);
        let delivered = self.runtime.block_on(delivery).expect("the producer lives");
        delivered.expect("a record is delivered").offset
    }

    fn enqueue<K: rdkafka::message::ToBytes + ?Sized, P: rdkafka::message::ToBytes + ?Sized>(
        &self,
        mut record: FutureRecord<'_, K, P>,
    ) -> rdkafka::producer::future_producer::DeliveryFuture {
        loop {
            match self.producer.send_result(record) {
                Ok(delivery) => return delivery,
                // The queue is full.
                Err((_, unsent)) => record = unsent,
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn consumer(&self) -> BaseConsumer {
        let mut config = self.config.clone();
        config.set("group.id", "reader-of-the-test");
        config.set("enable.auto.commit", "false");
        config.set("auto.offset.reset", "earliest");
        config.set("isolation.level", "read_uncommitted");
        config.create().expect("a consumer")
    }

    /// For each partition, the first offset and the next one. Waits until all have leaders.
    pub fn watermarks(&self) -> Vec<(i64, i64)> {
        let consumer = self.consumer();
        let limit = Instant::now() + deadline(120);
        loop {
            match watermarks(&consumer) {
                Ok(marks) if !marks.is_empty() => return marks,
                failed => assert!(Instant::now() < limit, "no watermarks: {failed:?}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The number of partitions.
    pub fn partitions(&self) -> i32 {
        i32::try_from(self.watermarks().len()).expect("a number of partitions")
    }

    /// All records, in the order of each partition.
    pub fn records(&self) -> Vec<Record> {
        let marks = self.watermarks();
        let consumer = self.consumer();
        let mut from = TopicPartitionList::new();
        let mut left = BTreeMap::new();
        for (partition, (low, high)) in (0..).zip(marks) {
            if high > low {
                from.add_partition_offset(TOPIC, partition, Offset::Offset(low))
                    .expect("an offset");
                left.insert(partition, high);
            }
        }
        consumer.assign(&from).expect("an assignment");
        let (mut records, limit) = (Vec::new(), Instant::now() + deadline(120));
        while !left.is_empty() {
            assert!(Instant::now() < limit, "records are missing: {left:?}");
            let message = match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => message,
                // Brokers may be away for a moment.
                Some(Err(_)) | None => continue,
            };
            let record = record(&message);
            if left.get(&record.partition) == Some(&(record.offset + 1)) {
                left.remove(&record.partition);
            }
            records.push(record);
        }
        records.sort_by_key(|record| (record.partition, record.offset));
        records
    }

    /// Joins a group, reads this number of records of the partitions that it is assigned, commits them, and leaves.
    pub fn consume(&self, group: &str, records: usize) {
        let consumer: BaseConsumer = { self.config.clone() }
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .create()
            .expect("a consumer");
        consumer.subscribe(&[TOPIC]).expect("subscribed");
        let (limit, mut read, mut failed) = (Instant::now() + deadline(60), 0, None);
        while read < records {
            assert!(
                Instant::now() < limit,
                "{read} records were read, {failed:?}"
            );
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(_)) => read += 1,
                Some(Err(error)) => failed = Some(error),
                None => {}
            }
        }
        // Its partitions may just have been assigned to another one.
        let _ = consumer.commit_consumer_state(CommitMode::Sync);
    }

    /// Commits an offset of all partitions for a group, as an administrator would.
    pub fn commit(&self, group: &str, offset: impl Fn(i32) -> i64) {
        let partitions = self.partitions();
        let consumer: BaseConsumer = { self.config.clone() }
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .create()
            .expect("a consumer");
        let mut offsets = TopicPartitionList::new();
        for partition in 0..partitions {
            offsets
                .add_partition_offset(TOPIC, partition, Offset::Offset(offset(partition)))
                .expect("an offset");
        }
        let limit = Instant::now() + deadline(60);
        while let Err(error) = consumer.commit(&offsets, CommitMode::Sync) {
            assert!(Instant::now() < limit, "offsets are not committed: {error}");
        }
    }

    /// The committed offset of each partition for a group; -1 without one.
    pub fn committed(&self, group: &str) -> Vec<i64> {
        let partitions = self.partitions();
        let consumer: BaseConsumer = { self.config.clone() }
            .set("group.id", group)
            .create()
            .expect("a consumer");
        let mut of = TopicPartitionList::new();
        of.add_partition_range(TOPIC, 0, partitions - 1);
        let found = consumer.committed_offsets(of, deadline(60));
        let offset = |offset: Offset| match offset {
            Offset::Offset(offset) => offset,
            _ => -1,
        };
        let found = found.expect("committed offsets");
        let elements = found.elements();
        elements
            .iter()
            .map(|found| offset(found.offset()))
            .collect()
    }
}

fn watermarks(consumer: &BaseConsumer) -> rdkafka::error::KafkaResult<Vec<(i64, i64)>> {
    let timeout = Duration::from_secs(5);
    let metadata = consumer.fetch_metadata(Some(TOPIC), timeout)?;
    let topic = metadata.topics().iter().find(|topic| topic.name() == TOPIC);
    let partitions = topic.map_or(0, |topic| topic.partitions().len());
    let partitions = 0..i32::try_from(partitions).unwrap_or(0);
    let of = |partition| consumer.fetch_watermarks(TOPIC, partition, timeout);
    partitions.map(of).collect()
}

fn record(message: &rdkafka::message::BorrowedMessage<'_>) -> Record {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let headers = message.headers().into_iter().flat_map(Headers::iter);
    Record {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().and_then(text),
        value: message.payload().unwrap_or_default().to_vec(),
        headers: headers
            .filter_map(|header| Some((header.key.to_owned(), text(header.value?)?)))
            .collect(),
    }
}

impl Record {
    /// Its value as JSON; null if it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.value).unwrap_or_default()
    }

    /// The event of a stream that it is a copy of. `None` if it is an event of its own.
    pub fn source(&self) -> Option<Source> {
        let number = |header: &str| self.headers.get(header)?.parse::<u64>().ok();
        Some(Source {
            partition: u16::try_from(number(SOURCE)?).ok()?,
            sequence: number(SEQUENCE)?,
            index: number(INDEX).unwrap_or(0),
        })
    }
}

/// An event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The partition of the stream.
    pub partition: u16,
    /// The offset of the entry.
    pub sequence: u64,
    /// The number of the event in the entry.
    pub index: u64,
}
