//! What migrations do not do while an entity is split.

use super::error::MigrationError;
use crate::domain::ids::Entity;
use crate::redis::layout::StoredLayout;

/// Refuses while an entity is split: what runs then does not know where its facts and counters are.
///
/// # Errors
/// An entity is split.
pub fn refuse_while_split(layout: &StoredLayout) -> Result<(), MigrationError> {
    match layout.splits().keys().next() {
        None => Ok(()),
        Some(Entity { etype, eid }) => Err(MigrationError::Refused(format!(
            "{etype}:{eid} is split: run countd hot merge {etype}:{eid} first"
        ))),
    }
}
