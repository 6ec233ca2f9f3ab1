//! The rules by which entries are aggregated, and the data that they depend on.

use super::batch::UnusableKey;
use crate::domain::config::Config;
use crate::domain::ids::{Id, Name};
use crate::storage::locator::Locator;
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
    /// Keys that a commit found to be unusable. Increments of them become dead letters.
    pub unusable_keys: &'a HashMap<String, UnusableKey>,
    /// Ids of envelopes that a commit found to be counted.
    pub duplicate_envelopes: &'a HashSet<Id>,
    /// Whether dead letters cannot be written. An entry that would become one then blocks its partition.
    pub holds_dead_letters: bool,
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
