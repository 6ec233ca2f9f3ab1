//! Describes the topic: its ID, its partitions, and what the user may do with it. The Rust client has no such request, so this file calls
//! librdkafka itself.

use super::client::Context;
use super::error::TopicError;
use rdkafka::bindings as sys;
use rdkafka::client::{Client, ClientContext};
use rdkafka::metadata::MetadataBroker;
use rdkafka::types::RDKafkaRespErr;
use std::ffi::{CStr, CString, c_char};
use std::time::Duration;

/// A topic as its brokers describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    /// The ID that it got when it was created, in base 64; `None` if the brokers have no IDs of topics.
    pub id: Option<String>,
    /// The number of its partitions.
    pub partitions: usize,
    /// The least number of replicas of a partition.
    pub min_replicas: usize,
    /// The partitions without a leader.
    pub leaderless: usize,
    /// What the user may do; `None` if the brokers do not tell.
    pub operations: Option<Operations>,
}

/// What a user may do with a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// May read records.
    pub read: bool,
    /// May append records.
    pub write: bool,
    /// May describe its configuration.
    pub describe_configs: bool,
}

/// The ID of a topic whose brokers have no IDs of topics.
const NO_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// Frees an object of librdkafka at the end of its scope.
struct Owned<T>(*mut T, unsafe extern "C" fn(*mut T));

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the object was created by librdkafka for this function, and nothing uses it any more.
            unsafe { self.1(self.0) }
        }
    }
}

/// Describes a topic. Blocks for up to `timeout`. `context` is that of the client.
///
/// # Errors
/// No broker replied, the topic does not exist, or it may not be described.
pub(super) fn describe<C: ClientContext>(
    (client, context): (&Client<C>, &Context),
    topic: &str,
    timeout: Duration,
) -> Result<TopicDescription, TopicError> {
    request(client, topic, timeout).map_err(|error| match (error, context.cause()) {
        (TopicError::Unavailable(reason), Some(cause)) => {
            TopicError::Unavailable(format!("{reason}: {cause}"))
        }
        (error, _) => error,
    })
}

fn request<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    timeout: Duration,
) -> Result<TopicDescription, TopicError> {
    let name = CString::new(topic).map_err(|_| TopicError::Missing(topic.to_owned()))?;
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // Any broker knows the topic. By default the controller would be asked, of which there may be none for a while.
    let metadata = client
        .fetch_metadata(Some(topic), timeout)
        .map_err(|error| TopicError::of_request(&error))?;
    let brokers = metadata.brokers().iter().map(MetadataBroker::id);
    // The one that has just replied: others may have failed. It has no ID if it replied as a bootstrap server.
    let replied = metadata.orig_broker_id();
    let broker = brokers.clone().find(|broker| *broker == replied);
    let Some(broker) = broker.or_else(|| brokers.min()) else {
        return Err(TopicError::Unavailable("there is no broker".to_owned()));
    };
    let client = client.native_ptr();
    // SAFETY: a `Client` has a valid client of librdkafka while it lives. Every object that is created is checked, and freed when the function returns, after
    // the event that may point to others. Names and lists are used only while their event lives.
    unsafe {
        let queue = Owned(sys::rd_kafka_queue_new(client), sys::rd_kafka_queue_destroy);
        let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let options = Owned(
            sys::rd_kafka_AdminOptions_new(client, operation),
            sys::rd_kafka_AdminOptions_destroy,
        );
        let mut names = [name.as_ptr()];
        let topics = Owned(
            sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len()),
            sys::rd_kafka_TopicCollection_destroy,
        );
        let mut text: [c_char; 256] = [0; 256];
        sys::rd_kafka_AdminOptions_set_request_timeout(
            options.0,
            timeout_ms,
            text.as_mut_ptr(),
            text.len(),
        );
        sys::rd_kafka_AdminOptions_set_broker(options.0, broker, text.as_mut_ptr(), text.len());
        let refused = Owned(
            sys::rd_kafka_AdminOptions_set_include_authorized_operations(options.0, 1),
            sys::rd_kafka_error_destroy,
        );
        drop(refused);
        sys::rd_kafka_DescribeTopics(client, topics.0, options.0, queue.0);
        let event = Owned(
            sys::rd_kafka_queue_poll(queue.0, timeout_ms.saturating_add(1_000)),
            sys::rd_kafka_event_destroy,
        );
        if event.0.is_null() {
            return Err(TopicError::Unavailable("no reply".to_owned()));
        }
        let error = sys::rd_kafka_event_error(event.0);
        if error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            let reason = text_of(sys::rd_kafka_event_error_string(event.0));
            return Err(TopicError::Unavailable(reason));
        }
        let result = sys::rd_kafka_event_DescribeTopics_result(event.0);
        if result.is_null() {
            return Err(TopicError::Unavailable("an unexpected reply".to_owned()));
        }
        let mut count = 0;
        let described = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        if described.is_null() || count == 0 {
            return Err(TopicError::Missing(topic.to_owned()));
        }
        description(topic, *described)
    }
}

/// # Safety
/// `described` is a valid description of a topic.
unsafe fn description(
    topic: &str,
    described: *const sys::rd_kafka_TopicDescription_t,
) -> Result<TopicDescription, TopicError> {
    // SAFETY: the caller guarantees that the description is valid; what it returns belongs to it. Lists have as many items as they say.
    unsafe {
        let error = sys::rd_kafka_TopicDescription_error(described);
        let code = match error.is_null() {
            true => RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR,
            false => sys::rd_kafka_error_code(error),
        };
        match code {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => {}
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
            | RDKafkaRespErr::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC => {
                return Err(TopicError::Missing(topic.to_owned()));
            }
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED => {
                let reason = text_of(sys::rd_kafka_error_string(error));
                return Err(TopicError::Forbidden(topic.to_owned(), reason));
            }
            _ => {
                let reason = text_of(sys::rd_kafka_error_string(error));
                return Err(TopicError::Unavailable(reason));
            }
        }
        let id = sys::rd_kafka_TopicDescription_topic_id(described);
        let id = match id.is_null() {
            true => None,
            false => Some(text_of(sys::rd_kafka_Uuid_base64str(id))),
        };
        let mut partitions = 0;
        let list = sys::rd_kafka_TopicDescription_partitions(described, &mut partitions);
        let (mut min_replicas, mut leaderless) = (usize::MAX, 0);
        for at in 0..partitions {
            let partition = *list.add(at);
            let mut replicas = 0;
            sys::rd_kafka_TopicPartitionInfo_replicas(partition, &mut replicas);
            min_replicas = min_replicas.min(replicas);
            let leader = sys::rd_kafka_TopicPartitionInfo_leader(partition);
            leaderless += usize::from(leader.is_null());
        }
        let mut count = 0;
        let operations =
            sys::rd_kafka_TopicDescription_authorized_operations(described, &mut count);
        let operations = match operations.is_null() {
            true => None,
            false => Some(allowed(std::slice::from_raw_parts(operations, count))),
        };
        Ok(TopicDescription {
            id: id.filter(|id| id != NO_ID && !id.is_empty()),
            partitions,
            min_replicas: if partitions == 0 { 0 } else { min_replicas },
            leaderless,
            operations,
        })
    }
}

fn allowed(operations: &[sys::rd_kafka_AclOperation_t]) -> Operations {
    use sys::rd_kafka_AclOperation_t as Operation;
    let has = |operation| {
        operations.contains(&operation)
            || operations.contains(&Operation::RD_KAFKA_ACL_OPERATION_ALL)
    };
    Operations {
        read: has(Operation::RD_KAFKA_ACL_OPERATION_READ),
        write: has(Operation::RD_KAFKA_ACL_OPERATION_WRITE),
        describe_configs: has(Operation::RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS),
    }
}

/// # Safety
/// `text` is null, or a C string.
unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees that it is a C string.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
