//! Deletes what reconciliation has noted of an entity or a user: counters that differed in earlier rounds.

use super::context::Erasure;
use crate::domain::config::USER;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Id, Name};
use std::collections::BTreeSet;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "HKEYS {drift}",
    "HDEL {drift} f",
    "HKEYS {user_notes}",
    "HDEL {user_notes} f",
];

impl Erasure {
    /// Deletes the noted differences of an entity.
    pub(super) async fn remove_notes(&self, entity: &Entity) -> Result<(), Problem> {
        let keys = self.store.keys();
        let Entity { etype, eid } = entity;
        let prefix = format!("{etype}:{eid}:");
        self.remove_fields(keys.drift(keys.of_entity(entity)), &prefix)
            .await
    }

    /// Deletes the noted differences of a user.
    pub(super) async fn remove_user_notes(&self, uid: &Id) -> Result<(), Problem> {
        let etype = Name::new(USER).map_err(|error| StoreError::Unexpected(error.to_string()))?;
        let user = Entity {
            etype,
            eid: uid.clone(),
        };
        let keys = self.store.keys();
        // Facts on a user are in the partition of the entity; the user's counters may be in another one.
        let partitions = BTreeSet::from([keys.of_entity(&user), keys.of_user(uid)]);
        for partition in partitions {
            let prefix = format!("{USER}:{uid}:");
            self.remove_fields(keys.drift(partition), &prefix).await?;
        }
        let notes = keys.user_notes(keys.of_user(uid));
        self.remove_fields(notes, &format!("{uid}:")).await
    }

    /// Deletes the fields of a Hash of notes that begin with `prefix`. Such a Hash has at most 1,000 fields.
    async fn remove_fields(&self, hash: String, prefix: &str) -> Result<(), Problem> {
        let mut read = redis::cmd("HKEYS");
        read.arg(&hash);
        let mut fields: Vec<String> = read.query_async(&mut self.store.reads()).await?;
        fields.retain(|field| field.starts_with(prefix));
        if !fields.is_empty() {
            let mut delete = redis::cmd("HDEL");
            delete.arg(hash).arg(fields);
            delete.exec_async(&mut self.store.commands()).await?;
        }
        Ok(())
    }
}
