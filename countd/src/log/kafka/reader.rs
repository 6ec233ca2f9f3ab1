//! Reads partitions of the topic from given offsets. No consumer group assigns them: positions are in Redis.

use super::client::{self, Context};
use super::error::TopicError;
use super::record::{BorrowedRecord, Record};
use super::records::Records;
use super::topic::Topic;
use super::watermarks::Watermarks;
use futures_util::{FutureExt, StreamExt};
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;

/// The time for which an idle reader waits before it looks for errors of the client.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// Why a partition of the topic cannot be read now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReaderError {
    /// Records were removed before they were read.
    Lost {
        /// The offset of the first record that is left.
        first: u64,
        /// The number of offsets that are gone.
        count: u64,
    },
    /// The partition ends before the position.
    Truncated {
        /// The offset after the last record.
        end: u64,
    },
}

/// Reads some partitions of the topic.
pub struct Reader {
    topic: Topic,
    consumer: StreamConsumer<Context>,
    watermarks: watch::Receiver<Watermarks>,
    /// By partition of the topic, the next offset to be read.
    next: BTreeMap<u16, u64>,
    /// A record that was read while waiting.
    first: Option<Record>,
    /// After an error of the position of a partition: the look at the offsets after which the partitions are assigned again.
    assign_after: Option<u64>,
    /// Whether the client has failed for good.
    has_failed: bool,
    /// The partitions that seemed to end before a position, and the looks at the offsets by which they did first.
    truncated: BTreeMap<u16, u64>,
}

impl Reader {
    /// A reader without partitions. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// librdkafka rejects a setting.
    pub fn new(
        topic: Topic,
        watermarks: watch::Receiver<Watermarks>,
    ) -> Result<Reader, TopicError> {
        Ok(Reader {
            consumer: client::create(&client::of_consumer(topic.settings()))?,
            topic,
            watermarks,
            next: BTreeMap::new(),
            first: None,
            assign_after: None,
            has_failed: false,
            truncated: BTreeMap::new(),
        })
    }

    /// The topic.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// What is known of the topic.
    pub fn watermarks(&self) -> watch::Ref<'_, Watermarks> {
        self.watermarks.borrow()
    }

    /// The next offset of a partition that is being read.
    pub fn next(&self, partition: u16) -> Option<u64> {
        self.next.get(&partition).copied()
    }

    /// Checks that a partition can be read from an offset. `None` while that is not known.
    pub fn check(&mut self, partition: u16, from: u64) -> Option<Result<(), ReaderError>> {
        let watermarks = self.watermarks.borrow();
        let generation = watermarks.generation;
        let (first, end) = *watermarks.bounds.get(&partition)?;
        if from < first {
            let count = first - from;
            return Some(Err(ReaderError::Lost { first, count }));
        }
        // What was read itself may be newer than the look.
        let is_read = self.next.get(&partition).is_some_and(|next| *next >= from);
        if from <= end || is_read {
            self.truncated.remove(&partition);
            self.topic.guard().record_before(partition, from);
            return Some(Ok(()));
        }
        // The position may be newer than the look, too.
        let since = *self.truncated.entry(partition).or_insert(generation);
        (generation >= since + 2).then_some(Err(ReaderError::Truncated { end }))
    }

    /// Reads exactly these partitions from now on, from these offsets. Cheap if that is what is being read.
    ///
    /// # Errors
    /// The client has failed. Nothing is read until the next call.
    pub fn assign(&mut self, from: &BTreeMap<u16, u64>) -> Result<(), TopicError> {
        if self.has_failed {
            self.consumer = client::create(&client::of_consumer(self.topic.settings()))?;
            (self.has_failed, self.assign_after) = (false, None);
            self.next.clear();
        }
        let is_due = match self.assign_after {
            Some(generation) if self.watermarks.borrow().generation <= generation => return Ok(()),
            Some(_) => true,
            None => false,
        };
        if !is_due && self.next == *from {
            return Ok(());
        }
        self.next.clear();
        self.first = None;
        let mut list = TopicPartitionList::with_capacity(from.len());
        let name = &self.topic.identity().name;
        for (partition, offset) in from {
            let offset = i64::try_from(*offset).unwrap_or(i64::MAX);
            let offset = Offset::Offset(offset);
            list.add_partition_offset(name, i32::from(*partition), offset)
                .map_err(|error| TopicError::of_request(&error))?;
        }
        let assigned = match from.is_empty() {
            true => self.consumer.unassign(),
            false => self.consumer.assign(&list),
        };
        assigned.map_err(|error| TopicError::of_request(&error))?;
        self.assign_after = None;
        self.next.clone_from(from);
        Ok(())
    }

    /// Waits until there is a record, up to a limit. Can be cancelled: a record that has arrived is not lost.
    pub async fn wait(&mut self, limit: Duration) {
        if self.first.is_some() {
            return;
        }
        let received = tokio::time::timeout(limit.min(MAX_WAIT), self.consumer.recv()).await;
        let received = received.map(|received| {
            received.map(|message| BorrowedRecord::of(&message).map(BorrowedRecord::to_record))
        });
        match received {
            Ok(Ok(record)) => {
                let next = &mut self.next;
                self.first = record.filter(|record| follow(next, record.as_borrowed()));
            }
            Ok(Err(error)) => self.fail(&error),
            // Nothing has arrived.
            Err(_) => {}
        }
    }

    /// Appends records that have arrived to `records`, up to a number and a sum of their sizes, in the order of each partition. Returns
    /// whether there are no more.
    pub fn take(&mut self, records: &mut Records, limit: usize, bytes: usize) -> bool {
        if let Some(record) = self.first.take() {
            records.push(record.as_borrowed());
        }
        let error = {
            let mut messages = self.consumer.stream();
            loop {
                if records.len() >= limit || records.size() >= bytes {
                    return false;
                }
                let Some(Some(message)) = messages.next().now_or_never() else {
                    return true;
                };
                match message {
                    Ok(message) => {
                        let record = BorrowedRecord::of(&message);
                        if let Some(record) =
                            record.filter(|record| follow(&mut self.next, *record))
                        {
                            records.push(record);
                        }
                    }
                    Err(error) => break error,
                }
            }
        };
        // It may be that nothing that follows is accepted.
        self.fail(&error);
        false
    }

    fn fail(&mut self, error: &KafkaError) {
        match error {
            KafkaError::MessageConsumption(
                RDKafkaErrorCode::AutoOffsetReset
                | RDKafkaErrorCode::OffsetOutOfRange
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownTopicOrPartition,
            ) => {
                // It may be another topic: nothing more is accepted until a later look has compared it, and tells why.
                let generation = self.watermarks.borrow().generation;
                self.assign_after.get_or_insert(generation + 1);
                self.next.clear();
                tracing::warn!(%error, "a position is not in the topic");
            }
            KafkaError::MessageConsumptionFatal(_) => {
                self.has_failed = true;
                tracing::warn!(%error, "the consumer has failed and is replaced");
            }
            // The client tries again.
            error => tracing::debug!(%error, "a read of the topic has failed"),
        }
    }
}

/// Advances the next offset of a record's partition. Returns false for a record from before the partition was assigned again.
fn follow(next: &mut BTreeMap<u16, u64>, record: BorrowedRecord<'_>) -> bool {
    match next.get_mut(&record.topic_partition) {
        Some(next) if record.offset >= *next => {
            *next = record.offset + 1;
            true
        }
        _ => false,
    }
}
