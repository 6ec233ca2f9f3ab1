//! The stored layout as a process knows it, replaced while the process runs.

use super::layout::StoredLayout;
use super::script::CounterBackend;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{RwLock, RwLockReadGuard};

/// The current layout, and when it was last known to be current.
pub struct LayoutCell {
    layout: ArcSwap<StoredLayout>,
    since: Instant,
    /// When it was last known to be current, in milliseconds after `since`.
    confirmed_ms: AtomicU64,
    /// When this process last tried to find out, without a long pause before, in milliseconds after `since`.
    tried_ms: AtomicU64,
    /// Held while something must not outlast the layout.
    holds: RwLock<()>,
}

impl LayoutCell {
    /// A layout that was read at a time.
    pub fn new(layout: StoredLayout, read_at: Instant) -> LayoutCell {
        LayoutCell {
            layout: ArcSwap::from_pointee(layout),
            since: read_at,
            confirmed_ms: AtomicU64::new(0),
            tried_ms: AtomicU64::new(0),
            holds: RwLock::new(()),
        }
    }

    /// The layout.
    pub fn load(&self) -> Arc<StoredLayout> {
        self.layout.load_full()
    }

    /// How the data stores counters and id sets. Every request asks for it several times: unlike [`load`](Self::load), it shares no count of
    /// references between threads.
    pub fn backend(&self) -> CounterBackend {
        self.layout.load().backend
    }

    /// Records that the layout was current at a time.
    pub fn confirm(&self, at: Instant) {
        self.advance(&self.confirmed_ms, at);
    }

    /// Records that this process has found out now whether the layout is current.
    pub fn record_success(&self) {
        self.advance(&self.tried_ms, Instant::now());
    }

    /// Records that it could not. After a pause that is longer than `longest` that changes nothing: the process may have been suspended, and
    /// only a success says what the layout is now.
    pub fn record_failure(&self, longest: Duration) {
        if self.since_try() < longest {
            self.advance(&self.tried_ms, Instant::now());
        }
    }

    fn advance(&self, time: &AtomicU64, to: Instant) {
        let elapsed = to.saturating_duration_since(self.since);
        time.fetch_max(elapsed.as_millis() as u64, Ordering::AcqRel);
    }

    /// Keeps the layout from being replaced until the guard is dropped. A task that has a guard must not ask for another one: a replacement
    /// that waits would block both.
    pub async fn hold(&self) -> RwLockReadGuard<'_, ()> {
        self.holds.read().await
    }

    /// Replaces the layout by one that was read at a time, as soon as nothing holds it.
    pub async fn replace(&self, layout: StoredLayout, read_at: Instant) {
        let _unheld = self.holds.write().await;
        self.layout.store(Arc::new(layout));
        self.confirm(read_at);
    }

    /// How long ago the layout was last known to be current.
    pub fn age(&self) -> Duration {
        self.since_time(&self.confirmed_ms)
    }

    /// How long ago this process last tried to find out whether the layout is current, as far as no long pause preceded a failure.
    pub fn since_try(&self) -> Duration {
        self.since_time(&self.tried_ms)
    }

    fn since_time(&self, time: &AtomicU64) -> Duration {
        let time = Duration::from_millis(time.load(Ordering::Acquire));
        self.since.elapsed().saturating_sub(time)
    }
}

/// The backend of the data, which an adoption changes.
#[derive(Clone)]
pub enum CurrentBackend {
    /// It is always this.
    Fixed(CounterBackend),
    /// That of the layout.
    Of(Arc<LayoutCell>),
}

impl CurrentBackend {
    /// The backend now.
    pub fn get(&self) -> CounterBackend {
        match self {
            CurrentBackend::Fixed(backend) => *backend,
            CurrentBackend::Of(cell) => cell.backend(),
        }
    }
}

impl From<CounterBackend> for CurrentBackend {
    fn from(backend: CounterBackend) -> CurrentBackend {
        CurrentBackend::Fixed(backend)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::{PartitionHash, StoragePhase};

    #[tokio::test]
    async fn the_age_counts_from_the_last_confirmation() {
        let layout =
            |phase| StoredLayout::uniform(PartitionHash::Murmur2, CounterBackend::Module, phase);
        let now = Instant::now();
        let minute = Duration::from_secs(60);
        let Some(read_at) = now.checked_sub(2 * minute) else {
            return;
        };
        let cell = LayoutCell::new(layout(StoragePhase::Object), read_at);
        assert!(cell.age() >= 2 * minute);
        cell.confirm(read_at + minute);
        assert!(cell.age() >= minute && cell.age() < 2 * minute);
        // A confirmation that arrives late does not make the layout older.
        cell.confirm(read_at);
        assert!(cell.age() < 2 * minute);
        cell.replace(layout(StoragePhase::Moving), now).await;
        assert!(cell.age() < minute);
        assert_eq!(cell.load().storage_of_users(), StoragePhase::Moving);
    }

    #[tokio::test]
    async fn a_held_layout_is_not_replaced() {
        let layout =
            |phase| StoredLayout::uniform(PartitionHash::Murmur2, CounterBackend::Module, phase);
        let cell = Arc::new(LayoutCell::new(
            layout(StoragePhase::Object),
            Instant::now(),
        ));
        let held = cell.hold().await;
        let replacing = tokio::spawn({
            let cell = Arc::clone(&cell);
            async move {
                cell.replace(layout(StoragePhase::Moving), Instant::now())
                    .await;
            }
        });
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(cell.load().storage_of_users(), StoragePhase::Object);
        drop(held);
        replacing.await.expect("it is replaced");
        assert_eq!(cell.load().storage_of_users(), StoragePhase::Moving);
    }

    #[test]
    fn after_a_long_pause_only_a_success_ends_it() {
        let (hash, phase) = (PartitionHash::Murmur2, StoragePhase::Table);
        let layout = StoredLayout::uniform(hash, CounterBackend::Module, phase);
        let (pause, longest) = (Duration::from_secs(60), Duration::from_secs(30));
        let before = Instant::now().checked_sub(pause);
        let before = before.expect("a machine that has run for a minute");
        let cell = LayoutCell::new(layout, before);
        cell.record_failure(longest);
        assert!(cell.since_try() >= pause);
        cell.record_success();
        assert!(cell.since_try() < longest);
        cell.record_failure(longest);
        assert!(cell.since_try() < longest);
        assert!(cell.age() >= pause);
    }
}
