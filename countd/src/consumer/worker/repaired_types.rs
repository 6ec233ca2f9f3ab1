//! The types of entities whose damaged counters a worker repairs.

use crate::domain::config::Config;
use crate::domain::ids::Name;
use crate::domain::keys::StoragePhase;
use crate::repair::{Source, Sources};
use crate::storage::locator::Locator;
use std::collections::HashSet;

/// The types of entities whose damaged counters are repaired: at least one counter counts facts, and all processes count facts alike.
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
        has_source && locator.storage_of(etype) != StoragePhase::Moving
    });
    types.cloned().collect()
}
