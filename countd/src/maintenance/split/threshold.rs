//! Finds the entities that are to be split because of the rate of their writes.

use crate::domain::config::HotConfig;
use crate::domain::error::StoreError;
use crate::domain::ids::Entity;
use crate::redis::store::Store;
use crate::storage::hot::HotList;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// The delay before an entity that cannot be split, or that was merged, is split again.
const RETRY: Duration = Duration::from_secs(600);

/// What the process knows of earlier splits.
#[derive(Default)]
pub(super) struct Threshold {
    /// The entities that are not split now, and since when.
    refused: HashMap<Entity, Instant>,
    /// Those that were split at the last look. One that was merged since has a reason: an operator, or an erasure.
    split: BTreeSet<Entity>,
}

impl Threshold {
    /// The entity with the most requests that has at least `hot.split_rate` writes per second, and is neither split nor refused. Two round trips,
    /// or none without the setting.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn next(
        &mut self,
        store: &Store,
        settings: &HotConfig,
    ) -> Result<Option<Entity>, StoreError> {
        if settings.split_rate == 0 {
            return Ok(None);
        }
        let layout = store.layout();
        let split: BTreeSet<Entity> = layout.splits().keys().cloned().collect();
        for merged in std::mem::take(&mut self.split).difference(&split) {
            self.refuse(merged.clone());
        }
        self.split = split;
        self.refused.retain(|_, since| since.elapsed() < RETRY);
        let rate = f64::from(settings.split_rate);
        let hottest = HotList::hottest(store).await?.into_iter();
        let mut over = hottest
            .filter(|hot| hot.writes >= rate)
            .map(|hot| hot.entity);
        Ok(over
            .find(|entity| layout.split_of(entity).is_none() && !self.refused.contains_key(entity)))
    }

    /// An entity cannot be split now.
    pub fn refuse(&mut self, entity: Entity) {
        self.refused.insert(entity, Instant::now());
    }
}
