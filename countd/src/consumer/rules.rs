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
