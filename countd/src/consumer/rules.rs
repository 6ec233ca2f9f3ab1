//! The rules by which entries are aggregated, and the data that they depend on.

use super::counter_key::UnusableKey;
use crate::domain::config::{Config, Storage};
use crate::domain::ids::{Id, Name};
use crate::domain::keys::StoragePhase;
use crate::storage::locator::Locator;
use crate::storage::moves::TypesInRows;
use crate::storage::schema::Schema;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The rules by which entries are aggregated.
pub struct Rules<'a> {
    /// The metrics and entity types.
    pub config: &'a Config,
    /// Where counters are stored.
    pub locator: &'a Locator,
    /// The stored schema of the counters of users.
    pub users: &'a Schema,
    /// The schemas of the entries. A schema that is missing here does not exist.
    pub schemas: &'a HashMap<Name, Arc<Schema>>,
    /// The types that a migration moves and whose counters are in rows in the slot of the entries.
    pub in_rows: &'a TypesInRows,
    /// Keys that a commit found to be unusable. Increments of them become dead letters.
    pub unusable_keys: &'a HashMap<String, UnusableKey>,
    /// Ids of envelopes that a commit found to be counted.
    pub duplicate_envelopes: &'a HashSet<Id>,
    /// Whether dead letters cannot be written. An entry that would become one then blocks its partition.
    pub holds_dead_letters: bool,
}

/// Where the counters of a type are in the slot of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// As rows or as objects.
    pub storage: Storage,
    /// Whether a migration moves them.
    pub is_moving: bool,
}

impl Rules<'_> {
    /// The number of counters to which users' objects and tables grow. Without the stored schema, which only a process that was
    /// running while it was deleted meets, the configuration counts.
    pub fn user_counter_count(&self) -> usize {
        self.users.len().max(self.config.users.counter_count())
    }

    /// The index of a counter of users that a derived event names.
    ///
    /// # Errors
    /// There is no such counter.
    pub fn user_counter(&self, name: &Name) -> Result<u16, String> {
        let stored = self.users.index_of(name.as_str());
        let stored = stored.and_then(|index| u16::try_from(index).ok());
        let configured = || Some(self.config.users.counter(name)?.index());
        let index = stored.or_else(configured);
        index.ok_or_else(|| format!("there is no counter {name} of users"))
    }

    /// Where the counters of a type are; `user` is the type of users.
    pub fn place_of(&self, etype: &str) -> Place {
        let phase = self.locator.layout().storage_of_type(etype);
        let storage = match phase {
            StoragePhase::Object => Storage::Object,
            StoragePhase::Moving if !self.in_rows.contains(etype) => Storage::Object,
            StoragePhase::Moving | StoragePhase::Table => Storage::Table,
        };
        Place {
            storage,
            is_moving: phase == StoragePhase::Moving,
        }
    }

    /// Checks that the value at a key can be incremented.
    pub fn check_key(&self, key: &str) -> Result<(), String> {
        match self.unusable_keys.get(key) {
            Some(UnusableKey::WrongType) => Err(format!("{key} holds another type")),
            Some(UnusableKey::TooShort) => Err(format!(
                "{key} is too short: it has fewer counters than its original schema"
            )),
            None => Ok(()),
        }
    }
}
