//! Which partitions are read next in a cluster. There each partition is read by its own call, even when it is idle. Idle partitions are
//! therefore polled less often.

use crate::domain::keys::Partition;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long an idle partition is still read with each poll.
const ACTIVE: Duration = Duration::from_secs(1);
/// The polling interval of idle partitions, and the delay before the next read when no partition has entries.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// The partitions whose last reads found nothing.
#[derive(Default)]
pub(super) struct ReadSchedule {
    idle: HashMap<Partition, Idle>,
}

#[derive(Clone, Copy)]
struct Idle {
    /// The first read that found nothing.
    since: Instant,
    /// The last one.
    last_read: Instant,
}

impl ReadSchedule {
    /// The partitions that are read now, with their offsets.
    pub(super) fn due(&self, all: &[(Partition, u64)], now: Instant) -> Vec<(Partition, u64)> {
        let is_due = |(partition, _): &(Partition, u64)| {
            let idle = self.idle.get(partition);
            idle.is_none_or(|idle| {
                idle.last_read.duration_since(idle.since) < ACTIVE
                    || now.duration_since(idle.last_read) >= INTERVAL
            })
        };
        all.iter().copied().filter(is_due).collect()
    }

    /// Records what a read at a time has found.
    pub(super) fn record(&mut self, partition: Partition, has_entries: bool, now: Instant) {
        if has_entries {
            self.idle.remove(&partition);
        } else {
            let first = Idle {
                since: now,
                last_read: now,
            };
            self.idle.entry(partition).or_insert(first).last_read = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_without_entries_are_read_less_often() {
        let all = [(1, 10), (2, 20)];
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut schedule = ReadSchedule::default();
        let mut reads = HashMap::new();
        for ms in (0..3_000).step_by(20) {
            for (partition, _) in schedule.due(&all, at(ms)) {
                *reads.entry(partition).or_insert(0) += 1;
                schedule.record(partition, partition == 1, at(ms));
            }
        }
        assert_eq!(reads[&1], 150);
        // Fifty times in the first second, and ten times in each of the others.
        assert!((68..=73).contains(&reads[&2]), "{reads:?}");
        schedule.record(2, true, at(3_000));
        assert_eq!(schedule.due(&all, at(3_001)), all);
    }

    #[test]
    fn a_partition_that_is_assigned_again_is_read_at_once() {
        let all = [(1, 10)];
        let start = Instant::now();
        let mut schedule = ReadSchedule::default();
        schedule.record(1, false, start);
        schedule.record(1, false, start + ACTIVE);
        assert!(schedule.due(&all, start + ACTIVE).is_empty());
        assert_eq!(schedule.due(&all, start + 5 * ACTIVE), all);
    }
}
