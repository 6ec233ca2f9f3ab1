//! Deletes counters.

use super::context::Erasure;
use crate::domain::config::USER;
use crate::domain::error::{Problem, StoreError, rejected_by_foreign_last_id};
use crate::domain::event::Journal;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::CounterLocation;
use crate::ingest::announcement::Announcement;
use crate::log::renumber;
use crate::maintenance::jobs::Lease;
use crate::redis::call::RedisCall;
use crate::redis::day::totals_of;
use crate::redis::day_states::day_metrics;
use crate::redis::script::{AUTHOR, CHANGES, DAY_COUNTS, ScriptTemplate};
use redis::FromRedisValue;
use std::collections::BTreeSet;

/// Erases what is left of an entity without facts.
pub(super) static ENTITY: ScriptTemplate = ScriptTemplate::writing(&[
    AUTHOR,
    CHANGES,
    DAY_COUNTS,
    include_str!("../../lua/days_erase.lua"),
    include_str!("../../lua/entity_erase.lua"),
]);
/// Deletes the registration of an entity without an author.
pub(super) static FORGET_AUTHOR: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, include_str!("../../lua/author_forget.lua")]);
/// Deletes the counters of a user.
pub(super) static USER_COUNTERS: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../../lua/user_erase.lua")]);

/// The result of an attempt to delete counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    /// Nothing was deleted: there are facts, or the counters have changed.
    Refused,
    /// The counters were deleted.
    Deleted,
    /// There was nothing to delete.
    Absent,
    /// Nothing was deleted, because the lease has ended.
    Expired,
    /// Nothing was deleted: the log has entries that were not examined.
    Unexamined,
}

impl Deletion {
    fn decode(reply: redis::Value) -> Result<Deletion, StoreError> {
        match u8::from_redis_value(reply) {
            Ok(0) => Ok(Deletion::Refused),
            Ok(1) => Ok(Deletion::Deleted),
            Ok(2) => Ok(Deletion::Absent),
            Ok(3) => Ok(Deletion::Expired),
            Ok(4) => Ok(Deletion::Unexamined),
            other => Err(StoreError::Unexpected(format!("erasure: {other:?}"))),
        }
    }
}

/// The row of a location; '' for an object.
fn row(at: &CounterLocation) -> String {
    at.row().map(|id| id.to_string()).unwrap_or_default()
}

impl Erasure {
    /// Where counters with this ID may be: a row, and an object.
    fn locations(&self, table: String, object: String, id: &Id) -> Vec<CounterLocation> {
        let has_tables = self.store.backend().has_tables();
        let row = id.number().filter(|_| has_tables);
        let row = row.map(|id| CounterLocation::Row { table, id });
        let object = CounterLocation::Object { key: object };
        row.into_iter().chain([object]).collect()
    }

    /// Erases the counters and the author of an entity, unless it has facts, or the log has entries after `examined` (`None`: in any
    /// case).
    pub(super) async fn erase_entity_counters(
        &self,
        lease: &Lease,
        entity: &Entity,
        examined: Option<u64>,
    ) -> Result<Deletion, Problem> {
        self.store.check_layout()?;
        let keys = self.store.keys();
        let config = &self.catalog.config;
        let mut facts = Vec::new();
        for (name, metric) in config.metrics.iter() {
            if let Some(store) = self.facts.of(metric)
                && metric.applies_to(&entity.etype)
            {
                facts.extend(store.root_keys(name, entity));
            }
        }
        let partition = keys.of_entity(entity);
        // An event may name another schema than that of the type.
        let schemas: BTreeSet<&Name> = config.entities.values().map(|e| &e.schema).collect();
        let mut counters = Vec::new();
        if entity.etype.as_str() != USER {
            for schema in schemas {
                let table = keys.table(schema, &entity.etype, partition);
                let object = keys.counters(schema, entity);
                counters.extend(self.locations(table, object, &entity.eid));
            }
        }
        let named = self.authors.to_unregister(entity);
        let mut all = facts.clone();
        all.extend(counters.iter().map(|at| at.key().to_owned()));
        let latest = self.latest_keys(entity);
        all.extend(latest.iter().cloned());
        all.extend([keys.log(partition), keys.position(partition)]);
        let daily = day_metrics(&self.store, config).await?;
        let layout = (keys, self.store.backend());
        for metric in &daily {
            let totals = totals_of(layout, metric, entity).0;
            all.extend([
                keys.days_of(metric, entity),
                keys.history_of(metric, entity),
                totals,
            ]);
        }
        let announcement = Announcement::of_entity(&self.catalog, &self.store, entity);
        all.extend(announcement.key.clone());
        let is_ranked = config.rankings().any(|of| *of.etype == entity.etype);
        // The commit of the entry removes the entity from rankings.
        let entry = match self.store.layout().journals() || is_ranked {
            true => Journal::of_erasure(entity).to_json(),
            false => String::new(),
        };
        all.extend(named.iter().flat_map(|named| named.keys().iter().cloned()));
        let mut call = RedisCall::script(ENTITY.on(self.store.backend()), &all);
        call.cmd.arg(lease.deadline()).arg(facts.len());
        call.cmd.arg(counters.len()).arg(latest.len());
        let examined = examined.map(|offset| offset.to_string());
        call.cmd
            .arg(examined.unwrap_or_default())
            .arg(entity.eid.as_str())
            .arg(daily.len());
        announcement.add_arguments(&mut call.cmd);
        let of_topic = self.store.layout().has_topic.then_some(partition);
        let of_topic = of_topic.map(|partition| partition.to_string());
        call.cmd.arg(entry).arg(of_topic.unwrap_or_default());
        for at in &counters {
            call.cmd.arg(row(at));
        }
        for metric in &daily {
            let row = totals_of(layout, metric, entity).1;
            call.cmd
                .arg(row.map(|row| row.to_string()).unwrap_or_default());
            let streams = keys.read_streams(metric, entity);
            call.cmd.arg(entity.eid.as_str());
            call.cmd.arg(streams.prefix).arg(streams.suffix);
        }
        if let Some(named) = &named {
            named.add_arguments(&mut call.cmd);
        }
        let reply = match call.send(&self.store).await {
            // A rejected append has no effect.
            Err(error) if rejected_by_foreign_last_id(&error) => {
                renumber(&self.store, partition).await?;
                call.send(&self.store).await
            }
            reply => reply,
        };
        Ok(Deletion::decode(reply?)?)
    }

    /// Deletes the registration of an erased entity, unless it has a new author.
    pub(super) async fn forget_author(&self, entity: &Entity) -> Result<(), Problem> {
        if let Some(named) = self.authors.to_unregister(entity) {
            let script = FORGET_AUTHOR.on(self.store.backend());
            let mut call = RedisCall::script(script, named.keys());
            named.add_arguments(&mut call.cmd);
            call.send(&self.store).await?;
        }
        Ok(())
    }

    fn user_locations(&self, uid: &Id) -> Vec<CounterLocation> {
        let keys = self.store.keys();
        let table = keys.user_table(keys.of_user(uid));
        self.locations(table, keys.user_counters(uid), uid)
    }

    /// The counters of a user, as texts to compare.
    pub(super) async fn read_user_counters(&self, uid: &Id) -> Result<Vec<String>, Problem> {
        let locations = self.user_locations(uid);
        let mut call = self.user_call(&locations, None);
        call.cmd.arg("read");
        for at in &locations {
            call.cmd.arg(row(at)).arg("");
        }
        call.cmd.arg("");
        let reply = call.send(&self.store).await?;
        let texts = Vec::<String>::from_redis_value(reply);
        Ok(texts.map_err(|error| StoreError::Unexpected(error.to_string()))?)
    }

    /// Deletes the counters of a user if they are 0 or as expected.
    pub(super) async fn erase_user_counters(
        &self,
        lease: &Lease,
        uid: &Id,
    ) -> Result<Deletion, Problem> {
        self.store.check_layout()?;
        let locations = self.user_locations(uid);
        let partition = self.store.keys().of_user(uid);
        let log = self.store.keys().log(partition);
        let archives = self.store.layout().archives;
        let mut call = self.user_call(&locations, archives.then_some(&log));
        call.cmd.arg(lease.deadline());
        let mut expected = lease.job.progress.expected.iter();
        for at in &locations {
            let expected = expected.next().map_or("", String::as_str);
            call.cmd.arg(row(at)).arg(expected);
        }
        call.cmd.arg(match archives {
            true => {
                let etype = Name::new(USER).map_err(|e| StoreError::Unexpected(e.to_string()))?;
                let eid = uid.clone();
                Journal::of_erasure(&Entity { etype, eid }).to_json()
            }
            false => String::new(),
        });
        let reply = match call.send(&self.store).await {
            // A rejected append has no effect.
            Err(error) if rejected_by_foreign_last_id(&error) => {
                renumber(&self.store, partition).await?;
                call.send(&self.store).await
            }
            reply => reply,
        };
        Ok(Deletion::decode(reply?)?)
    }

    fn user_call(&self, locations: &[CounterLocation], log: Option<&String>) -> RedisCall {
        let mut keys: Vec<&str> = locations.iter().map(CounterLocation::key).collect();
        keys.extend(log.map(String::as_str));
        RedisCall::script(USER_COUNTERS.on(self.store.backend()), &keys)
    }
}
