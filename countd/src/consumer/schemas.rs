//! The schemas that the events of a batch are counted by.

use super::aggregator::{DecodedEntry, is_to_count, schema_id};
use crate::domain::error::SchemaError;
use crate::domain::error::StoreError;
use crate::domain::event::Event;
use crate::domain::ids::Name;
use crate::storage::catalog::Catalog;
use crate::storage::schema::Schema;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The schemas of a batch. Those that lack a name of it are asked for again, once.
pub async fn schemas(
    catalog: &Catalog,
    events: &[DecodedEntry],
) -> Result<HashMap<Name, Arc<Schema>>, StoreError> {
    // Most have the same few metrics.
    let mut sorts: Vec<&Event> = Vec::new();
    for event in events {
        if let DecodedEntry::Event(event, _) = event
            && !sorts.iter().any(|sort| is_alike(sort, event))
        {
            sorts.push(event);
        }
    }
    let mut names: HashMap<&Name, HashSet<&str>> = HashMap::new();
    for event in sorts {
        if is_to_count(event, &catalog.config)
            && let Some(id) = schema_id(event, &catalog.config)
        {
            let name = catalog.config.metrics.resolve(event.metric.as_str());
            names.entry(id).or_default().insert(name);
        }
    }
    let mut found = HashMap::with_capacity(names.len());
    for (id, names) in names {
        let schema = match catalog.schemas.cached(id) {
            Some(schema) if names.iter().all(|name| schema.index_of(name).is_some()) => Ok(schema),
            _ => catalog.schemas.refresh(id).await,
        };
        match schema {
            Ok(schema) => {
                found.insert(id.clone(), schema);
            }
            Err(SchemaError::Store(why)) => return Err(why),
            Err(why) => tracing::warn!(schema = %id, error = %why, "no schema"),
        }
    }
    Ok(found)
}

fn is_alike(one: &Event, other: &Event) -> bool {
    one.counted == other.counted
        && one.metric == other.metric
        && one.entity.etype == other.entity.etype
        && one.schema == other.schema
}
