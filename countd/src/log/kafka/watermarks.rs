//! What is known of the topic, and the task that finds it out.

use super::client::Context;
use rdkafka::consumer::BaseConsumer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// What is known of the topic.
#[derive(Clone, Debug, Default)]
pub struct Watermarks {
    /// The number of looks that found the topic of the data.
    pub generation: u64,
    /// By partition of the topic, the offset of the first record and that after the last one.
    pub bounds: BTreeMap<u16, (u64, u64)>,
    /// Why the topic must not be read: it is not that of the data.
    pub refusal: Option<String>,
    /// Why the topic was not reachable at the last look.
    pub problem: Option<String>,
}

/// The task that watches a topic, while one does. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Watcher(Arc<Mutex<Option<Watch>>>);

/// Where the task says what it has seen, and its client.
type Watch = (watch::Sender<Watermarks>, Arc<BaseConsumer<Context>>);

impl Watcher {
    /// Locks the watch: no task is started or ends while the guard is held.
    pub fn watch(&self) -> MutexGuard<'_, Option<Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the watch if there is no receiver. Returns whether it did.
    pub fn ends(&self, sender: &watch::Sender<Watermarks>) -> bool {
        // Receivers are added under the lock, too.
        let mut watch = self.watch();
        if sender.is_closed() {
            *watch = None;
        }
        watch.is_none()
    }
}
