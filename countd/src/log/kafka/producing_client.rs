//! The client of a producer, and what replaces it. A client that goes on after one of its records has failed could append others twice:
//! the failed record leaves a gap in the sequence numbers of its partition, and librdkafka sends those behind the gap again with new numbers,
//! also what brokers have appended and not confirmed yet. A new client sends nothing of the former one again.

use super::client::{self, Context};
use super::error::TopicError;
use crate::domain::config::KafkaConfig;
use arc_swap::ArcSwap;
use rdkafka::producer::{FutureProducer, Producer as _, PurgeConfig};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A client of librdkafka.
pub(super) type Client = Arc<FutureProducer<Context>>;

/// How long a client that was replaced still has to confirm what brokers have accepted.
const LAST_CONFIRMATIONS: Duration = Duration::from_millis(500);
/// The delay between attempts to destroy it.
const IN_USE_DELAY: Duration = Duration::from_millis(10);

/// The client of a producer.
pub(super) struct ProducingClient {
    settings: Arc<KafkaConfig>,
    context: Context,
    current: ArcSwap<FutureProducer<Context>>,
    replacing: Mutex<()>,
}

impl ProducingClient {
    /// A client, which connects in the background.
    ///
    /// # Errors
    /// librdkafka rejects a setting.
    pub fn new(settings: &Arc<KafkaConfig>) -> Result<ProducingClient, TopicError> {
        let context = Context::default();
        let client = client::create_in(&client::of_producer(settings), &context)?;
        Ok(ProducingClient {
            settings: Arc::clone(settings),
            context,
            current: ArcSwap::from_pointee(client),
            replacing: Mutex::new(()),
        })
    }

    /// What is known of its connections.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The client.
    pub fn current(&self) -> Client {
        self.current.load_full()
    }

    /// Replaces a client after a fatal error: an idempotent producer that lost its sequence numbers accepts no records any more.
    pub fn replace_failed(&self, client: &Client) {
        if let Some((code, reason)) = client.client().fatal_error() {
            self.replace(client, &format!("{code}: {reason}"));
        }
    }

    /// Replaces a client, unless it was replaced already. What it has not appended half a second later fails.
    pub fn replace(&self, client: &Client, reason: &str) {
        let replacing = self.replacing.lock();
        let _replacing = replacing.unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&self.current(), client) {
            return;
        }
        match client::create_in(&client::of_producer(&self.settings), &self.context) {
            Ok(new) => {
                tracing::warn!(reason, "the producer is replaced");
                retire(self.current.swap(Arc::new(new)));
            }
            Err(error) => tracing::error!(reason, %error, "the producer cannot be replaced"),
        }
    }
}

/// Destroys a client after [`LAST_CONFIRMATIONS`], on a thread of its own: librdkafka blocks until its threads have ended.
fn retire(client: Client) {
    let destroy = move || {
        thread::sleep(LAST_CONFIRMATIONS);
        client.purge(PurgeConfig::default().queue().inflight());
        // Whoever loaded it before it was replaced may still have put a record into its queue.
        while Arc::strong_count(&client) > 1 {
            thread::sleep(IN_USE_DELAY);
            client.purge(PurgeConfig::default().queue().inflight());
        }
    };
    let thread = thread::Builder::new().name("retired-producer".to_owned());
    if let Err(error) = thread.spawn(destroy) {
        // Then the last who has it destroys it.
        tracing::debug!(%error, "no thread");
    }
}
