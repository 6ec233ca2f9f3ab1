//! The steps that are run before their entry is committed: new authors, and deleted counters.

use super::state::Replay;
use super::step::Before;
use crate::domain::config::USER;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::CounterLocation;
use crate::redis::call::RedisCall;
use crate::redis::script::ScriptTemplate;
use std::collections::BTreeSet;

/// Deletes counters.
pub(super) static DELETE: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../../lua/counters_delete.lua")]);

impl Replay {
    /// Runs a step. It may be run again.
    pub(super) async fn run(&self, before: Before) -> Result<(), Problem> {
        match before {
            Before::SetAuthor(entity, author) => {
                self.authors.put(&entity, author.as_ref()).await?;
            }
            Before::DeleteCounters(entity) => {
                let locations = self.locations(&entity);
                if locations.is_empty() {
                    return Ok(());
                }
                let keys: Vec<&str> = locations.iter().map(CounterLocation::key).collect();
                let mut call = RedisCall::script(DELETE.on(self.store.backend()), &keys);
                for at in &locations {
                    let row = at.row().map(|id| id.to_string());
                    call.cmd.arg(row.unwrap_or_default());
                }
                call.send(&self.store).await?;
            }
        }
        Ok(())
    }

    /// Where counters of an entity or a user may be.
    fn locations(&self, entity: &Entity) -> Vec<CounterLocation> {
        let (keys, config) = (self.store.keys(), &self.catalog.config);
        let mut places = Vec::new();
        if entity.etype.as_str() == USER {
            let table = keys.user_table(keys.of_user(&entity.eid));
            places.push((table, keys.user_counters(&entity.eid)));
        } else {
            let schemas: BTreeSet<&Name> = config.entities.values().map(|e| &e.schema).collect();
            for schema in schemas {
                let table = keys.table(schema, &entity.etype, keys.of_entity(entity));
                places.push((table, keys.counters(schema, entity)));
            }
        }
        let has_tables = self.store.backend().has_tables();
        let row = entity.eid.number().filter(|_| has_tables);
        let mut locations = Vec::new();
        for (table, object) in places {
            locations.extend(row.map(|id| CounterLocation::Row { table, id }));
            locations.push(CounterLocation::Object { key: object });
        }
        locations
    }
}
