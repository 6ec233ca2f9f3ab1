//! What a read of counters returns.

use crate::domain::ids::Name;
use crate::storage::hot::CachedCounters;
use crate::storage::schema::SortedNames;
use bytes::Bytes;
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// Counters by name, ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Shared by all objects with the same schema.
    names: Arc<[Name]>,
    values: Vec<u64>,
}

impl Counts {
    /// The selected ones of the fields of an object. Missing fields are 0.
    pub(super) fn new((names, indexes): &SortedNames, fields: &[u64]) -> Counts {
        let values = indexes.iter().map(|idx| fields.get(*idx).copied());
        Counts {
            names: Arc::clone(names),
            values: values.map(|value| value.unwrap_or(0)).collect(),
        }
    }

    /// The names and values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.names.iter().zip(self.values.iter().copied())
    }
}

/// The counters of a hot entity, which are in memory. Cheap to clone.
#[derive(Clone)]
pub struct CachedCounts {
    selected: SortedNames,
    fields: CachedCounters,
}

impl CachedCounts {
    /// The selected ones of the fields.
    pub(super) fn new(selected: &SortedNames, fields: CachedCounters) -> CachedCounts {
        CachedCounts {
            selected: selected.clone(),
            fields,
        }
    }

    /// The response with these counters, which is formatted once for many reads.
    ///
    /// # Errors
    /// That of `format`.
    pub fn response<E>(&self, format: impl FnOnce(Counts) -> Result<Bytes, E>) -> Result<Bytes, E> {
        self.fields.response(&self.selected.0, || {
            format(Counts::new(&self.selected, &self.fields))
        })
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let named = self.names.iter().map(Name::as_str).zip(&self.values);
        to.collect_map(named)
    }
}
