//! The types of entities whose damaged counters a worker repairs, and whether it repairs those of users.

use crate::domain::config::{Config, USER};
use crate::domain::ids::Name;
use crate::domain::keys::StoragePhase;
use crate::repair::{Source, Sources, UserSource};
use crate::storage::locator::Locator;
use std::collections::HashSet;

/// The types whose damaged counters are repaired: at least one counter is computed from facts, days or credits, and all processes count facts
/// alike. The type of users stands for the counters of users.
pub(super) fn repaired_types(config: &Config, locator: &Locator) -> HashSet<Name> {
    if locator.layout().counting != config.counting() {
        return HashSet::new();
    }
    let sources = Sources::new(config, locator.layout());
    let types = config.entities.keys().filter(|etype| {
        let mut metrics = config.metrics.iter();
        let has_source = metrics.any(|(name, metric)| {
            metric.applies_to(etype) && sources.of_entity(name) != Source::None
        });
        etype.as_str() != USER && has_source && locator.storage_of(etype) != StoragePhase::Moving
    });
    let names = config.users.names();
    let mut counters = names.iter().filter_map(|name| config.users.counter(name));
    let repairs_users = locator.storage_of_users() != StoragePhase::Moving
        && counters.any(|counter| sources.of_user(&counter) != UserSource::None);
    let users = Name::new(USER).ok().filter(|_| repairs_users);
    types.cloned().chain(users).collect()
}
