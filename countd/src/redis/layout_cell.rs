//! The stored layout as a process knows it, replaced while the process runs.

use super::layout::StoredLayout;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The current layout, and when it was last known to be current.
pub(super) struct LayoutCell {
    layout: ArcSwap<StoredLayout>,
    since: Instant,
    /// When it was last known to be current, in milliseconds after `since`.
    confirmed_ms: AtomicU64,
}

impl LayoutCell {
    /// A layout that was read at a time.
    pub fn new(layout: StoredLayout, read_at: Instant) -> LayoutCell {
        LayoutCell {
            layout: ArcSwap::from_pointee(layout),
            since: read_at,
            confirmed_ms: AtomicU64::new(0),
        }
    }

    /// The layout.
    pub fn load(&self) -> Arc<StoredLayout> {
        self.layout.load_full()
    }

    /// Records that the layout was current at a time.
    pub fn confirm(&self, at: Instant) {
        let elapsed = at.saturating_duration_since(self.since);
        self.confirmed_ms
            .fetch_max(elapsed.as_millis() as u64, Ordering::AcqRel);
    }

    /// Replaces the layout by one that was read at a time.
    pub fn replace(&self, layout: StoredLayout, read_at: Instant) {
        self.layout.store(Arc::new(layout));
        self.confirm(read_at);
    }

    /// How long ago the layout was last known to be current.
    pub fn age(&self) -> Duration {
        let confirmed = Duration::from_millis(self.confirmed_ms.load(Ordering::Acquire));
        self.since.elapsed().saturating_sub(confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::{PartitionHash, StoragePhase};
    use crate::redis::script::CounterBackend;

    #[test]
    fn the_age_counts_from_the_last_confirmation() {
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
        cell.replace(layout(StoragePhase::Moving), now);
        assert!(cell.age() < minute);
        assert_eq!(cell.load().storage_of_users(), StoragePhase::Moving);
    }
}
