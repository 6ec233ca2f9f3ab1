//! The entries that an archiver or a publisher has passed on and that are still in the logs: when the logs are trimmed.

use crate::domain::config::Config;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::{Acknowledgement, EventLog, Streams, archive};
use crate::redis::store::Store;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The number of such entries of a partition after which its log is trimmed at once.
const TRIM_AFTER: u64 = 1_000;
/// The size of such entries in bytes, unless `log.retain_bytes` is larger.
const TRIM_BYTES: u64 = 64 * 1024;
/// How often logs with at least `log.retain_bytes` of such entries are trimmed.
const TRIM_INTERVAL: Duration = Duration::from_secs(2);

/// The entries of a partition.
#[derive(Clone, Copy, Default)]
struct Untrimmed {
    /// The offset after them.
    next: u64,
    entries: u64,
    bytes: u64,
    /// Whether this process has trimmed the log before.
    is_known: bool,
}

/// The entries of all partitions of a process.
pub(super) struct UntrimmedLogs {
    retain: u64,
    retain_bytes: u64,
    logs: BTreeMap<Partition, Untrimmed>,
    trimmed_at: Instant,
}

impl UntrimmedLogs {
    pub fn new(config: &Config) -> UntrimmedLogs {
        UntrimmedLogs {
            retain: config.log.retain,
            retain_bytes: config.log.retain_bytes,
            logs: BTreeMap::new(),
            trimmed_at: Instant::now(),
        }
    }

    /// Adds entries of a partition that were passed on. `next` is the offset after them.
    pub fn add(&mut self, partition: Partition, next: u64, (entries, bytes): (u64, u64)) {
        let untrimmed = self.logs.entry(partition).or_default();
        untrimmed.next = next;
        untrimmed.entries += entries;
        untrimmed.bytes += bytes;
    }

    /// The offset after the entries of a partition.
    pub fn next(&self, partition: Partition) -> Option<u64> {
        self.logs.get(&partition).map(|untrimmed| untrimmed.next)
    }

    /// Forgets a partition: Redis has lost writes, or another process has it.
    pub fn remove(&mut self, partition: Partition) {
        self.logs.remove(&partition);
    }

    /// Forgets all partitions but these.
    pub fn retain(&mut self, partitions: &[Partition]) {
        self.logs
            .retain(|partition, _| partitions.contains(partition));
    }

    /// Trims the logs that are due, up to the holds of rebuilds. What was passed on must be recorded, since holds begin there.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn trim(&mut self, store: &Store, log: &Streams) -> Result<(), StoreError> {
        let mut trimmed = self.take_due();
        if trimmed.is_empty() {
            return Ok(());
        }
        let partitions: Vec<Partition> = trimmed.iter().map(|log| log.partition).collect();
        let holds = archive::holds(store, &partitions).await?;
        for (log, hold) in trimmed.iter_mut().zip(holds) {
            log.next = hold.map_or(log.next, |hold| log.next.min(hold));
        }
        log.acknowledge(&trimmed).await
    }

    /// The logs that are to be trimmed now. Their entries count as trimmed.
    fn take_due(&mut self) -> Vec<Acknowledgement> {
        let is_due = self.trimmed_at.elapsed() >= TRIM_INTERVAL;
        if is_due {
            self.trimmed_at = Instant::now();
        }
        let at_once = self.retain_bytes.max(TRIM_BYTES);
        let mut trimmed = Vec::new();
        for (partition, untrimmed) in &mut self.logs {
            let Untrimmed { entries, bytes, .. } = *untrimmed;
            let is_overdue = is_due && entries > 0 && bytes >= self.retain_bytes;
            if untrimmed.is_known && entries < TRIM_AFTER && bytes < at_once && !is_overdue {
                continue;
            }
            let average = bytes / entries.max(1);
            let may_be_long = average.saturating_mul(self.retain) >= self.retain_bytes;
            trimmed.push(Acknowledgement {
                partition: *partition,
                next: untrimmed.next,
                may_be_long: may_be_long || is_overdue || !untrimmed.is_known,
            });
            *untrimmed = Untrimmed {
                next: untrimmed.next,
                is_known: true,
                ..Untrimmed::default()
            };
        }
        trimmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets up to which logs are trimmed now, and whether they may be long.
    fn due(logs: &mut UntrimmedLogs) -> Vec<(Partition, u64, bool)> {
        let due = logs.take_due().into_iter();
        due.map(|log| (log.partition, log.next, log.may_be_long))
            .collect()
    }

    #[test]
    fn logs_are_trimmed_at_first_and_then_after_many_entries() {
        let mut config = Config::parse("").expect("the defaults");
        (config.log.retain, config.log.retain_bytes) = (10, 1_000_000);
        let mut logs = UntrimmedLogs::new(&config);
        assert_eq!(due(&mut logs), []);
        // How long the log is that another process has left is not known.
        logs.add(3, 5, (4, 400));
        assert_eq!(due(&mut logs), [(3, 5, true)]);
        logs.add(3, 9, (4, 400));
        assert_eq!(due(&mut logs), []);
        logs.add(3, 1_005, (996, 99_600));
        assert_eq!(logs.next(3), Some(1_005));
        assert_eq!(due(&mut logs), [(3, 1_005, false)]);
        assert_eq!(due(&mut logs), []);
        // Ten entries of this size are more than a log retains.
        logs.add(3, 1_015, (10, 1_100_000));
        assert_eq!(due(&mut logs), [(3, 1_015, true)]);
        // Of another process now.
        logs.retain(&[4]);
        logs.add(4, 2, (1, 1));
        assert_eq!(due(&mut logs), [(4, 2, true)]);
        logs.remove(4);
        assert_eq!(logs.next(4), None);
    }
}
