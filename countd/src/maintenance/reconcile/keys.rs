//! The entities of a node that have facts, counts by day or an object, by `SCAN`. It finds counters that were lost with their row.

use super::context::Context;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{KeyName, Keys, Partition};
use crate::redis::run_id::run_id;
use redis::aio::ConnectionManager;
use std::collections::BTreeMap;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "SCAN 0 COUNT 1",
    "DBSIZE",
    "INFO server",
    "HGET {reconcile} f",
    "HSET {reconcile} f v",
];

/// The number of sweeps over rows for one over the keys of a node without objects. Without objects these keys only tell which rows were lost, and
/// reads rebuild lost rows at once.
const SWEEPS_OF_ROWS: u64 = 2;

/// The entities of some keys.
#[derive(Debug, Default)]
pub struct KeyPage {
    /// Entities with an object of counters among the keys.
    pub with_object: Vec<Entity>,
    /// Entities of which the keys hold only facts or counts by day. Their counters are elsewhere, or were lost.
    pub others: Vec<Entity>,
    /// The number of keys, those of other kinds included.
    pub keys: u64,
    /// Whether the sweep has reached the end.
    pub is_last: bool,
}

/// The beginning of the field of a saved sweep.
const FIELD: &str = "keys:";

/// A saved sweep through the keys of a node: `{run}/{cursor}/{started}/{number}/{objects now}/{objects before}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedKeySweep {
    run: String,
    cursor: u64,
    /// Since when it runs, in milliseconds since 1970.
    pub started: Option<u64>,
    /// How many sweeps have ended before it.
    pub number: u64,
    objects: Objects,
}

impl SavedKeySweep {
    /// `None` if there is no sweep.
    fn parse(saved: &str) -> Option<SavedKeySweep> {
        let parts: Vec<&str> = saved.split('/').collect();
        let [run, cursor, started, number, now, before] = parts[..] else {
            return None;
        };
        Some(SavedKeySweep {
            run: run.to_owned(),
            cursor: cursor.parse().unwrap_or(0),
            started: started.parse().ok(),
            number: number.parse().unwrap_or(0),
            objects: Objects {
                now: now != "0",
                before: before != "0",
            },
        })
    }

    /// The lowest partition of the node of a field `keys:{partition}`, and its sweep. `None` for other fields.
    pub(in crate::maintenance) fn of_field(
        field: &str,
        saved: &str,
    ) -> Option<(Partition, SavedKeySweep)> {
        let lowest = field.strip_prefix(FIELD)?.parse().ok()?;
        Some((lowest, SavedKeySweep::parse(saved)?))
    }
}

/// A sweep through the keys of a node.
pub struct KeySweep {
    context: Context,
    server: ConnectionManager,
    field: String,
    /// Identifies the run of the server. A cursor is valid in one run.
    run: String,
    cursor: u64,
    started: u64,
    /// How many sweeps have ended.
    number: u64,
    objects: Objects,
}

/// In which sweeps entities with an object were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Objects {
    /// In this one, so far.
    now: bool,
    /// In the one before, or it is unknown.
    before: bool,
}

impl Objects {
    const UNKNOWN: Objects = Objects {
        now: false,
        before: true,
    };
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
        Ok(KeySweep {
            context: context.clone(),
            run: run_id(&mut server).await?,
            server,
            field: format!("{FIELD}{lowest}"),
            cursor: 0,
            started: now_ms(),
            number: 0,
            objects: Objects::UNKNOWN,
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
        let Some(saved) = SavedKeySweep::parse(&saved.unwrap_or_default()) else {
            return Ok(());
        };
        self.number = saved.number;
        if saved.run == self.run {
            self.cursor = saved.cursor;
            self.started = saved.started.unwrap_or_else(now_ms);
            self.objects = saved.objects;
        }
        Ok(())
    }

    /// The number of the sweep: how many have ended before it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The number of keys.
    ///
    /// # Errors
    /// The node is unavailable.
    pub async fn key_count(&mut self) -> Result<u64, StoreError> {
        Ok(redis::cmd("DBSIZE").query_async(&mut self.server).await?)
    }

    /// The number of keys to visit in one of `rounds` rounds. Without objects, a sweep takes [`SWEEPS_OF_ROWS`] times as many rounds.
    ///
    /// # Errors
    /// The node is unavailable.
    pub async fn keys_of_round(&mut self, rounds: u64) -> Result<u64, StoreError> {
        let keys = self.key_count().await?;
        let rounds = match self.objects.now || self.objects.before {
            true => rounds,
            false => SWEEPS_OF_ROWS.saturating_mul(rounds),
        };
        // Clients create keys meanwhile, and a page of a hash table with few keys is shorter.
        Ok((keys + keys / 8).div_ceil(rounds))
    }

    /// The entities of the next keys, about `limit` keys.
    ///
    /// # Errors
    /// The node is unavailable.
    pub async fn next(&mut self, limit: usize) -> Result<KeyPage, StoreError> {
        let mut cmd = redis::cmd("SCAN");
        cmd.arg(self.cursor).arg("COUNT").arg(limit);
        let (next, found): (u64, Vec<Vec<u8>>) = cmd.query_async(&mut self.server).await?;
        self.cursor = next;
        self.number += u64::from(next == 0);
        let keys = self.context.store.keys();
        // An entity has facts of several metrics.
        let mut entities: BTreeMap<(Name, Id), bool> = BTreeMap::new();
        let layout = self.context.store.layout();
        for (etype, eid, is_object) in found.iter().filter_map(|key| entity_of(&keys, key)) {
            if layout.is_former_shard(&etype, &eid) {
                continue;
            }
            *entities.entry((etype, eid)).or_default() |= is_object;
        }
        let mut page = KeyPage {
            keys: found.len() as u64,
            is_last: next == 0,
            ..KeyPage::default()
        };
        for ((etype, eid), is_object) in entities {
            let entity = Entity { etype, eid };
            match is_object {
                true => page.with_object.push(entity),
                false => page.others.push(entity),
            }
        }
        self.objects.now |= !page.with_object.is_empty();
        Ok(page)
    }

    /// Saves the cursor. A sweep that has reached the end begins again. Returns since when it runs, in milliseconds since 1970.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn save(&mut self) -> Result<u64, StoreError> {
        if self.cursor == 0 {
            self.started = now_ms();
            self.objects = Objects {
                now: false,
                before: self.objects.now,
            };
        }
        let Objects { now, before } = self.objects;
        let state = [
            self.cursor,
            self.started,
            self.number,
            now.into(),
            before.into(),
        ];
        let state = state.map(|number| number.to_string()).join("/");
        let mut cmd = redis::cmd("HSET");
        cmd.arg(self.context.store.keys().reconciliation());
        cmd.arg(&self.field);
        cmd.arg(format!("{}/{state}", self.run));
        cmd.exec_async(&mut self.context.store.commands()).await?;
        Ok(self.started)
    }
}

/// The entity whose facts or counters a key holds, and whether it holds counters.
pub(crate) fn entity_of(keys: &Keys, key: &[u8]) -> Option<(Name, Id, bool)> {
    if let Some(KeyName::Facts { entity, .. }) = KeyName::parse(keys, key) {
        return Some((entity.etype, entity.eid, false));
    }
    let key = std::str::from_utf8(key).ok()?;
    if let Some(days) = keys.parse_days(key) {
        return Some((days.entity.etype, days.entity.eid, false));
    }
    let key = key.strip_prefix("cnt:")?;
    let mut parts = key.split(':').skip(1);
    let (etype, eid) = (
        Name::new(parts.next()?).ok()?,
        Id::stored(parts.next()?).ok()?,
    );
    let tag = parts.next().is_some_and(|tag| tag.starts_with('{'));
    (tag == keys.tagged() && parts.next().is_none()).then_some((etype, eid, true))
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
            let found = |key: &str| {
                let found = entity_of(&keys, key.as_bytes());
                found.map(|(_, eid, is_object)| (eid, is_object))
            };
            for (key, is_object) in [
                (keys.facts(&name("like"), &entity), false),
                (keys.fact_sets(&name("like"), &entity).key("days"), false),
                (keys.fact_bits(&name("like"), &entity).key(3), false),
                (keys.counters(&name("v1"), &entity), true),
                (keys.days_of(&name("read"), &entity), false),
                (keys.history_of(&name("read"), &entity), false),
            ] {
                assert_eq!(found(&key), Some((entity.eid.clone(), is_object)), "{key}");
            }
            for other in [
                keys.user_counters(&entity.eid),
                keys.table(&name("v1"), &entity.etype, 7),
                keys.log(7),
                "cnt:v1:note".to_owned(),
                "cnt:v1:note:7:8:9".to_owned(),
            ] {
                assert_eq!(found(&other), None, "{other}");
            }
        }
    }
}
