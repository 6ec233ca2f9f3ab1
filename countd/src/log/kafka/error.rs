//! Errors of the topic.

use crate::domain::error::StoreError;
use crate::redis::layout::Truncation;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

/// Why the topic cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// A retry may succeed: no broker replied.
    #[error("Kafka is not available: {0}")]
    Unavailable(String),
    /// The record exceeds `message.max.bytes`. It was not appended.
    #[error("the event is too large for the topic: {0}")]
    TooLarge(String),
    /// librdkafka rejects a setting.
    #[error("kafka.properties: {0}")]
    Settings(KafkaError),
    /// The topic does not exist.
    #[error(
        "the topic {0} does not exist: create it with a power of two of partitions, cleanup.policy=delete and without a limit of its size"
    )]
    Missing(String),
    /// The user may not use the topic.
    #[error("the topic {0} may not be used: {1}")]
    Forbidden(String, String),
    /// The topic has a number of partitions that entities cannot be assigned to.
    #[error(
        "the topic {topic} has {found} partitions: they must be a power of two, and at most {max}"
    )]
    Partitions {
        /// The topic.
        topic: String,
        /// Its number of partitions.
        found: usize,
        /// The number of partitions of the data.
        max: u16,
    },
    /// The data has another topic.
    #[error(
        "this data was counted from the topic {stored}, but kafka.topic is {configured}: its positions would be those of other events"
    )]
    OtherTopic {
        /// The topic of the data.
        stored: String,
        /// The configured topic.
        configured: String,
    },
    /// The topic was deleted and created again.
    #[error(
        "the topic {topic} was created again: its ID is {found}, that of this data is {stored}. Positions of the former topic mean nothing in this one: see docs/countd/kafka.md"
    )]
    Recreated {
        /// The topic.
        topic: String,
        /// Its ID.
        found: String,
        /// The ID when the data was created.
        stored: String,
    },
    /// Partitions were added.
    #[error(
        "the topic {topic} has {found} partitions, and had {stored} when this data was created: events of an entity would be in two partitions. See docs/countd/kafka.md"
    )]
    Grown {
        /// The topic.
        topic: String,
        /// Its number of partitions.
        found: u16,
        /// The number when the data was created.
        stored: u16,
    },
    /// It is not the topic of the data any more. Nothing may be appended to it.
    #[error("the topic is not used: {0}")]
    Refused(String),
    /// The topic has lost records that were counted.
    #[error(transparent)]
    Truncated(Truncation),
    /// The data cannot have its log in Kafka.
    #[error("log.kind is \"kafka\", but {0}")]
    Data(String),
    /// Redis failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TopicError {
    /// Whether a later attempt may succeed without a change of the topic or the configuration.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            TopicError::Unavailable(_) | TopicError::Store(StoreError::Unavailable(_))
        )
    }

    /// An error of a request to a broker.
    pub(super) fn of_request(error: &KafkaError) -> TopicError {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge) {
            return TopicError::TooLarge(error.to_string());
        }
        TopicError::Unavailable(error.to_string())
    }
}
