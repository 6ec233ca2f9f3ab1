//! Loads the schemas by which events are counted.

use super::decoder::DecodedEntry;
use crate::domain::error::{SchemaError, StoreError};
use crate::domain::event_class::{EventClassCache, has_entity_counter, schema_id};
use crate::domain::ids::Name;
use crate::storage::catalog::Catalog;
use crate::storage::schema::Schema;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Returns the schemas of these entries. A cached schema that lacks one of their metrics is loaded again, once. Schemas that do not
/// exist are omitted.
///
/// # Errors
/// The store is unavailable.
pub async fn load_schemas(
    catalog: &Catalog,
    entries: &[DecodedEntry],
) -> Result<HashMap<Name, Arc<Schema>>, StoreError> {
    let config = &catalog.config;
    let mut metrics: HashMap<&Name, HashSet<&str>> = HashMap::new();
    let mut classes = EventClassCache::new();
    for entry in entries {
        if let DecodedEntry::Event(event, _) = entry
            && !event.counted
        {
            classes.get_or_insert_with(event, || {
                if has_entity_counter(&event.metric, config)
                    && let Some(id) = schema_id(event, config)
                {
                    let metric = config.metrics.resolve(event.metric.as_str());
                    metrics.entry(id).or_default().insert(metric);
                }
            });
        }
    }
    let mut schemas = HashMap::with_capacity(metrics.len());
    for (id, metrics) in metrics {
        let has_all = |schema: &Arc<Schema>| metrics.iter().all(|m| schema.index_of(m).is_some());
        let schema = match catalog.schemas.cached(id).filter(has_all) {
            Some(schema) => Ok(schema),
            None => catalog.schemas.refresh(id).await,
        };
        match schema {
            Ok(schema) => {
                schemas.insert(id.clone(), schema);
            }
            Err(SchemaError::Store(error)) => return Err(error),
            Err(error) => tracing::warn!(schema = %id, %error, "schema not found"),
        }
    }
    Ok(schemas)
}
