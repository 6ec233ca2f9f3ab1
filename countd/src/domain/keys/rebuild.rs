//! The keys of rebuilds of counters.

use super::layout::Keys;
use super::location::CounterLocation;
use super::partition::Partition;
use crate::domain::ids::Entity;

/// What precedes the key of a counter in the key of its shadow.
const SHADOW: &str = "shadow:";

/// The key of the counters of which a key may be the shadow.
pub(super) fn without_shadow(key: &str) -> &str {
    key.strip_prefix(SHADOW).unwrap_or(key)
}

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

    /// The state of the rebuild from the archive: a Hash.
    pub fn rebuild_state(&self) -> &'static str {
        "countd:rebuild"
    }

    /// The offsets from which a rebuild continues: a Hash (field: the partition). Without hash tags all partitions share one Hash.
    pub fn rebuild_offsets(&self, partition: Partition) -> String {
        match self.tagged() {
            true => self.numbered("countd:rebuild:pos", partition, ""),
            false => "countd:rebuild:pos".to_owned(),
        }
    }

    /// The first offsets that a rebuild needs from the logs: a Hash (field: the partition) that expires. Without hash tags all partitions
    /// share one Hash.
    pub fn archive_hold(&self, partition: Partition) -> String {
        match self.tagged() {
            true => self.numbered("x:cnt-update", partition, ":hold"),
            false => "x:cnt-update:hold".to_owned(),
        }
    }

    /// The first offsets that a sink has not read: a Hash (field: the partition) that expires. Without hash tags all partitions share one
    /// Hash.
    pub fn sink_hold(&self, partition: Partition) -> String {
        match self.tagged() {
            true => self.numbered("x:cnt-update", partition, ":sink"),
            false => "x:cnt-update:sink".to_owned(),
        }
    }

    /// The shadow of a table or an object of counters, in which a rebuild adds up what the log has. It is in the same slot.
    pub fn shadow(&self, key: &str) -> String {
        format!("{SHADOW}{key}")
    }

    /// Where the shadow of counters is. `None` while a migration moves them.
    pub fn shadow_of(&self, at: &CounterLocation) -> Option<CounterLocation> {
        match at {
            CounterLocation::Row { table, id } => Some(CounterLocation::Row {
                table: self.shadow(table),
                id: *id,
            }),
            CounterLocation::Object { key } => Some(CounterLocation::Object {
                key: self.shadow(key),
            }),
            CounterLocation::Either(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{Id, Name};
    use crate::domain::keys::PartitionHash::Murmur2;

    #[test]
    fn keys_of_rebuilds_are_in_the_slot_of_the_entity() {
        let entity = Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new("7").expect("an ID"),
        };
        let lock = |tagged| Keys::new(1, tagged, Murmur2).rebuild_lock(&entity);
        assert_eq!(lock(false), "lock:sds-rebuild:note:7");
        assert_eq!(lock(true), "lock:sds-rebuild:note:7:{0}");
        let keys = Keys::new(1, true, Murmur2);
        assert_eq!(keys.rebuild_offsets(0), "countd:rebuild:pos:{0}");
        assert_eq!(keys.archive_hold(0), "x:cnt-update:{0}:hold");
        let at = CounterLocation::Object {
            key: keys.counters(&entity.etype, &entity),
        };
        let shadow = keys.shadow_of(&at).expect("a shadow");
        assert_eq!(shadow.key(), "shadow:cnt:note:note:7:{0}");
    }
}
