//! The schemas of the configuration.

use super::store::Schemas;
use crate::domain::config::Config;
use crate::domain::error::{ConnectError, SchemaError};
use crate::domain::ids::Name;
use crate::redis::store::Store;

/// Creates the schemas of the configuration, and appends the counters that stored ones lack. The default schema is only created: data of
/// other versions of the configuration may have another one with its ID. Warns of entity types whose schema does not exist.
///
/// # Errors
/// A stored schema has other counters, a metric would have the counter of another one, or the server is unavailable.
pub async fn create_or_extend(store: &Store, config: &Config) -> Result<(), ConnectError> {
    let schemas = Schemas::new(store.clone());
    for (id, declared) in &config.schemas {
        if !config.has_default_schemas || !exists(&schemas, id).await? {
            schemas.set_or_extend(id, &declared.counters).await?;
            schemas.append_to_columns(id).await?;
        }
    }
    check_metrics(&schemas, config).await?;
    for (etype, entity) in &config.entities {
        let id = &entity.schema;
        if !exists(&schemas, id).await? {
            tracing::warn!(schema = %id, %etype, "no such schema: requests for these entities get 503 until `countd schema set` creates it");
        }
    }
    Ok(())
}

/// Checks that no metric has the counter of another one, which a migration of the schema has renamed: its facts, counts by day and credits
/// have the name of that one.
async fn check_metrics(schemas: &Schemas, config: &Config) -> Result<(), ConnectError> {
    for (etype, entity) in &config.entities {
        // Without the schema there are no counters yet.
        let Ok(schema) = schemas.get(&entity.schema).await else {
            continue;
        };
        for (name, metric) in config.metrics.iter() {
            let counter = schema
                .index_of(name.as_str())
                .map(|idx| &schema.names()[idx]);
            let Some(counter) = counter.filter(|counter| *counter != name) else {
                continue;
            };
            if metric.applies_to(etype) && metric.is_bound_to_name() {
                return Err(ConnectError::Schema(format!(
                    "metrics.{name}: a migration of schema {} has renamed the counter {counter} to {name}, but facts, counts by day and counters of users keep the name of their metric: configure it as {counter}",
                    entity.schema
                )));
            }
        }
    }
    Ok(())
}

async fn exists(schemas: &Schemas, id: &Name) -> Result<bool, SchemaError> {
    match schemas.refresh(id).await {
        Err(SchemaError::Missing(_)) => Ok(false),
        // Requests and `countd check` report damage.
        Err(SchemaError::Damaged(..)) | Ok(_) => Ok(true),
        Err(error) => Err(error),
    }
}
