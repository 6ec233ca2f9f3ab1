//! How old the data of a replica is.

use super::info::Replication;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The offsets of a primary at times.
#[derive(Debug, Default)]
pub(super) struct PrimaryHistory {
    /// The ID of the history to which the offsets belong.
    history: String,
    /// Times before which the primary had executed nothing beyond the offset. Both ascend.
    samples: VecDeque<(Instant, u64)>,
}

impl PrimaryHistory {
    /// Adds what the primary replied to a request that was sent at a time. Samples older than `max_age` are dropped.
    pub fn add(&mut self, sent: Instant, reply: &Replication, max_age: Duration) {
        let last = self.samples.back().map_or(0, |(_, offset)| *offset);
        if self.history != reply.history || reply.offset < last {
            reply.history.clone_into(&mut self.history);
            self.samples.clear();
        }
        let is_old = |(at, _): &(Instant, u64)| sent.saturating_duration_since(*at) > max_age;
        while self.samples.front().is_some_and(is_old) {
            self.samples.pop_front();
        }
        self.samples.push_back((sent, reply.offset));
    }

    /// The latest time whose data the replica has: it has all that the primary had executed by then. `None` if it is too old to be known,
    /// or if the replica follows another history or is not connected.
    pub fn fresh_at(&self, replica: &Replication) -> Option<Instant> {
        if replica.is_primary || !replica.is_linked || replica.history != self.history {
            return None;
        }
        let reached = |(_, offset): &&(Instant, u64)| *offset <= replica.offset;
        let (at, _) = self.samples.iter().rev().find(reached)?;
        Some(*at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_AGE: Duration = Duration::from_secs(10);

    fn at(offset: u64, history: &str, is_primary: bool) -> Replication {
        Replication {
            history: history.to_owned(),
            is_primary,
            offset,
            is_linked: !is_primary,
            ..Replication::default()
        }
    }

    #[test]
    fn replica_is_as_fresh_as_the_offset_that_it_has_reached() {
        let (mut primary, start) = (PrimaryHistory::default(), Instant::now());
        let time = |seconds| start + Duration::from_secs(seconds);
        for (seconds, offset) in [(0, 100), (1, 100), (2, 150), (3, 200)] {
            primary.add(time(seconds), &at(offset, "a", true), MAX_AGE);
        }
        let fresh = |offset| primary.fresh_at(&at(offset, "a", false));
        assert_eq!(fresh(99), None);
        assert_eq!(fresh(100), Some(time(1)), "nothing was written until then");
        assert_eq!(fresh(199), Some(time(2)));
        assert_eq!(fresh(200), Some(time(3)));
        // It may be ahead of what the primary told.
        assert_eq!(fresh(500), Some(time(3)));
    }

    #[test]
    fn replicas_of_another_history_are_unknown() {
        let (mut primary, start) = (PrimaryHistory::default(), Instant::now());
        primary.add(start, &at(100, "a", true), MAX_AGE);
        assert_eq!(primary.fresh_at(&at(100, "b", false)), None);
        assert_eq!(primary.fresh_at(&at(100, "a", true)), None, "a primary");
        let cut_off = Replication {
            is_linked: false,
            ..at(100, "a", false)
        };
        assert_eq!(primary.fresh_at(&cut_off), None);
        // Another server has taken over, with fewer writes.
        primary.add(start, &at(90, "b", true), MAX_AGE);
        assert_eq!(primary.fresh_at(&at(100, "a", false)), None);
        assert_eq!(primary.fresh_at(&at(90, "b", false)), Some(start));
    }

    #[test]
    fn old_samples_are_dropped() {
        let (mut primary, start) = (PrimaryHistory::default(), Instant::now());
        primary.add(start, &at(1, "a", true), MAX_AGE);
        primary.add(start + MAX_AGE * 2, &at(2, "a", true), MAX_AGE);
        assert_eq!(primary.fresh_at(&at(1, "a", false)), None);
        assert_eq!(primary.samples.len(), 1);
    }
}
