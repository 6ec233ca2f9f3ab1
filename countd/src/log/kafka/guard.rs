//! Whether records may be appended to the topic. Records of another topic than that of the data, or below what was counted, are never
//! counted: an action must not be confirmed by one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For how long a partition is known to have ended at an offset after it ended before it. Meanwhile consumers compare the positions.
const HOLD: Duration = Duration::from_secs(10);

/// What the brokers say of the topic, as its producers need it. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct TopicGuard(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    refusal: Option<String>,
    ends: BTreeMap<u16, End>,
}

/// Where a partition ends.
struct End {
    offset: u64,
    /// Since when it ends before that.
    lower_since: Option<Instant>,
}

impl TopicGuard {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the topic must not be used, as of the last look.
    pub fn refusal(&self) -> Option<String> {
        self.known().refusal.clone()
    }

    /// Sets why the topic must not be used; `None` if it may be.
    pub fn set_refusal(&self, refusal: Option<String>) {
        self.known().refusal = refusal;
    }

    /// Records where a partition ends.
    pub fn record_end(&self, partition: u16, offset: u64, now: Instant) {
        let mut known = self.known();
        let end = known.ends.entry(partition).or_insert(End {
            offset,
            lower_since: None,
        });
        if offset >= end.offset {
            *end = End {
                offset,
                lower_since: None,
            };
        } else if now.duration_since(*end.lower_since.get_or_insert(now)) >= HOLD {
            end.offset = offset;
            end.lower_since = None;
        }
    }

    /// Records that a partition has the records before an offset.
    pub fn record_before(&self, partition: u16, offset: u64) {
        let mut known = self.known();
        let end = known.ends.entry(partition).or_insert(End {
            offset,
            lower_since: None,
        });
        end.offset = end.offset.max(offset);
    }

    /// The offset at which a partition was known to end. A record that is appended later has it, or a greater one.
    pub fn end(&self, partition: u16) -> u64 {
        self.known()
            .ends
            .get(&partition)
            .map_or(0, |end| end.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_was_seen_is_held_for_a_while() {
        let (guard, now) = (TopicGuard::default(), Instant::now());
        assert_eq!(guard.end(1), 0);
        guard.record_end(1, 7, now);
        guard.record_end(1, 9, now);
        guard.record_end(1, 4, now);
        guard.record_end(1, 4, now + HOLD / 2);
        assert_eq!((guard.end(1), guard.end(0)), (9, 0));
        guard.record_end(1, 5, now + HOLD);
        assert_eq!(guard.end(1), 5);
        // It is lower for another time.
        guard.record_end(1, 4, now + HOLD);
        assert_eq!(guard.end(1), 5);
        guard.record_end(1, 6, now + HOLD);
        guard.record_end(1, 5, now + 2 * HOLD);
        assert_eq!(guard.end(1), 6);
        // What was read or appended.
        guard.record_before(1, 5);
        assert_eq!(guard.end(1), 6);
        guard.record_before(1, 8);
        guard.record_before(2, 3);
        assert_eq!((guard.end(1), guard.end(2)), (8, 3));
    }
}
