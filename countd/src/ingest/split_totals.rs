//! The counts of split entities in the answers to actions: the counter that the action has changed, and those of the other places, which
//! are read at most once in `hot.cache_ms`, or in 100 ms.

use crate::domain::ids::{Entity, Name};
use crate::domain::keys::CounterLocation;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, ScriptTemplate};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

static COUNT: ScriptTemplate = ScriptTemplate::reading(&[include_str!("../lua/split_count.lua")]);

/// How long counters are remembered if `hot.cache_ms` is 0. An entity that is split has more actions than one core executes: if each of them
/// read the counters of all places, nothing would be gained.
pub(super) const LIFETIME: Duration = Duration::from_millis(100);
/// The number of counters of split entities that a process remembers.
const MAX_KNOWN: usize = 10_000;

/// The counters of a metric of a split entity.
pub(super) struct Known {
    generation: u64,
    /// When the read began.
    read_at: Instant,
    /// That of the base, then those of the shards. `None` if the read failed.
    counts: Option<Arc<[u64]>>,
}

impl Known {
    /// What a read that began at a time has found.
    pub fn new(generation: u64, read_at: Instant, counts: Option<Arc<[u64]>>) -> Known {
        Known {
            generation,
            read_at,
            counts,
        }
    }

    /// The counters, or that they could not be read, for an answer that asks for them since a time. `None` if they have to be read again.
    pub fn for_answer(
        &self,
        generation: u64,
        asked_at: Instant,
        lifetime: Duration,
    ) -> Option<Option<Arc<[u64]>>> {
        let is_newer = self.read_at >= asked_at;
        let is_young = self.counts.is_some() && self.read_at.elapsed() < lifetime;
        let is_usable = self.generation == generation && (is_newer || is_young);
        is_usable.then(|| self.counts.clone())
    }
}

/// The cached counters of a metric of a split entity. The holder of the lock reads them; waiters share the result, even if the read took longer
/// than [`LIFETIME`]. Without the lock, each of a thousand actions of a batch would read them.
pub(super) type Slot = Arc<tokio::sync::Mutex<Option<Known>>>;

/// The counters that this process has read. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct SplitTotals(Arc<Mutex<HashMap<(Entity, Name), Slot>>>);

impl SplitTotals {
    /// The permissions that reading counters requires.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        COUNT.required_permissions(backend)
    }

    /// The slot of a metric of an entity.
    pub fn slot(&self, of: (Entity, Name)) -> Slot {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_KNOWN && !all.contains_key(&of) {
            all.clear();
        }
        Arc::clone(all.entry(of).or_default())
    }
}

/// The call that reads a counter. Its reply is the value.
pub(super) fn count_call(backend: CounterBackend, at: &CounterLocation, idx: usize) -> RedisCall {
    let mut call = RedisCall::script(COUNT.on(backend), &[at.key()]);
    let row = at.row().map(|row| row.to_string());
    call.cmd.arg(row.unwrap_or_default()).arg(idx);
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_wait_for_a_read_use_it_and_later_ones_while_it_is_young() {
        let asked_at = Instant::now();
        let read_at = Instant::now();
        let later = read_at + Duration::from_nanos(1);
        let counts: Option<Arc<[u64]>> = Some(Arc::from([1, 2]));
        let (long, none) = (Duration::from_secs(3_600), Duration::ZERO);
        let known = Known::new(3, read_at, counts.clone());
        assert_eq!(known.for_answer(3, asked_at, none), Some(counts.clone()));
        assert_eq!(known.for_answer(3, later, long), Some(counts));
        assert_eq!(known.for_answer(3, later, none), None);
        assert_eq!(known.for_answer(4, asked_at, long), None);
        // Waiters share a failed read. Later requests read again.
        let failed = Known::new(3, read_at, None);
        assert_eq!(failed.for_answer(3, asked_at, none), Some(None));
        assert_eq!(failed.for_answer(3, later, long), None);
    }
}
