//! The partitions that a worker owns, with their positions.

use super::super::batch::Batch;
use super::super::position::{Position, load_next_offsets};
use crate::domain::config::LogConfig;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::Acknowledgement;
use crate::redis::store::Store;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often the positions are compared with the stored ones.
const VALIDATION_INTERVAL: Duration = Duration::from_secs(1);
/// The number of committed entries after which they are acknowledged to the log.
const ACKNOWLEDGE_AFTER: u64 = 1_000;

/// The progress of a partition.
struct Progress {
    position: Position,
    /// The offset up to which the log was told to trim.
    acknowledged: u64,
    /// The size of the entries committed since then. `None` before the first acknowledgement: entries that another consumer
    /// committed may be left in the log.
    unacknowledged_bytes: Option<u64>,
}

/// The partitions of a worker, with their positions.
pub struct OwnedPartitions {
    progress: BTreeMap<Partition, Progress>,
    validated_at: Instant,
}

impl OwnedPartitions {
    /// No partitions.
    pub fn new() -> OwnedPartitions {
        OwnedPartitions {
            progress: BTreeMap::new(),
            validated_at: Instant::now(),
        }
    }

    /// The partitions, in order.
    pub fn iter(&self) -> impl Iterator<Item = Partition> {
        self.progress.keys().copied()
    }

    /// The number of partitions.
    pub fn len(&self) -> usize {
        self.progress.len()
    }

    /// Whether the worker owns a partition.
    pub fn contains(&self, partition: Partition) -> bool {
        self.progress.contains_key(&partition)
    }

    /// The position of a partition that the worker owns.
    pub fn position(&self, partition: Partition) -> Option<&Position> {
        let progress = self.progress.get(&partition)?;
        Some(&progress.position)
    }

    /// Takes a partition over at its stored position.
    pub fn insert(&mut self, partition: Partition, position: Position) {
        let progress = Progress {
            acknowledged: position.next,
            position,
            unacknowledged_bytes: None,
        };
        self.progress.insert(partition, progress);
    }

    /// Gives up the partitions for which `is_kept` is false.
    pub fn retain(&mut self, is_kept: impl Fn(Partition) -> bool) {
        self.progress.retain(|partition, _| is_kept(*partition));
    }

    /// Gives up all partitions.
    pub fn clear(&mut self) {
        self.progress.clear();
    }

    /// Gives up the partitions whose stored position differs: an operator has set it, or the data was deleted. Compares at most once
    /// in each validation interval.
    pub async fn validate(&mut self, store: &Store) -> Result<(), StoreError> {
        if self.validated_at.elapsed() < VALIDATION_INTERVAL {
            return Ok(());
        }
        self.validated_at = Instant::now();
        let owned: Vec<Partition> = self.iter().collect();
        let stored = load_next_offsets(store, &owned).await?;
        for (partition, stored) in owned.into_iter().zip(stored) {
            let next = self.position(partition).map(|position| position.next);
            if next != stored {
                self.progress.remove(&partition);
            }
        }
        Ok(())
    }

    /// Advances the positions past a committed batch. Returns the acknowledgements that are due.
    pub fn advance(&mut self, batch: &Batch, settings: &LogConfig) -> Vec<Acknowledgement> {
        let mut due = Vec::new();
        for (partition, update) in &batch.positions {
            let Some(progress) = self.progress.get_mut(partition) else {
                continue;
            };
            progress.position.next = update.next;
            progress.position.fences.extend(&update.fences);
            let bytes = progress.unacknowledged_bytes.map(|b| b + update.bytes);
            let entries = update.next.saturating_sub(progress.acknowledged).max(1);
            let is_due = |bytes| entries >= ACKNOWLEDGE_AFTER || bytes >= settings.retain_bytes;
            // If all retained entries are of this average size, the log exceeds its limit in bytes.
            let may_exceed_bytes = |bytes: u64| {
                (bytes / entries).saturating_mul(settings.retain) >= settings.retain_bytes
            };
            progress.unacknowledged_bytes = bytes;
            if bytes.is_none_or(is_due) {
                progress.acknowledged = update.next;
                progress.unacknowledged_bytes = Some(0);
                due.push(Acknowledgement {
                    partition: *partition,
                    next: update.next,
                    may_be_long: bytes.is_none_or(may_exceed_bytes),
                });
            }
        }
        due
    }
}
