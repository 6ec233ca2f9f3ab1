//! The client of a producer, and its replacement. A client that went on after it has failed a record could append others twice: the failed
//! record leaves a gap in the sequence numbers of its partition, so librdkafka would renumber later records of the partition and send them
//! again, including ones that the brokers have appended and not confirmed yet. A new client sends nothing of the former one again.

use super::client::{self, Context};
use super::error::TopicError;
use crate::domain::config::KafkaConfig;
use arc_swap::ArcSwap;
use rdkafka::producer::{FutureProducer, Producer as _, PurgeConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tokio::time::Instant;

/// How long a client that was replaced still has to confirm what brokers have accepted.
const LAST_CONFIRMATIONS: Duration = Duration::from_millis(500);
/// The delay between attempts to end it.
const IN_USE_DELAY: Duration = Duration::from_millis(10);
/// How long a client has at least to connect, and to confirm its first records.
const START: Duration = Duration::from_secs(3);
/// The minimum age of a client that is replaced after a fatal error: without the permission to write, each fails with its first record.
const MIN_AGE: Duration = Duration::from_secs(1);

/// A client of librdkafka.
pub(super) struct Client {
    /// The client.
    pub producer: FutureProducer<Context>,
    created: Instant,
}

impl Client {
    fn new(settings: &KafkaConfig, context: &Context) -> Result<Client, TopicError> {
        Ok(Client {
            producer: client::create_in(&client::of_producer(settings), context)?,
            created: Instant::now(),
        })
    }

    /// When it is replaced if a record that had to be confirmed before the deadline is not.
    pub fn patience(&self, deadline: Instant) -> Instant {
        deadline.max(self.created + START)
    }
}

/// The client of a producer.
pub(super) struct ProducingClient {
    settings: Arc<KafkaConfig>,
    context: Context,
    current: ArcSwap<Client>,
    is_replacing: AtomicBool,
}

impl ProducingClient {
    /// A client, which connects in the background.
    ///
    /// # Errors
    /// librdkafka rejects a setting.
    pub fn new(settings: &Arc<KafkaConfig>) -> Result<ProducingClient, TopicError> {
        let context = Context::default();
        let client = Client::new(settings, &context)?;
        Ok(ProducingClient {
            settings: Arc::clone(settings),
            context,
            current: ArcSwap::from_pointee(client),
            is_replacing: AtomicBool::new(false),
        })
    }

    /// What is known of its connections.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The client.
    pub fn current(&self) -> Arc<Client> {
        self.current.load_full()
    }

    /// Replaces a client that a record has waited for too long.
    pub fn replace_late(self: &Arc<Self>, client: &Arc<Client>) {
        self.replace(client, "a record was not confirmed in kafka.timeout_ms");
    }

    /// Replaces a client after a fatal error: it has lost its sequence numbers, or brokers have rejected a record, and it accepts no others.
    pub fn replace_failed(self: &Arc<Self>, client: &Arc<Client>) {
        if let Some((code, reason)) = client.producer.client().fatal_error() {
            self.replace(client, &format!("{code}: {reason}"));
        }
    }

    /// Replaces a client, unless it was replaced already. What the former one has not delivered after [`LAST_CONFIRMATIONS`] fails. Runs on a
    /// thread of its own, because librdkafka blocks when a client is created and until one has ended.
    fn replace(self: &Arc<Self>, client: &Arc<Client>, reason: &str) {
        let is_current = Arc::ptr_eq(&self.current(), client);
        if !is_current || self.is_replacing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (clients, client, reason) = (Arc::clone(self), Arc::clone(client), reason.to_owned());
        let replace = move || {
            let is_replaced = clients.replace_now(&client, &reason);
            clients.is_replacing.store(false, Ordering::Release);
            drop(clients);
            if is_replaced {
                retire(&client);
            }
        };
        let thread = thread::Builder::new().name("kafka-producer".to_owned());
        if let Err(error) = thread.spawn(replace) {
            self.is_replacing.store(false, Ordering::Release);
            tracing::error!(%error, "the producer cannot be replaced");
        }
    }

    /// Creates another client in the place of this one. Returns whether that has happened.
    fn replace_now(&self, client: &Arc<Client>, reason: &str) -> bool {
        // Another thread may have been faster.
        if !Arc::ptr_eq(&self.current(), client) {
            return false;
        }
        thread::sleep(MIN_AGE.saturating_sub(client.created.elapsed()));
        match Client::new(&self.settings, &self.context) {
            Ok(new) => {
                tracing::warn!(reason, "the producer is replaced");
                self.current.store(Arc::new(new));
                true
            }
            Err(error) => {
                tracing::error!(reason, %error, "the producer cannot be replaced");
                false
            }
        }
    }
}

/// Ends a client that was replaced. Returns when no task has it any more.
fn retire(client: &Arc<Client>) {
    let purge = || {
        let all = PurgeConfig::default().queue().inflight();
        client.producer.purge(all);
    };
    thread::sleep(LAST_CONFIRMATIONS);
    purge();
    while Arc::strong_count(client) > 1 {
        // A task that loaded it before the replacement may still enqueue a record.
        thread::sleep(IN_USE_DELAY);
        purge();
    }
}
