//! The keys of migrations of storage.

use super::layout::Keys;
use super::partition::Partition;
use crate::domain::ids::{Entity, Id, Name};

/// The field of the phases of a partition with the step of an adoption that it has reached. It is no name, so no entity type has it.
pub const ADOPTION_STEP: &str = ":counters";

impl Keys {
    /// The lock of a migration: a String with its token.
    pub fn migration_lock(&self) -> &'static str {
        "countd:migrate"
    }

    /// What the last run of each migration and adoption has recorded of its progress: a Hash.
    pub fn migration_progress(&self) -> &'static str {
        "countd:migrate:progress"
    }

    /// The phases of the migrations of a partition: a Hash (field: the entity type). Without hash tags all partitions share one Hash.
    pub fn storage_phases(&self, partition: Partition) -> String {
        match self.tagged() {
            true => self.numbered("countd:storage", partition, ""),
            false => "countd:storage".to_owned(),
        }
    }

    /// The pattern of the keys of objects with counters of entities of a type, for `SCAN`.
    pub fn counters_pattern(&self, etype: &Name) -> String {
        format!("cnt:*:{etype}:*")
    }

    /// The pattern of the keys of objects with counters of users, for `SCAN`.
    pub fn user_counters_pattern(&self) -> &'static str {
        "ucnt:*"
    }

    /// The schema and the entity of an object with counters.
    pub fn entity_of_counters(&self, key: &str) -> Option<(Name, Entity)> {
        let key = self.without_tag(key)?;
        let mut parts = key.strip_prefix("cnt:")?.splitn(3, ':');
        let schema = Name::new(parts.next()?).ok()?;
        let etype = Name::new(parts.next()?).ok()?;
        let eid = Id::stored(parts.next()?).ok()?;
        Some((schema, Entity { etype, eid }))
    }

    /// The user of an object with counters of users.
    pub fn user_of_counters(&self, key: &str) -> Option<Id> {
        let id = self.without_tag(key)?.strip_prefix("ucnt:")?;
        Id::new(id).ok()
    }

    /// A key without its hash tag.
    fn without_tag<'a>(&self, key: &'a str) -> Option<&'a str> {
        match self.tagged() {
            true => key.rsplit_once(":{").map(|(key, _)| key),
            false => Some(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash::Murmur2;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    #[test]
    fn owners_are_parsed_from_keys_of_counters_only() {
        for tagged in [false, true] {
            let keys = Keys::new(8, tagged, Murmur2);
            let note = Entity {
                etype: name("note"),
                eid: Id::new("12").expect("an ID"),
            };
            let key = keys.counters(&name("v1"), &note);
            assert_eq!(keys.entity_of_counters(&key), Some((name("v1"), note)));
            assert_eq!(keys.user_of_counters(&key), None);
            let uid = Id::new("42").expect("an ID");
            let key = keys.user_counters(&uid);
            assert_eq!(keys.user_of_counters(&key), Some(uid));
            assert_eq!(keys.entity_of_counters(&key), None);
            let table = keys.table(&name("v1"), &name("note"), 3);
            assert_eq!(keys.entity_of_counters(&table), None);
        }
    }
}
