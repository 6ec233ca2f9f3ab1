//! Announces changes of counters that leave no event in the log.

use crate::domain::changes::ChangedEntities;
use crate::domain::ids::{Entity, Id};
use crate::domain::keys::Partition;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use redis::Cmd;

/// A change for a script to announce in the stream of changes, if changes are announced.
pub(super) struct Announcement {
    /// The stream.
    pub key: Option<String>,
    retain: u64,
    content: String,
}

impl Announcement {
    /// Announces that the counters of an entity changed.
    pub fn of_entity(catalog: &Catalog, store: &Store, entity: &Entity) -> Announcement {
        let partition = store.keys().of_entity(entity);
        Announcement::new(catalog, store, partition, |changed| changed.add(entity))
    }

    /// Announces that the counters of a user changed.
    pub fn of_user(catalog: &Catalog, store: &Store, uid: &Id) -> Announcement {
        let partition = store.keys().of_user(uid);
        Announcement::new(catalog, store, partition, |changed| changed.add_user(uid))
    }

    fn new(
        catalog: &Catalog,
        store: &Store,
        partition: Partition,
        add: impl FnOnce(&mut ChangedEntities),
    ) -> Announcement {
        let settings = &catalog.config.changes;
        let mut changed = ChangedEntities::default();
        if settings.enabled {
            add(&mut changed);
        }
        Announcement {
            key: settings.enabled.then(|| store.keys().changes(partition)),
            retain: settings.retain_per_stream(store.keys()),
            content: changed.contents().concat(),
        }
    }

    /// Adds the arguments of the script: the number of entries that the stream retains, and the content of the new entry ('' if changes are
    /// not announced).
    pub fn add_arguments(&self, cmd: &mut Cmd) {
        cmd.arg(self.retain).arg(&self.content);
    }
}
