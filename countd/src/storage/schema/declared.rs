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
/// A stored schema has other counters, or the server is unavailable.
pub async fn create_or_extend(store: &Store, config: &Config) -> Result<(), ConnectError> {
    let schemas = Schemas::new(store.clone());
    for (id, declared) in &config.schemas {
        if !config.has_default_schemas || !exists(&schemas, id).await? {
            schemas.set_or_extend(id, &declared.counters).await?;
        }
    }
    for (etype, entity) in &config.entities {
        let id = &entity.schema;
        if !exists(&schemas, id).await? {
            tracing::warn!(schema = %id, %etype, "no such schema: requests for these entities get 503 until `countd schema set` creates it");
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
