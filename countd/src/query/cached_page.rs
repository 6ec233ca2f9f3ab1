//! The counters of a page of entities, of which those of hot entities may be cached.

use super::field_values::Fields;
use super::fields::CountersToRead;
use crate::domain::error::StoreError;
use crate::domain::ids::Entity;
use crate::storage::hot::{CachedCounters, HotTracker, Lookup, Ticket};
use std::ops::Deref;

/// The entities of a page, in order.
pub(super) struct CachedPage<'a> {
    hot: &'a HotTracker,
    lookups: Vec<Lookup>,
    /// The entities that are not cached.
    missing: Vec<&'a Entity>,
    to_read: Vec<CountersToRead>,
}

/// The fields of the counters of an entity.
pub(super) enum EntityFields {
    /// From the cache.
    Cached(CachedCounters),
    /// From Redis.
    Read(Fields),
}

impl Deref for EntityFields {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            EntityFields::Cached(fields) => fields,
            EntityFields::Read(fields) => fields,
        }
    }
}

impl<'a> CachedPage<'a> {
    /// A page without entities, which will have about `len`.
    pub(super) fn new(hot: &'a HotTracker, len: usize) -> CachedPage<'a> {
        CachedPage {
            hot,
            lookups: Vec::with_capacity(len),
            missing: Vec::with_capacity(len),
            to_read: Vec::with_capacity(len),
        }
    }

    /// Adds an entity, of which the first `len` fields are needed. `to_read` is where they are.
    pub(super) fn add(
        &mut self,
        entity: &'a Entity,
        len: usize,
        to_read: impl FnOnce() -> CountersToRead,
    ) {
        let lookup = self.hot.counters(entity, len);
        if let Lookup::Missing(_) = lookup {
            self.missing.push(entity);
            self.to_read.push(to_read());
        }
        self.lookups.push(lookup);
    }

    /// The counters to read from Redis.
    pub(super) fn to_read(&self) -> &[CountersToRead] {
        &self.to_read
    }

    /// [`to_read`](Self::to_read), with the entities.
    pub(super) fn missing(&self) -> (&[&'a Entity], &[CountersToRead]) {
        (&self.missing, &self.to_read)
    }

    /// Returns the counters of all entities, in order, and caches those of hot entities. `read` has those of [`to_read`](Self::to_read).
    ///
    /// # Errors
    /// There are fewer results than counters to read.
    pub(super) fn complete(
        self,
        read: Vec<Result<Fields, StoreError>>,
    ) -> Result<Vec<Result<EntityFields, StoreError>>, StoreError> {
        let mut read = read.into_iter();
        let lookups = self.lookups.into_iter();
        let complete = lookups.map(|lookup| match lookup {
            Lookup::Cached(fields) => Ok(Ok(EntityFields::Cached(fields))),
            Lookup::Missing(ticket) => {
                let fields = read.next().ok_or_else(|| {
                    StoreError::Unexpected("counters: a reply is missing".to_owned())
                })?;
                Ok(fields.map(|fields| cache(ticket, fields)))
            }
        });
        complete.collect()
    }
}

fn cache(ticket: Option<Box<Ticket>>, fields: Fields) -> EntityFields {
    if let Some(ticket) = ticket {
        ticket.store(&fields);
    }
    EntityFields::Read(fields)
}
