//! Where the counters of an entity or a user are.

use crate::domain::config::USER;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{CounterLocation, Keys, MovingCounters, StoragePhase};
use crate::redis::layout::StoredLayout;
use crate::redis::store::Store;
use std::sync::Arc;

/// Finds the counters of entities and users, by the layout as it was when the locator was created. No I/O. Cheap to clone.
#[derive(Clone)]
pub struct Locator {
    keys: Keys,
    layout: Arc<StoredLayout>,
}

impl Locator {
    /// Uses a layout.
    pub fn new(keys: Keys, layout: Arc<StoredLayout>) -> Locator {
        Locator { keys, layout }
    }

    /// Uses the layout of a store.
    pub fn of(store: &Store) -> Locator {
        Locator::new(store.keys(), store.layout())
    }

    /// The layout of the keys.
    pub fn keys(&self) -> Keys {
        self.keys
    }

    /// The stored layout of the data.
    pub fn layout(&self) -> &Arc<StoredLayout> {
        &self.layout
    }

    /// How the counters of entities of a type are stored.
    pub fn storage_of(&self, etype: &Name) -> StoragePhase {
        self.layout.storage_of(etype)
    }

    /// How the counters of users are stored.
    pub fn storage_of_users(&self) -> StoragePhase {
        self.layout.storage_of_users()
    }

    /// The counters of an entity.
    pub fn entity(&self, schema: &Name, entity: &Entity) -> CounterLocation {
        let (keys, Entity { etype, eid }) = (self.keys, entity);
        let table = || keys.table(schema, etype, keys.of_entity(entity));
        let object = || keys.counters(schema, entity);
        match (self.storage_of(etype), eid.number()) {
            (StoragePhase::Table, Some(id)) => CounterLocation::Row { table: table(), id },
            (StoragePhase::Moving, Some(id)) => CounterLocation::Either(Box::new(MovingCounters {
                object: object(),
                table: table(),
                id,
                phases: keys.storage_phases(keys.of_entity(entity)),
                field: etype.to_string(),
            })),
            _ => CounterLocation::Object { key: object() },
        }
    }

    /// The counters of a user.
    pub fn user(&self, uid: &Id) -> CounterLocation {
        let keys = self.keys;
        let (table, object) = (
            || keys.user_table(keys.of_user(uid)),
            || keys.user_counters(uid),
        );
        match (self.storage_of_users(), uid.number()) {
            (StoragePhase::Table, Some(id)) => CounterLocation::Row { table: table(), id },
            (StoragePhase::Moving, Some(id)) => CounterLocation::Either(Box::new(MovingCounters {
                object: object(),
                table: table(),
                id,
                phases: keys.storage_phases(keys.of_user(uid)),
                field: USER.to_owned(),
            })),
            _ => CounterLocation::Object { key: object() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash;
    use crate::redis::script::CounterBackend;

    #[test]
    fn canonical_numbers_have_rows_and_other_ids_have_objects() {
        let locator = |storage| {
            let hash = PartitionHash::Murmur2;
            let layout = StoredLayout::uniform(hash, CounterBackend::Module, storage);
            Locator::new(Keys::new(1024, false, hash), Arc::new(layout))
        };
        let key = |storage, eid: &str| {
            let name = |text| Name::new(text).expect("a name");
            let eid = Id::new(eid).expect("an ID");
            let user = locator(storage).user(&eid);
            let etype = name("note");
            let entity = locator(storage).entity(&name("v1"), &Entity { etype, eid });
            assert_eq!(entity.row(), user.row());
            (entity.key().to_owned(), entity.row())
        };
        let max = u64::MAX.to_string();
        assert_eq!(
            key(StoragePhase::Table, "1"),
            ("tab:v1:note:382".to_owned(), Some(1))
        );
        assert_eq!(
            key(StoragePhase::Table, &max),
            ("tab:v1:note:857".to_owned(), Some(u64::MAX))
        );
        assert_eq!(
            key(StoragePhase::Object, "1"),
            ("cnt:v1:note:1".to_owned(), None)
        );
        for eid in ["007", "18446744073709551616", "a-1", "-1", "+1"] {
            let Ok(id) = Id::new(eid) else { continue };
            let object = format!("cnt:v1:note:{id}");
            assert_eq!(key(StoragePhase::Table, eid), (object.clone(), None));
            assert_eq!(key(StoragePhase::Moving, eid), (object, None));
        }
        let object = "cnt:v1:note:1".to_owned();
        assert_eq!(key(StoragePhase::Moving, "1"), (object, Some(1)));
    }
}
