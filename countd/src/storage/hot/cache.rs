//! The counters of hot entities that this process has read, for a short time.
//!
//! A counter that was read before a change must not be cached after it: the client that made the change would not see it. A read therefore
//! takes a ticket before its command is sent, and a change through this process makes earlier tickets of the entity invalid after its reply
//! has arrived.

use crate::domain::ids::{Entity, Name};
use arc_swap::ArcSwap;
use bytes::Bytes;
use hashbrown::HashMap;
use metrics::Counter;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The fields of the counters of an entity. Cheap to clone.
#[derive(Clone)]
pub struct CachedCounters(Arc<Cached>);

struct Cached {
    fields: Box<[u64]>,
    /// The response to a read of all counters, and their names.
    response: OnceLock<(Arc<[Name]>, Bytes)>,
}

impl CachedCounters {
    fn new(fields: &[u64]) -> CachedCounters {
        CachedCounters(Arc::new(Cached {
            fields: fields.into(),
            response: OnceLock::new(),
        }))
    }

    /// The response to a read of the counters with these names. It is formatted once for all reads of the cached counters.
    ///
    /// # Errors
    /// That of `format`.
    pub fn response<E>(
        &self,
        names: &Arc<[Name]>,
        format: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        if let Some((known, response)) = self.0.response.get()
            && Arc::ptr_eq(known, names)
        {
            return Ok(response.clone());
        }
        let response = format()?;
        // If the schema was read again meanwhile, the response with the earlier names stays for the rest of the lifetime, and is not used.
        let _ = self.0.response.set((Arc::clone(names), response.clone()));
        Ok(response)
    }
}

impl Deref for CachedCounters {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.0.fields
    }
}

/// The counters of the hot entities. Other entities are not cached.
pub(super) struct CounterCache {
    /// How long counters are cached. `None` if none are.
    lifetime: Option<Duration>,
    slots: ArcSwap<HashMap<Entity, Arc<Slot>>>,
    hits: Counter,
    misses: Counter,
}

/// The place of an entity in the cache.
#[derive(Default)]
struct Slot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    /// The number of changes through this process.
    changes: u64,
    cached: Option<(CachedCounters, Instant)>,
}

impl SlotState {
    /// The counters, if they have not expired and are at least `len`.
    fn fresh(&self, len: usize, now: Instant) -> Option<CachedCounters> {
        let (fields, expires) = self.cached.as_ref()?;
        (now < *expires && fields.len() >= len).then(|| fields.clone())
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a lookup.
pub enum Lookup {
    /// The counters.
    Cached(CachedCounters),
    /// The counters have to be read. With the ticket they can be cached.
    Missing(Option<Box<Ticket>>),
}

/// Permits that counters are cached, which are read after the ticket was taken.
pub struct Ticket {
    slot: Arc<Slot>,
    changes: u64,
    expires: Instant,
}

impl Ticket {
    /// Caches counters, unless they have been changed through this process since the ticket was taken.
    pub fn store(self, fields: &[u64]) {
        let mut state = self.slot.lock();
        if state.changes == self.changes {
            state.cached = Some((CachedCounters::new(fields), self.expires));
        }
    }
}

impl CounterCache {
    /// A cache without entities.
    pub fn new(lifetime: Option<Duration>) -> CounterCache {
        CounterCache {
            lifetime,
            slots: ArcSwap::default(),
            hits: metrics::counter!("countd_hot_cache_hits_total"),
            misses: metrics::counter!("countd_hot_cache_misses_total"),
        }
    }

    /// Whether counters are cached.
    pub fn is_enabled(&self) -> bool {
        self.lifetime.is_some()
    }

    /// Replaces the entities that are cached. Those that stay keep their counters.
    pub fn keep(&self, entities: impl Iterator<Item = Entity>) {
        if self.lifetime.is_none() {
            return;
        }
        let before = self.slots.load();
        let slots = entities.map(|entity| {
            let slot = before.get(&entity).cloned().unwrap_or_default();
            (entity, slot)
        });
        self.slots.store(Arc::new(slots.collect()));
    }

    /// The counters of an entity, at least its first `len` fields, if they are cached. Only these are a hit: the caller looks up the others.
    pub fn find(&self, entity: &Entity, len: usize, now: Instant) -> Option<CachedCounters> {
        let slots = self.slots.load();
        let found = slots.get(entity)?.lock().fresh(len, now)?;
        self.hits.increment(1);
        Some(found)
    }

    /// Looks up the counters of an entity: at least its first `len` fields.
    pub fn lookup(&self, entity: &Entity, len: usize, now: Instant) -> Lookup {
        let Some(lifetime) = self.lifetime else {
            return Lookup::Missing(None);
        };
        let slots = self.slots.load();
        let Some(slot) = slots.get(entity) else {
            return Lookup::Missing(None);
        };
        let state = slot.lock();
        if let Some(fields) = state.fresh(len, now) {
            self.hits.increment(1);
            return Lookup::Cached(fields);
        }
        self.misses.increment(1);
        Lookup::Missing(Some(Box::new(Ticket {
            slot: Arc::clone(slot),
            changes: state.changes,
            expires: now + lifetime,
        })))
    }

    /// Removes the counters of an entity, and makes the tickets of earlier reads invalid.
    pub fn invalidate(&self, entity: &Entity) {
        if let Some(slot) = self.slots.load().get(entity) {
            let mut state = slot.lock();
            state.changes += 1;
            state.cached = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::testing::entity;

    const LIFETIME: Duration = Duration::from_millis(100);

    fn cache_of(hot: &Entity) -> CounterCache {
        let cache = CounterCache::new(Some(LIFETIME));
        cache.keep([hot.clone()].into_iter());
        cache
    }

    fn found(cache: &CounterCache, entity: &Entity, len: usize, now: Instant) -> Option<Vec<u64>> {
        let found = cache.find(entity, len, now);
        let looked_up = match cache.lookup(entity, len, now) {
            Lookup::Cached(fields) => Some(fields),
            Lookup::Missing(_) => None,
        };
        let to_vec = |fields: CachedCounters| fields.to_vec();
        let found = found.map(to_vec);
        assert_eq!(found, looked_up.map(to_vec));
        found
    }

    fn ticket(cache: &CounterCache, entity: &Entity, now: Instant) -> Option<Box<Ticket>> {
        match cache.lookup(entity, 1, now) {
            Lookup::Cached(_) => None,
            Lookup::Missing(ticket) => ticket,
        }
    }

    #[test]
    fn counters_expire_a_lifetime_after_their_read_began() {
        let (hot, now) = (entity("note", "1"), Instant::now());
        let cache = cache_of(&hot);
        ticket(&cache, &hot, now).expect("hot").store(&[5, 6]);
        assert_eq!(found(&cache, &hot, 2, now + LIFETIME / 2), Some(vec![5, 6]));
        assert_eq!(found(&cache, &hot, 2, now + LIFETIME), None);
        // The schema has more fields than were read.
        assert_eq!(found(&cache, &hot, 3, now), None);
    }

    #[test]
    fn counters_read_before_a_change_are_not_cached() {
        let (hot, now) = (entity("note", "1"), Instant::now());
        let cache = cache_of(&hot);
        let before = ticket(&cache, &hot, now).expect("hot");
        cache.invalidate(&hot);
        before.store(&[5]);
        assert_eq!(found(&cache, &hot, 1, now), None);
        ticket(&cache, &hot, now).expect("hot").store(&[6]);
        assert_eq!(found(&cache, &hot, 1, now), Some(vec![6]));
        cache.invalidate(&hot);
        assert_eq!(found(&cache, &hot, 1, now), None);
    }

    #[test]
    fn a_response_is_formatted_once_for_the_names_in_it() {
        let (hot, now) = (entity("note", "1"), Instant::now());
        let cache = cache_of(&hot);
        ticket(&cache, &hot, now).expect("hot").store(&[5]);
        let names: Vec<Arc<[Name]>> = ["read", "view"]
            .map(|name| vec![Name::new(name).expect("valid")].into())
            .into();
        let response = |names: &Arc<[Name]>, text: &'static str| {
            let found = cache.find(&hot, 1, now).expect("cached");
            found.response(names, || Ok::<_, ()>(Bytes::from_static(text.as_bytes())))
        };
        assert_eq!(response(&names[0], "first"), Ok("first".into()));
        assert_eq!(response(&names[0], "second"), Ok("first".into()));
        assert_eq!(response(&names[1], "of a view"), Ok("of a view".into()));
        cache.invalidate(&hot);
        ticket(&cache, &hot, now).expect("hot").store(&[6]);
        assert_eq!(response(&names[0], "third"), Ok("third".into()));
    }

    #[test]
    fn only_hot_entities_are_cached() {
        let (hot, other, now) = (entity("note", "1"), entity("note", "2"), Instant::now());
        let cache = cache_of(&hot);
        assert!(ticket(&cache, &other, now).is_none());
        ticket(&cache, &hot, now).expect("hot").store(&[5]);
        cache.keep([hot.clone(), other.clone()].into_iter());
        assert_eq!(found(&cache, &hot, 1, now), Some(vec![5]));
        assert!(ticket(&cache, &other, now).is_some());
        cache.keep([other].into_iter());
        assert_eq!(found(&cache, &hot, 1, now), None);
        let off = CounterCache::new(None);
        off.keep([hot.clone()].into_iter());
        assert!(ticket(&off, &hot, now).is_none());
    }
}
