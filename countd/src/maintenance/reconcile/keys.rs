//! The entities of a node that have facts, counts by day or an object, by `SCAN`. It finds counters that were lost with their row.

use super::context::Context;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{KeyName, Keys, Partition};
use redis::aio::ConnectionManager;
use std::collections::BTreeSet;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "SCAN 0 COUNT 1",
    "DBSIZE",
    "INFO server",
    "HGET {reconcile} f",
    "HSET {reconcile} f v",
];

/// A sweep through the keys of a node.
pub struct KeySweep {
    context: Context,
    server: ConnectionManager,
    field: String,
    /// Identifies the run of the server. A cursor is valid in one run.
    run: String,
    cursor: u64,
    started: u64,
}

impl KeySweep {
    /// The sweep of the node whose lowest partition this is, from the beginning.
    ///
    /// # Errors
    /// The node is unavailable.
    pub async fn new(
        context: &Context,
        mut server: ConnectionManager,
        lowest: Partition,
    ) -> Result<KeySweep, StoreError> {
        let mut cmd = redis::cmd("INFO");
        cmd.arg("server");
        let info: String = cmd.query_async(&mut server).await?;
        let run = info.lines().find_map(|line| line.strip_prefix("run_id:"));
        Ok(KeySweep {
            context: context.clone(),
            run: run.unwrap_or_default().trim().to_owned(),
            server,
            field: format!("keys:{lowest}"),
            cursor: 0,
            started: now_ms(),
        })
    }

    /// Continues the saved sweep, if there is one of the same run of the server.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn resume(&mut self) -> Result<(), StoreError> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(self.context.store.keys().reconciliation());
        cmd.arg(&self.field);
        let saved: Option<String> = cmd.query_async(&mut self.context.store.reads()).await?;
        let saved = saved.unwrap_or_default();
        let parts: Vec<&str> = saved.split('/').collect();
        if let [run, cursor, started] = parts[..]
            && run == self.run
        {
            self.cursor = cursor.parse().unwrap_or(0);
            self.started = started.parse().unwrap_or_else(|_| now_ms());
        }
        Ok(())
    }

    /// The number of keys.
    ///
    /// # Errors
    /// The node is unavailable.
    pub async fn key_count(&mut self) -> Result<u64, StoreError> {
        Ok(redis::cmd("DBSIZE").query_async(&mut self.server).await?)
    }

    /// The entities of the next keys, about `limit` keys. Returns them and whether the sweep has reached the end.
    ///
    /// # Errors
    /// The node is unavailable.
    pub async fn next(&mut self, limit: usize) -> Result<(Vec<Entity>, bool), StoreError> {
        let mut cmd = redis::cmd("SCAN");
        cmd.arg(self.cursor).arg("COUNT").arg(limit);
        let (next, found): (u64, Vec<Vec<u8>>) = cmd.query_async(&mut self.server).await?;
        self.cursor = next;
        let keys = self.context.store.keys();
        // An entity has facts of several metrics.
        let entities: BTreeSet<(Name, Id)> = found
            .iter()
            .filter_map(|key| entity_of(&keys, key))
            .collect();
        let entities = entities
            .into_iter()
            .map(|(etype, eid)| Entity { etype, eid });
        Ok((entities.collect(), next == 0))
    }

    /// Saves the cursor. Returns the age of the sweep in milliseconds; one that has reached the end begins again.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn save(&mut self) -> Result<u64, StoreError> {
        let age = now_ms().saturating_sub(self.started);
        if self.cursor == 0 {
            self.started = now_ms();
        }
        let mut cmd = redis::cmd("HSET");
        cmd.arg(self.context.store.keys().reconciliation());
        cmd.arg(&self.field);
        cmd.arg(format!("{}/{}/{}", self.run, self.cursor, self.started));
        cmd.exec_async(&mut self.context.store.commands()).await?;
        Ok(age)
    }
}

/// The entity whose facts or counters a key holds.
fn entity_of(keys: &Keys, key: &[u8]) -> Option<(Name, Id)> {
    if let Some(KeyName::Facts { entity, .. }) = KeyName::parse(keys, key) {
        return Some((entity.etype, entity.eid));
    }
    let key = std::str::from_utf8(key).ok()?;
    if let Some(days) = keys.parse_days(key) {
        return Some((days.entity.etype, days.entity.eid));
    }
    let key = key.strip_prefix("cnt:")?;
    let mut parts = key.split(':').skip(1);
    let entity = (Name::new(parts.next()?).ok()?, Id::new(parts.next()?).ok()?);
    let tag = parts.next().is_some_and(|tag| tag.starts_with('{'));
    (tag == keys.tagged() && parts.next().is_none()).then_some(entity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash;

    #[test]
    fn keys_of_facts_days_and_objects_have_an_entity() {
        for tagged in [false, true] {
            let keys = Keys::new(1024, tagged, PartitionHash::Murmur2);
            let name = |text| Name::new(text).expect("a name");
            let entity = Entity {
                etype: name("note"),
                eid: Id::new("a-7").expect("an ID"),
            };
            let found = |key: String| entity_of(&keys, key.as_bytes()).map(|(_, eid)| eid);
            for key in [
                keys.facts(&name("like"), &entity),
                keys.fact_sets(&name("like"), &entity).key("days"),
                keys.fact_bits(&name("like"), &entity).key(3),
                keys.counters(&name("v1"), &entity),
                keys.days_of(&name("read"), &entity),
                keys.history_of(&name("read"), &entity),
            ] {
                assert_eq!(found(key.clone()), Some(entity.eid.clone()), "{key}");
            }
            for other in [
                keys.user_counters(&entity.eid),
                keys.table(&name("v1"), &entity.etype, 7),
                keys.log(7),
                "cnt:v1:note".to_owned(),
                "cnt:v1:note:7:8:9".to_owned(),
            ] {
                assert_eq!(found(other.clone()), None, "{other}");
            }
        }
    }
}
