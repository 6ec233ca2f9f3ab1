//! The partitions that a worker owns, with their positions.

use super::super::batch::Batch;
use super::super::position::{Position, load_next_offsets, load_topic_offsets};
use crate::domain::config::LogConfig;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::{Acknowledgement, CountedLog};
use crate::redis::store::Store;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often the positions are compared with the stored ones.
const VALIDATION_INTERVAL: Duration = Duration::from_secs(1);
/// The number of committed entries of a partition after which they are acknowledged to the log at once.
const ACKNOWLEDGE_AFTER: u64 = 1_000;
/// The size of such entries, in bytes, unless `log.retain_bytes` is larger. Under load, trimming a log costs as much as writing the
/// counters of its partition, so a trim removes many entries.
const ACKNOWLEDGE_BYTES: u64 = 64 * 1024;
/// How often smaller sizes from `log.retain_bytes` on are acknowledged.
const ACKNOWLEDGE_INTERVAL: Duration = Duration::from_secs(2);

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
    acknowledged_at: Instant,
}

impl Progress {
    /// Marks the committed entries as acknowledged.
    fn acknowledge(&mut self, partition: Partition, settings: &LogConfig) -> Acknowledgement {
        let next = self.position.next;
        let entries = next.saturating_sub(self.acknowledged).max(1);
        // If all retained entries are of this average size, the log exceeds its limit in bytes.
        let may_exceed_bytes =
            |bytes: u64| (bytes / entries).saturating_mul(settings.retain) >= settings.retain_bytes;
        let may_be_long = self.unacknowledged_bytes.is_none_or(may_exceed_bytes);
        self.acknowledged = next;
        self.unacknowledged_bytes = Some(0);
        Acknowledgement {
            partition,
            next,
            may_be_long,
        }
    }
}

impl OwnedPartitions {
    /// No partitions.
    pub fn new() -> OwnedPartitions {
        OwnedPartitions {
            progress: BTreeMap::new(),
            validated_at: Instant::now(),
            acknowledged_at: Instant::now(),
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
    /// in each validation interval. `with_topic` also compares the positions in the topic.
    pub async fn validate(&mut self, store: &Store, with_topic: bool) -> Result<(), StoreError> {
        if self.validated_at.elapsed() < VALIDATION_INTERVAL {
            return Ok(());
        }
        self.validated_at = Instant::now();
        let owned: Vec<Partition> = self.iter().collect();
        let stored = load_next_offsets(store, &owned).await?;
        let mut differ = Vec::new();
        for (partition, stored) in owned.iter().zip(stored) {
            let next = self.position(*partition).map(|position| position.next);
            differ.extend((next != stored).then_some(*partition));
        }
        if with_topic {
            let stored = load_topic_offsets(store, &owned).await?;
            for (partition, stored) in owned.iter().zip(stored) {
                let next = self.position(*partition).map(|position| position.topic);
                differ.extend((next != stored).then_some(*partition));
            }
        }
        for partition in differ {
            self.progress.remove(&partition);
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
            if let Some(topic) = update.topic {
                progress.position.topic = topic.next;
            }
            progress.position.fences.extend(&update.fences);
            let entries = update.next.saturating_sub(progress.acknowledged);
            let bytes = progress.unacknowledged_bytes.map(|b| b + update.bytes);
            progress.unacknowledged_bytes = bytes;
            let max_bytes = settings.retain_bytes.max(ACKNOWLEDGE_BYTES);
            if bytes.is_none_or(|bytes| entries >= ACKNOWLEDGE_AFTER || bytes >= max_bytes) {
                due.push(progress.acknowledge(*partition, settings));
            }
        }
        due
    }

    /// Returns the logs with at least `log.retain_bytes` of counted entries, at most once in each interval.
    pub fn overdue(&mut self, settings: &LogConfig) -> Vec<CountedLog> {
        match self.acknowledged_at.elapsed() < ACKNOWLEDGE_INTERVAL {
            true => Vec::new(),
            false => self.all_overdue(settings),
        }
    }

    /// Returns the logs with at least `log.retain_bytes` of counted entries.
    pub fn all_overdue(&mut self, settings: &LogConfig) -> Vec<CountedLog> {
        self.acknowledged_at = Instant::now();
        let mut overdue = Vec::new();
        for (partition, progress) in &mut self.progress {
            let bytes = progress.unacknowledged_bytes.unwrap_or(0);
            if bytes == 0 || bytes < settings.retain_bytes {
                continue;
            }
            let entries = progress.position.next - progress.acknowledged;
            let average = bytes / entries.max(1);
            overdue.push(CountedLog {
                partition: *partition,
                // Fewer if they are long.
                retain: settings.retain.min(settings.retain_bytes / average.max(1)),
            });
            progress.acknowledged = progress.position.next;
            progress.unacknowledged_bytes = Some(0);
        }
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::batch::PositionUpdate;
    use super::*;
    use crate::domain::config::{ArchiveConfig, LogKind};

    const SETTINGS: LogConfig = LogConfig {
        kind: LogKind::Streams,
        partitions: 4,
        retain: 16,
        retain_bytes: 8_192,
        archive: ArchiveConfig {
            dir: String::new(),
            segment_bytes: 1 << 20,
            flush_ms: 1_000,
            level: 3,
        },
    };

    /// Commits entries of partition 3 with a size of 100 bytes, and returns how far they are acknowledged.
    fn commit(owned: &mut OwnedPartitions, entries: u64) -> Option<u64> {
        let from = owned.position(3).expect("owned").next;
        let update = PositionUpdate {
            from,
            next: from + entries,
            topic: None,
            history: None,
            fences: BTreeMap::new(),
            bytes: entries * 100,
        };
        let mut batch = Batch::default();
        batch.positions.insert(3, update);
        next_of(owned.advance(&batch, &SETTINGS))
    }

    fn next_of(due: Vec<Acknowledgement>) -> Option<u64> {
        assert!(due.len() <= 1, "{due:?}");
        due.first().map(|acknowledgement| acknowledgement.next)
    }

    fn owned() -> OwnedPartitions {
        let mut owned = OwnedPartitions::new();
        owned.insert(3, Position::start());
        // The first one also trims what another consumer may have left.
        assert_eq!(commit(&mut owned, 1), Some(2));
        owned
    }

    #[test]
    fn under_load_many_entries_are_acknowledged_at_once() {
        let mut owned = owned();
        assert_eq!(commit(&mut owned, 600), None);
        assert_eq!(commit(&mut owned, 56), Some(658));
        assert_eq!(commit(&mut owned, 655), None);
    }

    #[test]
    fn a_log_over_its_limit_is_overdue_after_the_interval() {
        let mut owned = owned();
        let log = |retain| CountedLog {
            partition: 3,
            retain,
        };
        assert_eq!(commit(&mut owned, 81), None);
        assert_eq!(owned.all_overdue(&SETTINGS), []);
        assert_eq!(commit(&mut owned, 1), None);
        owned.acknowledged_at = Instant::now();
        assert_eq!(owned.overdue(&SETTINGS), []);
        assert_eq!(owned.all_overdue(&SETTINGS), [log(16)]);
        assert_eq!(owned.all_overdue(&SETTINGS), []);
        // Entries of 100 bytes, of which a shorter log retains fewer.
        assert_eq!(commit(&mut owned, 20), None);
        let retain_bytes = 1_000;
        let short = LogConfig {
            retain_bytes,
            ..SETTINGS
        };
        assert_eq!(owned.all_overdue(&short), [log(10)]);
    }
}
