//! Where the counters of an entity or a user are.

use crate::domain::config::Storage;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{CounterLocation, Keys};
use crate::redis::layout::StoredLayout;
use crate::redis::store::Store;
use std::sync::Arc;

/// Finds the counters of entities and users. No I/O. Cheap to clone.
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
        Locator::new(store.keys(), Arc::clone(store.layout()))
    }

    /// The layout of the keys.
    pub fn keys(&self) -> Keys {
        self.keys
    }

    /// The stored layout of the data.
    pub fn layout(&self) -> &StoredLayout {
        &self.layout
    }

    /// How the counters of entities of a type are stored.
    pub fn storage_of(&self, etype: &Name) -> Storage {
        self.layout.storage_of(etype)
    }

    /// How the counters of users are stored.
    pub fn storage_of_users(&self) -> Storage {
        self.layout.storage_of_users()
    }

    /// The row of an entity's counters; `None` if they are an object.
    pub fn row_of_entity(&self, entity: &Entity) -> Option<u64> {
        self.storage_of(&entity.etype).row(&entity.eid)
    }

    /// The row of a user's counters; `None` if they are an object.
    pub fn row_of_user(&self, uid: &Id) -> Option<u64> {
        self.storage_of_users().row(uid)
    }

    /// The counters of an entity.
    pub fn entity(&self, schema: &Name, entity: &Entity) -> CounterLocation {
        let keys = self.keys;
        match self.row_of_entity(entity) {
            Some(id) => CounterLocation::Row {
                table: keys.table(schema, &entity.etype, keys.of_entity(entity)),
                id,
            },
            None => CounterLocation::Object {
                key: keys.counters(schema, entity),
            },
        }
    }

    /// The counters of a user.
    pub fn user(&self, uid: &Id) -> CounterLocation {
        let keys = self.keys;
        match self.row_of_user(uid) {
            Some(id) => CounterLocation::Row {
                table: keys.user_table(keys.of_user(uid)),
                id,
            },
            None => CounterLocation::Object {
                key: keys.user_counters(uid),
            },
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
            key(Storage::Table, "1"),
            ("tab:v1:note:382".to_owned(), Some(1))
        );
        assert_eq!(
            key(Storage::Table, &max),
            ("tab:v1:note:857".to_owned(), Some(u64::MAX))
        );
        assert_eq!(
            key(Storage::Object, "1"),
            ("cnt:v1:note:1".to_owned(), None)
        );
        for eid in ["007", "18446744073709551616", "a-1", "-1", "+1"] {
            let Ok(id) = Id::new(eid) else { continue };
            let object = format!("cnt:v1:note:{id}");
            assert_eq!(key(Storage::Table, eid), (object, None));
        }
    }
}
