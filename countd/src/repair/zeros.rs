//! What was verified, and need not be verified again for a while: counters of 0 are right because there are no facts, or the object is long
//! enough.

use hashbrown::HashSet;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of items that are remembered.
const CAPACITY: usize = 65_536;

/// Items that were right when they were verified, in two generations.
pub(super) struct Verified<T> {
    /// How long an item is remembered at most. The minimum is half of it, unless there are too many.
    lifetime: Duration,
    generations: Mutex<Generations<T>>,
}

struct Generations<T> {
    since: Instant,
    current: HashSet<T>,
    previous: HashSet<T>,
}

impl<T: Clone + Eq + Hash> Verified<T> {
    /// Remembers items for this time.
    pub fn new(lifetime: Duration) -> Verified<T> {
        Verified {
            lifetime,
            generations: Mutex::new(Generations {
                since: Instant::now(),
                current: HashSet::new(),
                previous: HashSet::new(),
            }),
        }
    }

    fn with<R>(&self, now: Instant, use_them: impl FnOnce(&mut Generations<T>) -> R) -> R {
        let mut all = self
            .generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let age = now.saturating_duration_since(all.since);
        if age >= self.lifetime / 2 || all.current.len() >= CAPACITY / 2 {
            let current = std::mem::take(&mut all.current);
            all.previous = match age >= self.lifetime {
                true => HashSet::new(),
                false => current,
            };
            all.since = now;
        }
        use_them(&mut all)
    }

    /// Whether an item was verified.
    pub fn contains(&self, item: &T, now: Instant) -> bool {
        self.with(now, |all| {
            all.current.contains(item) || all.previous.contains(item)
        })
    }

    /// Remembers an item.
    pub fn add(&self, item: &T, now: Instant) {
        self.with(now, |all| all.current.insert(item.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{Entity, Id, Name};

    fn note(eid: usize) -> Entity {
        Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new(eid.to_string()).expect("an ID"),
        }
    }

    #[test]
    fn entities_are_remembered_for_the_lifetime_at_most() {
        let zeros = Verified::new(Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        zeros.add(&note(1), at(1));
        assert!(zeros.contains(&note(1), at(4)) && !zeros.contains(&note(2), at(4)));
        assert!(zeros.contains(&note(1), at(6)));
        assert!(!zeros.contains(&note(1), at(11)));
        zeros.add(&note(2), at(12));
        assert!(!zeros.contains(&note(2), at(30)));
    }

    #[test]
    fn the_number_of_entities_is_bounded() {
        let zeros = Verified::new(Duration::from_secs(1_000));
        let now = Instant::now();
        for eid in 0..100_000 {
            zeros.add(&note(eid), now);
        }
        let all = zeros.generations.lock().expect("a lock");
        assert!(all.current.len() + all.previous.len() <= CAPACITY);
    }
}
