//! Events that are records of the topic: those of repeatable metrics, if the log is in Kafka.

use crate::domain::error::Problem;
use crate::domain::event::Event;
use crate::domain::keys::Partition;
use crate::log::kafka::{OutgoingRecord, Topic, TopicError};

/// The record of an event. Its key is that of the entity, so that other producers choose the same partition.
pub(super) fn record_of(
    topic: &Topic,
    event: &Event,
    partition: Partition,
    value: impl Into<Vec<u8>>,
) -> OutgoingRecord {
    OutgoingRecord {
        partition: topic.identity().partition_of(partition),
        key: format!("{}:{}", event.entity.etype, event.entity.eid),
        value: value.into(),
        headers: Vec::new(),
    }
}

/// The problem of a record that the topic has not confirmed.
pub(super) fn rejected(error: &TopicError) -> Problem {
    Problem::TopicUnavailable(error.to_string())
}

/// The problem of a record without a topic, which is not prepared.
pub(super) fn no_topic() -> Problem {
    Problem::TopicUnavailable("there is no topic".to_owned())
}
