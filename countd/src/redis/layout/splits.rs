//! The split entities of the stored layout.

use crate::domain::error::ConnectError;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::split::{Shard, SplitState};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The prefix of the fields with the states of split entities, `split:{type}:{ID}`.
pub(super) const SPLIT: &str = "split:";

/// The split entities, and their states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Splits(BTreeMap<Entity, Arc<SplitState>>);

impl Splits {
    /// Parses the fields of the layout.
    pub fn parse(fields: &HashMap<String, String>) -> Result<Splits, ConnectError> {
        let mut splits = BTreeMap::new();
        for (field, value) in fields {
            let Some(entity) = field.strip_prefix(SPLIT) else {
                continue;
            };
            let entity = entity.split_once(':').and_then(|(etype, eid)| {
                Some(Entity {
                    etype: Name::new(etype).ok()?,
                    eid: Id::new(eid).ok()?,
                })
            });
            let split = entity.zip(SplitState::parse(value));
            let (entity, state) = split.ok_or_else(|| unknown_value(field, value))?;
            splits.insert(entity, Arc::new(state));
        }
        Ok(Splits(splits))
    }

    /// The state of an entity.
    pub fn of(&self, entity: &Entity) -> Option<&Arc<SplitState>> {
        // Most data has none.
        match self.0.is_empty() {
            true => None,
            false => self.0.get(entity),
        }
    }

    /// All entities.
    pub fn all(&self) -> &BTreeMap<Entity, Arc<SplitState>> {
        &self.0
    }

    /// Whether an ID is that of a shard whose entity was merged since, so that nothing is left of it but fences.
    pub fn is_former_shard(&self, etype: &Name, eid: &Id) -> bool {
        let Some((eid, shard)) = Shard::parse(eid.as_str()) else {
            return false;
        };
        let etype = etype.clone();
        let state = self.of(&Entity { etype, eid });
        state.is_none_or(|state| state.generation != shard.generation)
    }
}

/// The error for a field with a value that this version does not know.
pub(super) fn unknown_value(field: &str, value: &str) -> ConnectError {
    ConnectError::UnknownLayout {
        field: field.to_owned(),
        value: value.to_owned(),
    }
}
