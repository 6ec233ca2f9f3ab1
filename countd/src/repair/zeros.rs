//! Entities whose counters were verified, and need not be verified again for a while: those of 0 are right because there are no facts, or
//! the object is long enough.

use crate::domain::ids::Entity;
use hashbrown::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of entities that are remembered.
const CAPACITY: usize = 65_536;

/// Entities that were right when they were verified, in two generations.
pub(super) struct VerifiedEntities {
    /// How long an entity is remembered at most. The minimum is half of it, unless there are too many entities.
    lifetime: Duration,
    generations: Mutex<Generations>,
}

struct Generations {
    since: Instant,
    current: HashSet<Entity>,
    previous: HashSet<Entity>,
}

impl VerifiedEntities {
    /// Remembers entities for this time.
    pub fn new(lifetime: Duration) -> VerifiedEntities {
        VerifiedEntities {
            lifetime,
            generations: Mutex::new(Generations {
                since: Instant::now(),
                current: HashSet::new(),
                previous: HashSet::new(),
            }),
        }
    }

    fn with<T>(&self, now: Instant, use_them: impl FnOnce(&mut Generations) -> T) -> T {
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

    /// Whether an entity was verified.
    pub fn contains(&self, entity: &Entity, now: Instant) -> bool {
        self.with(now, |all| {
            all.current.contains(entity) || all.previous.contains(entity)
        })
    }

    /// Remembers an entity.
    pub fn add(&self, entity: &Entity, now: Instant) {
        self.with(now, |all| all.current.insert(entity.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{Id, Name};

    fn note(eid: usize) -> Entity {
        Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new(eid.to_string()).expect("an ID"),
        }
    }

    #[test]
    fn entities_are_remembered_for_the_lifetime_at_most() {
        let zeros = VerifiedEntities::new(Duration::from_secs(10));
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
        let zeros = VerifiedEntities::new(Duration::from_secs(1_000));
        let now = Instant::now();
        for eid in 0..100_000 {
            zeros.add(&note(eid), now);
        }
        let all = zeros.generations.lock().expect("a lock");
        assert!(all.current.len() + all.previous.len() <= CAPACITY);
    }
}
