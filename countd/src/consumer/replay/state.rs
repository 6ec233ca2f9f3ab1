//! The state of a replay: the data, and how far it is.

use crate::consumer::position::{self, Position};
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::facts::FactStores;
use crate::log::LogEntry;
use crate::redis::store::Store;
use crate::storage::authors::Authors;
use crate::storage::catalog::Catalog;
use crate::storage::locator::Locator;
use crate::storage::moves::TypesInRows;
use std::collections::BTreeMap;

/// Replays archived entries.
pub struct Replay {
    pub(super) store: Store,
    pub(super) catalog: Catalog,
    pub(super) locator: Locator,
    pub(super) facts: FactStores,
    pub(super) authors: Authors,
    /// The last offset of each log when the data was saved.
    pub(super) saved: BTreeMap<Partition, u64>,
    pub(super) positions: BTreeMap<Partition, Position>,
    pub(super) in_rows: BTreeMap<Partition, TypesInRows>,
    /// The number of entries replayed so far.
    pub replayed: u64,
}

impl Replay {
    /// A replay into the data of a store, whose logs had these last offsets when it was saved.
    ///
    /// # Errors
    /// The positions cannot be read.
    pub async fn new(
        catalog: Catalog,
        store: Store,
        saved: BTreeMap<Partition, u64>,
    ) -> Result<Replay, StoreError> {
        let partitions: Vec<Partition> = (0..store.keys().partitions()).collect();
        let loaded = position::load(&store, &partitions).await?;
        let mut positions = BTreeMap::new();
        for (partition, position) in partitions.into_iter().zip(loaded) {
            positions.insert(partition, position.map_err(StoreError::Unexpected)?);
        }
        let shards = catalog.config.facts.shards;
        Ok(Replay {
            locator: Locator::of(&store),
            facts: FactStores::new(store.keys(), store.current_backend(), shards),
            authors: Authors::new(store.clone()),
            store,
            catalog,
            saved,
            positions,
            in_rows: BTreeMap::new(),
            replayed: 0,
        })
    }

    /// The offset of the next entry of a partition.
    pub fn next(&self, partition: Partition) -> u64 {
        self.positions
            .get(&partition)
            .map_or(1, |position| position.next)
    }

    /// The last offset of a log when the data was saved.
    pub(super) fn saved(&self, partition: Partition) -> u64 {
        self.saved.get(&partition).copied().unwrap_or(0)
    }

    /// Whether an entry was appended after the data was saved.
    pub(super) fn is_later(&self, partition: Partition, entry: &LogEntry) -> bool {
        entry.offset > self.saved(partition)
    }
}
