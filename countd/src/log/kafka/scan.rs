//! Reads the topic again, with the copies of streams, for rebuilds. Partitions are assigned by hand, and no offset is committed.

use super::client::{self, Context};
use super::error::TopicError;
use super::record::{BorrowedRecord, HISTORY, INDEX, KIND, OUTCOME, Record, SEQUENCE, SOURCE};
use super::topic::Topic;
use crate::domain::keys::Partition;
use crate::log::archive::Outcome;
use futures_util::{FutureExt, StreamExt};
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time for which a read waits for a record.
const WAIT: Duration = Duration::from_millis(500);
/// The limits of a read: records, and bytes.
const READ: (usize, usize) = (5_000, 8 << 20);

/// Of which entry of a stream a record is a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The partition of the stream.
    pub source: Partition,
    /// The offset in the stream.
    pub sequence: u64,
    /// The number of the event in the entry.
    pub index: u64,
    /// The first digits of the history of the server.
    pub history: String,
    /// Whether it is a change of counters without an event.
    pub is_journal: bool,
    /// What became of the entry.
    pub outcome: Outcome,
}

/// A record that was read again.
#[derive(Clone, Debug)]
pub struct Scanned {
    /// The record, with its value.
    pub record: Record,
    /// What it is a copy of. `None` for a record that is counted from the topic, and for a copy that a rebuild cannot use.
    pub copied: Option<Copied>,
}

/// Reads partitions of the topic from given offsets.
pub struct Scanner {
    topic: Topic,
    consumer: StreamConsumer<Context>,
    next: BTreeMap<u16, u64>,
}

impl Scanner {
    /// A scanner without partitions. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// librdkafka rejects a setting.
    pub fn new(topic: Topic) -> Result<Scanner, TopicError> {
        Ok(Scanner {
            consumer: client::create(&client::of_consumer(topic.settings()))?,
            topic,
            next: BTreeMap::new(),
        })
    }

    /// The topic.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// The offset after the last record that was read of a partition.
    pub fn next(&self, partition: u16) -> u64 {
        self.next.get(&partition).copied().unwrap_or(0)
    }

    /// Reads these partitions from now on, from these offsets.
    ///
    /// # Errors
    /// The client has failed.
    pub fn assign(&mut self, from: BTreeMap<u16, u64>) -> Result<(), TopicError> {
        let mut list = TopicPartitionList::with_capacity(from.len());
        let name = &self.topic.identity().name;
        for (partition, offset) in &from {
            let offset = Offset::Offset(i64::try_from(*offset).unwrap_or(i64::MAX));
            list.add_partition_offset(name, i32::from(*partition), offset)
                .map_err(|error| TopicError::of_request(&error))?;
        }
        let assigned = self.consumer.assign(&list);
        assigned.map_err(|error| TopicError::of_request(&error))?;
        self.next = from;
        Ok(())
    }

    /// Reads records in the order of each partition. Returns none if none arrives for a moment.
    ///
    /// # Errors
    /// The topic has removed records that were to be read, or the client has failed.
    pub async fn read(&mut self) -> Result<Vec<Scanned>, TopicError> {
        let (mut received, mut size) = (Vec::new(), 0);
        {
            let mut messages = self.consumer.stream();
            let first = tokio::time::timeout(WAIT, messages.next()).await;
            let mut message = first.ok().flatten();
            while let Some(next) = message {
                if let Ok(next) = &next {
                    size += next.payload().map_or(0, <[u8]>::len);
                }
                received.push(next.map(|message| scanned(&message)));
                if received.len() >= READ.0 || size >= READ.1 {
                    break;
                }
                message = messages.next().now_or_never().flatten();
            }
        }
        let mut records = Vec::with_capacity(received.len());
        for read in received {
            match read {
                Ok(Some(scanned)) => {
                    let next = self.next.get_mut(&scanned.record.topic_partition);
                    if let Some(next) = next.filter(|next| scanned.record.offset >= **next) {
                        *next = scanned.record.offset + 1;
                        records.push(scanned);
                    }
                }
                Ok(None) => {}
                Err(error) if is_final(&error) => return Err(TopicError::of_request(&error)),
                // The client tries again.
                Err(error) => tracing::debug!(%error, "a read of the topic has failed"),
            }
        }
        Ok(records)
    }
}

/// Whether another attempt to read would fail as well.
fn is_final(error: &KafkaError) -> bool {
    matches!(
        error,
        KafkaError::MessageConsumptionFatal(_)
            | KafkaError::MessageConsumption(
                RDKafkaErrorCode::AutoOffsetReset
                    | RDKafkaErrorCode::OffsetOutOfRange
                    | RDKafkaErrorCode::TopicAuthorizationFailed
                    | RDKafkaErrorCode::UnknownTopic
                    | RDKafkaErrorCode::UnknownTopicOrPartition,
            )
    )
}

/// Copies a message with its headers. `None` if its partition or its offset is none of a topic.
fn scanned(message: &BorrowedMessage<'_>) -> Option<Scanned> {
    let record = BorrowedRecord::of(message)?.to_record();
    let headers = message.headers();
    let text = |name: &str| {
        let header = headers?.iter().find(|header| header.key == name)?;
        std::str::from_utf8(header.value?).ok()
    };
    let copied = || {
        Some(Copied {
            source: text(SOURCE)?.parse().ok()?,
            sequence: text(SEQUENCE)?.parse().ok()?,
            index: text(INDEX)
                .and_then(|index| index.parse().ok())
                .unwrap_or(0),
            history: text(HISTORY)?.to_owned(),
            is_journal: text(KIND) == Some("j"),
            outcome: text(OUTCOME).map_or(Some(Outcome::Counted), Outcome::from_name)?,
        })
    };
    let copied = copied();
    Some(Scanned { record, copied })
}
