//! Hot entities: those with the most requests of the last minute.
//!
//! A process counts a sample of its requests by entity (`accesses`), and reports the most frequent entities once a second (`reports`).
//! An entity is hot if it has at least `hot.min_rate` requests per second over all processes. Its counters can be cached (`cache`),
//! and consumers commit its events earlier (`list`).

mod accesses;
mod cache;
mod list;
mod reports;
mod sampling;
mod window;

pub use accesses::Accesses;
pub use cache::{CachedCounters, Lookup, Ticket};
pub use list::HotList;
pub use reports::HotEntity;

use self::cache::CounterCache;
use self::reports::Reports;
use crate::domain::config::{HotConfig, USER};
use crate::domain::ids::Entity;
use crate::redis::permissions::Permissions;
use crate::redis::store::Store;
use redis::RedisError;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// A process reports an entity from this share of `hot.min_rate` on: requests for a hot entity may be spread over this many processes.
const MAX_SPREAD: f64 = 10.0;

/// The hot entities of a process. Cheap to clone.
#[derive(Clone)]
pub struct HotTracker(Arc<Tracker>);

struct Tracker {
    settings: HotConfig,
    accesses: Accesses,
    cache: CounterCache,
    /// `None` if the process does not find hot entities.
    reports: Option<Reports>,
}

impl HotTracker {
    /// A tracker that finds nothing and caches nothing.
    pub fn disabled(settings: HotConfig) -> HotTracker {
        HotTracker::new(settings, CounterCache::new(None), None)
    }

    fn new(settings: HotConfig, cache: CounterCache, reports: Option<Reports>) -> HotTracker {
        HotTracker(Arc::new(Tracker {
            accesses: Accesses::default(),
            settings,
            cache,
            reports,
        }))
    }

    /// Finds hot entities until `stopping` turns true, if `settings` says so. Must be called in a Tokio runtime.
    pub fn start(settings: HotConfig, store: Store, stopping: watch::Receiver<bool>) -> HotTracker {
        if !settings.enabled {
            return HotTracker::disabled(settings);
        }
        let cache = CounterCache::new(settings.cache());
        let tracker = HotTracker::new(settings, cache, Some(Reports::new(store)));
        tokio::spawn(tracker.clone().run(stopping));
        tracker
    }

    /// The permissions that reports require.
    pub fn required_permissions() -> Permissions {
        reports::required_permissions()
    }

    /// Counts one read of each of these entities.
    pub fn record_reads(&self, entities: &[Entity]) {
        if self.0.reports.is_some() {
            self.0.accesses.record_reads(entities);
        }
    }

    /// Counts a write to an entity.
    pub fn record_write(&self, entity: &Entity) {
        if self.0.reports.is_some() {
            self.0.accesses.record_write(entity);
        }
    }

    /// Whether counters of hot entities are cached.
    pub fn is_caching(&self) -> bool {
        self.0.cache.is_enabled()
    }

    /// The counters of an entity, at least its first `len` fields, if they are cached.
    pub fn cached(&self, entity: &Entity, len: usize) -> Option<CachedCounters> {
        self.0.cache.find(entity, len, Instant::now())
    }

    /// Looks up the counters of an entity: its first `len` fields.
    pub fn counters(&self, entity: &Entity, len: usize) -> Lookup {
        self.0.cache.lookup(entity, len, Instant::now())
    }

    /// Announces changes of counters of entities. When the guard is dropped, which must be after the changes, their counters are not cached
    /// any more, nor are those that are being read at that moment.
    pub fn changing<'a>(
        &'a self,
        entities: impl IntoIterator<Item = &'a Entity>,
    ) -> ChangeGuard<'a> {
        let entities = match self.0.cache.is_enabled() {
            true => entities.into_iter().collect(),
            false => Vec::new(),
        };
        let cache = &self.0.cache;
        ChangeGuard { cache, entities }
    }

    /// The hot entities of all processes, from the one with the most requests on. Two round trips.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn hottest(&self, store: &Store) -> Result<Vec<HotEntity>, RedisError> {
        let mut all = reports::read_all(store).await?;
        self.retain_hot(&mut all);
        Ok(all)
    }

    fn retain_hot(&self, entities: &mut Vec<HotEntity>) {
        entities.retain(|entity| entity.is_hot(&self.0.settings));
    }

    async fn run(self, mut stopping: watch::Receiver<bool>) {
        let Some(reports) = &self.0.reports else {
            return;
        };
        let mut has_reported = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(reports::INTERVAL) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
            let own = self.own();
            // Without requests there is nothing to report. An earlier report is replaced.
            let mut all = match own.is_empty() && !has_reported {
                true => Vec::new(),
                false => match reports.exchange(&own).await {
                    Ok(all) => {
                        has_reported = !own.is_empty();
                        all
                    }
                    Err(error) => {
                        tracing::debug!(%error, "hot entities cannot be reported now");
                        own
                    }
                },
            };
            self.retain_hot(&mut all);
            all.truncate(self.0.settings.max_entities);
            metrics::gauge!("countd_hot_entities").set(all.len() as f64);
            self.0.cache.keep(all.into_iter().map(|hot| hot.entity));
        }
    }

    /// The entities with the most requests of this process.
    fn own(&self) -> Vec<HotEntity> {
        let settings = &self.0.settings;
        let mut own = self.0.accesses.rates();
        let min_rate = f64::from(settings.min_rate) / MAX_SPREAD;
        // The report of a user would hold the ID after an erasure.
        own.retain(|hot| hot.rate() >= min_rate && hot.entity.etype.as_str() != USER);
        reports::sort(&mut own);
        own.truncate(settings.max_entities);
        own
    }
}

/// See [`HotTracker::changing`].
pub struct ChangeGuard<'a> {
    cache: &'a CounterCache,
    entities: Vec<&'a Entity>,
}

impl Drop for ChangeGuard<'_> {
    fn drop(&mut self) {
        for entity in &self.entities {
            self.cache.invalidate(entity);
        }
    }
}
