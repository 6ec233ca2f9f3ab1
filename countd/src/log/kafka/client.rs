//! Clients of librdkafka.

use super::error::TopicError;
use crate::domain::config::KafkaConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum size of what a consumer has fetched and nobody has read, in KiB.
const FETCHED_KIB: &str = "16384";

/// Writes what librdkafka logs to the log of the process, and keeps why its last connection failed: a request that had no connection only
/// says that. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Context {
    cause: Arc<Mutex<Option<String>>>,
}

impl Context {
    /// Why the last connection failed, such as a refused password, if the client polls its events.
    pub(super) fn cause(&self) -> Option<String> {
        let cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        cause.clone()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::error!(facility, message, "librdkafka");
            }
            // Broken connections, which are opened again, are errors for librdkafka.
            RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => {
                tracing::debug!(facility, message, "librdkafka");
            }
            _ => tracing::trace!(facility, message, "librdkafka"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::AllBrokersDown) => {
                tracing::warn!(reason, "no broker of Kafka is reachable");
            }
            _ => {
                tracing::debug!(%error, reason, "librdkafka");
                let mut cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
                *cause = Some(reason.to_owned());
            }
        }
    }
}

impl ConsumerContext for Context {}

/// The settings of all clients.
fn common(settings: &KafkaConfig) -> ClientConfig {
    let mut config = ClientConfig::new();
    for (name, value) in &settings.properties {
        config.set(name, value.expose());
    }
    config
        .set("bootstrap.servers", settings.brokers.join(","))
        .set("allow.auto.create.topics", "false");
    // Unless `properties` has another one.
    for (name, value) in [
        ("client.id", "countd"),
        ("reconnect.backoff.max.ms", "2000"),
        ("topic.metadata.refresh.interval.ms", "30000"),
        ("log.connection.close", "false"),
    ] {
        if config.get(name).is_none() {
            config.set(name, value);
        }
    }
    config.set_log_level(RDKafkaLogLevel::Info);
    config
}

/// The settings of a producer.
pub(super) fn of_producer(settings: &KafkaConfig) -> ClientConfig {
    let mut config = common(settings);
    config
        .set("enable.idempotence", "true")
        .set("acks", "all")
        // A client that fails a record fails all, and is replaced (producing_client.rs): for a record that is late countd does that itself.
        .set("enable.gapless.guarantee", "true")
        .set("message.timeout.ms", "0");
    for (name, value) in [
        // The latency of an action. Concurrent actions still share a request while one is under way.
        ("linger.ms", "1"),
        ("queue.buffering.max.messages", "1000000"),
        ("queue.buffering.max.kbytes", "262144"),
    ] {
        if !has_any(settings, name) {
            config.set(name, value);
        }
    }
    config
}

/// The settings of a consumer.
pub(super) fn of_consumer(settings: &KafkaConfig) -> ClientConfig {
    let mut config = common(settings);
    config
        .set("group.id", &settings.group)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // Records that are gone are an error: the reader finds out how many.
        .set("auto.offset.reset", "error")
        .set("isolation.level", "read_committed");
    for (name, value) in [
        ("queued.max.messages.kbytes", FETCHED_KIB),
        ("fetch.max.bytes", "16777216"),
        ("fetch.wait.max.ms", "250"),
        // The default of a second would be a pause whenever the queue is full.
        ("fetch.queue.backoff.ms", "10"),
        ("fetch.error.backoff.ms", "100"),
        // A worker that waits for Redis does not poll.
        ("max.poll.interval.ms", "86400000"),
    ] {
        if !has_any(settings, name) {
            config.set(name, value);
        }
    }
    config
}

/// Whether the configuration has a setting, or its other name.
fn has_any(settings: &KafkaConfig, name: &str) -> bool {
    let alias = match name {
        "linger.ms" => "queue.buffering.max.ms",
        name => name,
    };
    let properties = &settings.properties;
    properties.contains_key(name) || properties.contains_key(alias)
}

/// Creates a client. It connects in the background.
///
/// # Errors
/// librdkafka rejects a setting.
pub(super) fn create<T: FromClientConfigAndContext<Context>>(
    config: &ClientConfig,
) -> Result<T, TopicError> {
    create_in(config, &Context::default())
}

/// [`create`] with a context that is the caller's, too.
///
/// # Errors
/// librdkafka rejects a setting.
pub(super) fn create_in<T: FromClientConfigAndContext<Context>>(
    config: &ClientConfig,
    context: &Context,
) -> Result<T, TopicError> {
    config
        .create_with_context(context.clone())
        .map_err(TopicError::Settings)
}
