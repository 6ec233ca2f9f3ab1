//! The producer: idempotent, and confirmed by all in-sync replicas. A record that is not confirmed in time has failed; it may be appended all the
//! same, but at most once.

use super::describe::{TopicDescription, describe};
use super::error::TopicError;
use super::guard::TopicGuard;
use super::producing_client::ProducingClient;
use super::unconfirmed::UnconfirmedRecords;
use crate::domain::config::KafkaConfig;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureRecord, Producer as _};
use rdkafka::types::RDKafkaErrorCode;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The delay before a record is offered again while the queue is full.
const FULL_DELAY: Duration = Duration::from_millis(5);

/// A record to be appended to the topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingRecord {
    /// The partition of the topic.
    pub partition: u16,
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
    /// Names and values of headers.
    pub headers: Vec<(&'static str, String)>,
}

/// Appends records to the topic. Cheap to clone.
#[derive(Clone)]
pub struct Producer(Arc<Inner>);

struct Inner {
    settings: Arc<KafkaConfig>,
    guard: TopicGuard,
    /// The time after which a record fails, in milliseconds; 0 is never.
    timeout_ms: u64,
    client: Arc<ProducingClient>,
}

impl Producer {
    /// A producer, whose records fail after a time; 0 is never. It connects in the background.
    ///
    /// # Errors
    /// librdkafka rejects a setting.
    pub(super) fn new(
        settings: &Arc<KafkaConfig>,
        timeout_ms: u64,
        guard: TopicGuard,
    ) -> Result<Producer, TopicError> {
        Ok(Producer(Arc::new(Inner {
            settings: Arc::clone(settings),
            guard,
            timeout_ms,
            client: Arc::new(ProducingClient::new(settings)?),
        })))
    }

    /// Describes the topic `settings.topic`. Blocks for up to `timeout`.
    ///
    /// # Errors
    /// No broker replied, the topic does not exist, or it may not be described.
    pub(super) fn describe_topic(&self, timeout: Duration) -> Result<TopicDescription, TopicError> {
        let client = self.0.client.current();
        describe(
            (client.producer.client(), self.0.client.context()),
            &self.0.settings.topic,
            timeout,
        )
    }

    /// Appends records, in order for each partition. Returns a result for each, in their order: an error says that the record may or may
    /// not have been appended, once, unless it is [`TopicError::TooLarge`]. Takes up to the timeout of the producer.
    ///
    /// A record that was appended before the known end of its partition is an error, too: the topic was created again, or has lost records,
    /// so the record is in another topic, or is taken for a counted one.
    pub async fn send<R: Borrow<OutgoingRecord>>(
        &self,
        records: &[R],
    ) -> Vec<Result<(), TopicError>> {
        if let Some(refusal) = self.0.guard.refusal() {
            let refused = || Err(TopicError::Refused(refusal.clone()));
            return records.iter().map(|_| refused()).collect();
        }
        // Before the records are sent.
        let mut ends = BTreeMap::new();
        for record in records {
            let partition = record.borrow().partition;
            let end = || self.0.guard.end(partition);
            ends.entry(partition).or_insert_with(end);
        }
        let timeout = Duration::from_millis(self.0.timeout_ms);
        let deadline = (!timeout.is_zero()).then(|| Instant::now() + timeout);
        let mut unconfirmed = UnconfirmedRecords::new(&self.0.client, deadline, records.len());
        for record in records {
            let offered = self.offer(&unconfirmed, record.borrow()).await;
            unconfirmed.push(offered);
        }
        let mut results = Vec::with_capacity(records.len());
        let (mut sent, mut failed) = (0, 0);
        for record in records {
            let Some(confirmed) = unconfirmed.next().await else {
                break;
            };
            let result = match confirmed {
                Ok(delivery) => {
                    let partition = record.borrow().partition;
                    let end = ends.get(&partition).copied().unwrap_or(0);
                    let checked = check_offset(partition, delivery.offset, end);
                    if let Ok(Some(next)) = checked {
                        self.0.guard.record_before(partition, next);
                    }
                    checked.map(drop)
                }
                Err(error) => Err(TopicError::of_request(&error)),
            };
            match &result {
                Ok(()) => sent += 1,
                Err(_) => failed += 1,
            }
            results.push(result);
        }
        metrics::counter!("countd_kafka_produced_total").increment(sent);
        if failed > 0 {
            metrics::counter!("countd_kafka_produce_errors_total").increment(failed);
        }
        results
    }

    /// Puts a record into the queue of a client.
    async fn offer(
        &self,
        unconfirmed: &UnconfirmedRecords,
        record: &OutgoingRecord,
    ) -> Result<DeliveryFuture, KafkaError> {
        let (client, deadline) = (unconfirmed.client(), unconfirmed.deadline());
        let mut outgoing = FutureRecord::to(&self.0.settings.topic)
            .partition(i32::from(record.partition))
            .key(&record.key)
            .payload(&record.value);
        if !record.headers.is_empty() {
            let headers = record.headers.iter();
            let headers = headers.fold(OwnedHeaders::new(), |headers, (key, value)| {
                headers.insert(Header {
                    key,
                    value: Some(value),
                })
            });
            outgoing = outgoing.headers(headers);
        }
        loop {
            match client.producer.send_result(outgoing) {
                Ok(delivery) => return Ok(delivery),
                Err((error, rejected)) => {
                    let is_full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
                    if !is_full || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                        return Err(error);
                    }
                    outgoing = rejected;
                    tokio::time::sleep(FULL_DELAY).await;
                }
            }
        }
    }
}

/// Checks that a record was appended after the end of its partition that was known before. Returns the offset after it; `None` for a record that a
/// broker had already, whose offset is negative.
fn check_offset(partition: u16, offset: i64, end: u64) -> Result<Option<u64>, TopicError> {
    match u64::try_from(offset) {
        Ok(offset) if offset < end => Err(TopicError::Refused(format!(
            "a record has got offset {offset} of partition {partition}, which ended at {end} before: the topic was created again, or has lost records"
        ))),
        offset => Ok(offset.ok().map(|offset| offset + 1)),
    }
}
