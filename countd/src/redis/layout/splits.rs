//! The split entities of the stored layout.

use super::form::unknown_value;
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

#[cfg(test)]
mod tests {
    use super::super::form::tests::parse;
    use crate::domain::ids::Id;
    use crate::domain::keys::testing::{entity, name};

    #[test]
    fn states_of_split_entities_are_parsed() {
        let fields = [
            ("partitions", "1024/murmur2"),
            ("hash", "murmur2"),
            ("counters", "module"),
            ("authors", "registry"),
            ("splits", "on"),
        ];
        let with = |field, value| parse(&[&fields[..], &[(field, value)]].concat());
        let layout = with("split:note:7", "split 12 8 like,fav").expect("a layout");
        let state = layout.split_of(&entity("note", "7")).expect("a state");
        assert_eq!((state.generation, state.shards), (12, 8));
        assert_eq!(layout.split_of(&entity("note", "8")), None);
        assert!(layout.can_change(&[]));
        for (eid, is_former) in [
            ("7", false),
            ("7~12.3", false),
            ("7~11.3", true),
            ("8~12.3", true),
        ] {
            let eid = Id::stored(eid).expect("an ID");
            assert_eq!(layout.is_former_shard(&name("note"), &eid), is_former);
        }
        for (field, value) in [
            ("split:note:7", "other 12 8 like"),
            ("split:note:7~1.2", "split 12 8 like"),
            ("split:note", "split 12 8 like"),
        ] {
            assert!(with(field, value).is_err(), "{field} {value}");
        }
    }
}
