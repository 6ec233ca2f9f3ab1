//! The keys of rebuilds.

use super::layout::Keys;
use crate::domain::ids::Entity;

impl Keys {
    /// The lock of the rebuild of an entity's counters: a String with its token. It expires after five seconds.
    pub fn rebuild_lock(&self, entity: &Entity) -> String {
        let Entity { etype, eid } = entity;
        let key = format!("lock:sds-rebuild:{etype}:{eid}");
        match self.tagged() {
            true => format!("{key}:{{{}}}", self.of_entity(entity)),
            false => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{Id, Name};
    use crate::domain::keys::PartitionHash::Murmur2;

    #[test]
    fn locks_are_in_the_slot_of_the_entity() {
        let entity = Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new("7").expect("an ID"),
        };
        let lock = |tagged| Keys::new(1, tagged, Murmur2).rebuild_lock(&entity);
        assert_eq!(lock(false), "lock:sds-rebuild:note:7");
        assert_eq!(lock(true), "lock:sds-rebuild:note:7:{0}");
    }
}
