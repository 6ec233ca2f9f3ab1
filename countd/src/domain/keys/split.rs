//! The keys of split entities, beside those of the shards, which are entities.

use super::layout::Keys;
use crate::domain::ids::{Entity, Name, Shard};

/// The keys of the facts of a metric at the base of a split entity. They are in the slot of the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseKeys {
    /// The facts while the entity is whole; a String while it is split.
    pub whole: String,
    /// The facts while the entity is split; a String after the merge.
    pub frozen: String,
    /// The users who have had a fact since the facts were frozen, and took it back. Their home is the base. Erased users are removed.
    pub former: String,
    /// The state of the base: a Hash.
    pub state: String,
}

impl Keys {
    /// The keys of the facts of a metric at the base of a split entity.
    pub fn base_of_split(&self, metric: &Name, base: &Entity, generation: u64) -> BaseKeys {
        let Entity { etype, eid } = base;
        let of = |suffix: &str| {
            let key = format!("rbm:{metric}:{etype}:{eid}~{generation}{suffix}");
            self.tag(key, self.of_entity(base))
        };
        BaseKeys {
            whole: self.facts(metric, base),
            frozen: of(""),
            former: of("~former"),
            state: self.split_state(base, generation),
        }
    }

    /// The state of the base of a split entity: a Hash.
    pub fn split_state(&self, base: &Entity, generation: u64) -> String {
        let Entity { etype, eid } = base;
        let key = format!("split:{etype}:{eid}~{generation}");
        self.tag(key, self.of_entity(base))
    }

    /// The facts of a metric at a shard from the beginning of the merge on. Then its usual key is a String.
    pub fn fenced_facts(&self, metric: &Name, base: &Entity, shard: Shard) -> String {
        let entity = shard.of(base);
        let Entity { etype, eid } = &entity;
        self.tag(
            format!("rbm:{metric}:{etype}:{eid}~"),
            self.of_entity(&entity),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash::Murmur2;
    use crate::domain::keys::testing::{entity, name};

    #[test]
    fn keys_of_splits_have_the_documented_form() {
        let (note, like) = (entity("note", "7"), name("like"));
        let shard = Shard {
            generation: 12,
            number: 3,
        };
        let keys = Keys::new(1024, false, Murmur2);
        let base = keys.base_of_split(&like, &note, 12);
        let expected = [
            "rbm:like:note:7",
            "rbm:like:note:7~12",
            "rbm:like:note:7~12~former",
            "split:note:7~12",
        ];
        assert_eq!(
            [base.whole, base.frozen, base.former, base.state],
            expected.map(str::to_owned)
        );
        let fenced = keys.fenced_facts(&like, &note, shard);
        assert_eq!(fenced, "rbm:like:note:7~12.3~");
        assert_eq!(keys.facts(&like, &shard.of(&note)), "rbm:like:note:7~12.3");
        let keys = Keys::new(1024, true, Murmur2);
        let of = |entity: &Entity| format!(":{{{}}}", keys.of_entity(entity));
        let base = keys.base_of_split(&like, &note, 12);
        assert!(base.frozen.ends_with(&of(&note)) && base.state.ends_with(&of(&note)));
        let fenced = keys.fenced_facts(&like, &note, shard);
        assert!(fenced.ends_with(&of(&shard.of(&note))));
    }
}
