//! The prefilter: answers that a user does not have a metric on an entity without asking Redis.
//!
//! A cuckoo filter for each metric has all facts, and possibly more: it never forgets one. It is filled by a scan of all facts (`build`), and then
//! follows the log (`feed`), because each step that adds a fact appends its event. An answer is given only if the filter has every fact
//! that was added before the request arrived:
//!
//! 1. The process subscribes to changes of the logs (`tracking`); in a cluster on every primary (`primaries`). Redis sends the notices at the end of
//!    each iteration of its event loop.
//! 2. For all requests that wait, the process sends one `PING` on the same connection, or `CLUSTER INFO` to each primary. It is executed in a later
//!    iteration than every change that was acknowledged before it was sent, so the notices of these changes arrive before its reply.
//! 3. It reads the new entries of the logs that have changed, and adds their facts.
//! 4. A fact that is still not in the filter does not exist.
//!
//! The facts of a split entity are those of its base, wherever they are: what moves between its keys is in the filter already.
//!
//! Whenever any of this is not certain, nothing is known and requests ask Redis: a connection was lost, the nodes of the cluster have changed, a log is
//! not continued where it was read last, the data was flushed, or the facts are too many.

mod build;
mod cluster;
mod error;
mod feed;
mod filters;
mod primaries;
mod subscriber;
mod tracking;

use self::build::Build;
use self::error::FeedError;
use self::filters::Filters;
use crate::domain::config::{Config, PrefilterConfig};
use crate::facts::Fact;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use metrics::Counter;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How long a synchronization waits for further requests.
const LINGER: Duration = Duration::from_millis(2);
/// How long it waits after a change of a log, without requests.
const IDLE_LINGER: Duration = Duration::from_millis(20);
/// How long a request waits for a synchronization before it asks Redis.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// The delay before the filters are built again.
const RETRY: Duration = Duration::from_secs(2);

/// Answers without asking Redis. Cheap to clone.
#[derive(Clone)]
pub struct Prefilter(Option<Arc<Shared>>);

/// What requests and the task that follows the log share.
struct Shared {
    settings: PrefilterConfig,
    /// `None` while they are not known to be complete.
    filters: RwLock<Option<Filters>>,
    /// The number of synchronizations that have begun.
    begun: AtomicU64,
    /// The number of the last one that has ended.
    ended: watch::Sender<u64>,
    /// Wakes the task: requests wait.
    asked: Notify,
    /// Whether requests wait.
    has_requests: AtomicBool,
    answers: Counter,
}

impl Prefilter {
    /// A prefilter that answers nothing.
    pub fn disabled() -> Prefilter {
        Prefilter(None)
    }

    /// Fills the filters, and follows the log until `stopping` turns true, if `config` says so. It works on data with the module; otherwise nothing
    /// is answered. Must be called in a Tokio runtime.
    pub fn start(
        config: &Arc<Config>,
        store: Store,
        mut stopping: watch::Receiver<bool>,
    ) -> Prefilter {
        let settings = config.prefilter;
        if !Prefilter::is_possible(config, store.backend()) {
            if settings.enabled {
                tracing::warn!("prefilter: needs the module");
            }
            return Prefilter::disabled();
        }
        let shared = Arc::new(Shared {
            settings,
            filters: RwLock::new(None),
            begun: AtomicU64::new(0),
            ended: watch::Sender::new(0),
            asked: Notify::new(),
            has_requests: AtomicBool::new(false),
            answers: metrics::counter!("countd_prefilter_answers_total"),
        });
        let (task, config) = (Arc::clone(&shared), Arc::clone(config));
        tokio::spawn(async move {
            tokio::select! {
                () = task.run(&config, &store) => {}
                _ = stopping.wait_for(|stop| *stop) => {}
            }
            task.forget();
        });
        Prefilter(Some(shared))
    }

    /// Whether the data can have a prefilter, and the configuration enables it.
    pub fn is_possible(config: &Config, backend: CounterBackend) -> bool {
        config.prefilter.enabled && backend == CounterBackend::Module
    }

    /// The permissions that the prefilter requires.
    pub fn required_permissions(is_cluster: bool) -> Permissions {
        let of_cluster = if is_cluster {
            primaries::PERMISSIONS
        } else {
            &[]
        };
        Permissions::of_commands(tracking::PERMISSIONS)
            .and(Permissions::of_commands(subscriber::PERMISSIONS))
            .and(Permissions::of_commands(of_cluster))
            .and(Permissions::of_commands(feed::PERMISSIONS))
            .and(Permissions::of_commands(build::PERMISSIONS))
    }

    /// Whether there are filters at all.
    pub fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Returns for each fact whether it certainly did not exist when this was called. `None` if nothing is known of any. At most one
    /// synchronization for all calls of the same moment.
    pub async fn absent(&self, facts: &[Fact<'_>]) -> Option<Vec<bool>> {
        let shared = self.0.as_ref()?;
        let may_be_absent = shared.missing(facts)?;
        if !may_be_absent.contains(&true) {
            return None;
        }
        // A synchronization that begins after this moment.
        let needed = shared.begun.load(Ordering::SeqCst) + 1;
        let mut ended = shared.ended.subscribe();
        shared.has_requests.store(true, Ordering::SeqCst);
        shared.asked.notify_one();
        let wait = ended.wait_for(|number| *number >= needed);
        match tokio::time::timeout(MAX_WAIT, wait).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return None,
        }
        let absent = shared.missing(facts)?;
        let count = absent.iter().filter(|absent| **absent).count();
        shared.answers.increment(count as u64);
        Some(absent)
    }
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, Option<Filters>> {
        self.filters.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, filters: Option<Filters>) {
        let mut current = self.filters.write().unwrap_or_else(PoisonError::into_inner);
        *current = filters;
    }

    /// Which facts are not in the filters. `None` if the filters are not complete.
    fn missing(&self, facts: &[Fact<'_>]) -> Option<Vec<bool>> {
        let filters = self.read();
        let filters = filters.as_ref()?;
        let missing = facts.iter().map(|fact| filters.is_absent(fact));
        Some(missing.collect())
    }

    /// Nothing is known from now on. Requests that wait ask Redis.
    fn forget(&self) {
        self.replace(None);
        self.end(self.begin());
        metrics::gauge!("countd_prefilter_facts").set(0.0);
        metrics::gauge!("countd_prefilter_bytes").set(0.0);
    }

    /// Begins a synchronization, which includes the requests so far. Returns its number.
    fn begin(&self) -> u64 {
        self.has_requests.store(false, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn end(&self, number: u64) {
        self.ended.send_replace(number);
    }

    async fn run(&self, config: &Config, store: &Store) {
        let mut logged = String::new();
        loop {
            let error = match self.follow(config, store).await {
                Err(error) => error,
                Ok(never) => match never {},
            };
            let was_built = self.read().is_some();
            self.forget();
            // Slots may move for hours.
            let text = error.to_string();
            if was_built || text != logged {
                tracing::warn!(%error, "prefilter: statuses are read from Redis until the filters are built again");
            }
            logged = text;
            if let FeedError::TooMany(_) = error {
                return;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Builds the filters and follows the log. Ends only with an error.
    async fn follow(&self, config: &Config, store: &Store) -> Result<Infallible, FeedError> {
        let mut build = Build::new(config, store).await?;
        build.scan().await?;
        let (filters, mut feed) = build.finish().await?;
        metrics::counter!("countd_prefilter_builds_total").increment(1);
        tracing::info!(
            facts = filters.len(),
            bytes = filters.bytes(),
            "prefilter: built"
        );
        // An answer waits for a synchronization that begins later, which reads what was added since the feed was read last.
        filters.report();
        self.replace(Some(filters));
        loop {
            self.wait(feed.changed()).await;
            let number = self.begin();
            let events = feed.new_facts().await?;
            if !events.is_empty() {
                let mut current = self.filters.write().unwrap_or_else(PoisonError::into_inner);
                if let Some(filters) = current.as_mut() {
                    filters.add_events(&events);
                    filters.report();
                    filters.check_size(&self.settings)?;
                }
            }
            self.end(number);
        }
    }

    /// Waits for requests, or for changes of logs.
    async fn wait(&self, changed: &Notify) {
        if !self.has_requests.load(Ordering::SeqCst) {
            tokio::select! {
                () = self.asked.notified() => {}
                () = changed.notified() => {
                    tokio::select! {
                        () = self.asked.notified() => {}
                        () = tokio::time::sleep(IDLE_LINGER) => return,
                    }
                }
            }
        }
        tokio::time::sleep(LINGER).await;
    }
}
