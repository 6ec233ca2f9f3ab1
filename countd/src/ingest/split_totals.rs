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
pub(super) const MAX_KNOWN: usize = 10_000;

/// The counters of a metric of a split entity.
#[derive(Clone)]
pub(super) struct Known {
    pub generation: u64,
    pub read_at: Instant,
    /// That of the base, then those of the shards.
    pub counts: Arc<[u64]>,
}

/// The counters that this process has read. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct SplitTotals(Arc<Mutex<HashMap<(Entity, Name), Known>>>);

impl SplitTotals {
    /// The permissions that reading counters requires.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        COUNT.required_permissions(backend)
    }

    /// Uses what is remembered.
    pub fn with<T>(&self, f: impl FnOnce(&mut HashMap<(Entity, Name), Known>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The call that reads a counter. Its reply is the value.
pub(super) fn count_call(backend: CounterBackend, at: &CounterLocation, idx: usize) -> RedisCall {
    let mut call = RedisCall::script(COUNT.on(backend), &[at.key()]);
    let row = at.row().map(|row| row.to_string());
    call.cmd.arg(row.unwrap_or_default()).arg(idx);
    call
}
