//! The clients of the changes, and the reader that they share.

use super::client::Client;
use super::event::ChangeEvent;
use super::reader::Reader;
use crate::domain::config::ChangesConfig;
use crate::domain::error::Problem;
use crate::redis::store::Store;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, broadcast, mpsc, watch};

/// The time over which changes are coalesced.
const ROUND: Duration = Duration::from_millis(200);
/// The delay between two attempts to start the reader.
const RETRY: Duration = Duration::from_secs(1);
/// The number of events of the reader that a client may be behind.
const LAG: usize = 256;
/// The number of events that wait for a client to read them.
const QUEUE: usize = 4;
/// The number of clients that read missed changes at once.
const REPLAYS: usize = 4;

/// The changes of counters. Cheap to clone.
#[derive(Clone)]
pub struct Changes(Arc<Hub>);

/// What the clients share.
struct Hub {
    store: Store,
    stopping: watch::Receiver<bool>,
    /// Limits the clients that read missed changes at once.
    replays: Arc<Semaphore>,
    max_streams: usize,
    slots: Arc<Semaphore>,
    reader: Mutex<RunningReader>,
}

/// The reader, which runs while there are clients.
struct RunningReader {
    is_running: bool,
    events: broadcast::Sender<ChangeEvent>,
    position: watch::Receiver<Option<u64>>,
}

impl Changes {
    /// The changes in this store. All streams of clients end when `stopping` turns true.
    pub fn new(settings: &ChangesConfig, store: Store, stopping: watch::Receiver<bool>) -> Changes {
        let reader = RunningReader {
            is_running: false,
            events: broadcast::channel(LAG).0,
            position: watch::channel(None).1,
        };
        Changes(Arc::new(Hub {
            store,
            stopping,
            replays: Arc::new(Semaphore::new(REPLAYS)),
            max_streams: settings.max_streams,
            slots: Arc::new(Semaphore::new(settings.max_streams)),
            reader: Mutex::new(reader),
        }))
    }

    /// The events of a client: the changes from now on, after the ones since `from` if it is given. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// There are too many clients.
    pub async fn subscribe(
        &self,
        from: Option<u64>,
    ) -> Result<mpsc::Receiver<ChangeEvent>, Problem> {
        let hub = &self.0;
        let slot = Arc::clone(&hub.slots).try_acquire_owned();
        let slot = slot.map_err(|_| Problem::TooManyStreams(hub.max_streams))?;
        let (live, mut position) = hub.listen();
        // An error means that the process stops.
        let _ = position.wait_for(Option::is_some).await;
        let (to, events) = mpsc::channel(QUEUE);
        let client = Client {
            store: hub.store.clone(),
            stopping: hub.stopping.clone(),
            replays: Arc::clone(&hub.replays),
            position,
            live,
            to,
            slot,
        };
        tokio::spawn(client.run(from));
        Ok(events)
    }
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, RunningReader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to the events of the reader, and starts it if it does not run.
    fn listen(
        self: &Arc<Hub>,
    ) -> (
        broadcast::Receiver<ChangeEvent>,
        watch::Receiver<Option<u64>>,
    ) {
        let mut reader = self.lock();
        let live = reader.events.subscribe();
        if !reader.is_running {
            let (sender, position) = watch::channel(None);
            reader.is_running = true;
            reader.position = position;
            tokio::spawn(read_while_needed(
                Arc::clone(self),
                reader.events.clone(),
                sender,
            ));
        }
        (live, reader.position.clone())
    }

    /// Whether the reader has to continue. Otherwise the next client starts another one.
    fn is_needed(&self) -> bool {
        let mut reader = self.lock();
        reader.is_running = reader.events.receiver_count() > 0 && !*self.stopping.borrow();
        reader.is_running
    }
}

/// Reads while there are clients.
async fn read_while_needed(
    hub: Arc<Hub>,
    events: broadcast::Sender<ChangeEvent>,
    position: watch::Sender<Option<u64>>,
) {
    let position = Arc::new(position);
    let mut reader = loop {
        if !hub.is_needed() {
            return;
        }
        let start = Reader::start(hub.store.clone(), events.clone(), Arc::clone(&position));
        match start.await {
            Ok(reader) => break reader,
            Err(error) => tracing::warn!(%error, "changes cannot be read; will retry"),
        }
        tokio::time::sleep(RETRY).await;
    };
    let mut rounds = tokio::time::interval(ROUND);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while hub.is_needed() {
        rounds.tick().await;
        reader.round().await;
    }
}
