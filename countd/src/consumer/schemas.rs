//! Loads the schemas by which events are counted.

use super::decoder::DecodedEntry;
use crate::domain::config::Config;
use crate::domain::error::{SchemaError, StoreError};
use crate::domain::event::{Event, MAX_CHECKS};
use crate::domain::event_class::{EventClassCache, has_entity_counter, schema_id};
use crate::domain::ids::Name;
use crate::storage::catalog::Catalog;
use crate::storage::schema::{Schema, user_schema_id};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The schemas that the events of a class need.
#[derive(Clone, Copy)]
struct ClassSchemas<'a> {
    /// The name of the metric.
    metric: &'a str,
    /// The schema of the counter that an uncounted event changes.
    counted_by: Option<&'a Name>,
    /// The schema of the counters that feed the author of the entity.
    credits_by: Option<&'a Name>,
}

fn class_schemas<'a>(event: &'a Event, config: &'a Config) -> ClassSchemas<'a> {
    let has_counter = has_entity_counter(&event.metric, config);
    ClassSchemas {
        metric: config.metrics.resolve(event.metric.as_str()),
        counted_by: schema_id(event, config).filter(|_| has_counter),
        credits_by: config.schema_of(&event.entity.etype).flatten(),
    }
}

/// Returns the schema of the counters of users. It is loaded, once, if one of these entries names a counter that the cached one lacks:
/// another process may have appended it.
///
/// # Errors
/// The store is unavailable, or the schema is damaged.
pub async fn load_user_schema(
    catalog: &Catalog,
    entries: &[DecodedEntry],
) -> Result<Arc<Schema>, StoreError> {
    let has_all = |schema: &Arc<Schema>| {
        entries.iter().all(|entry| match entry {
            DecodedEntry::Derived(derived) => {
                let mut counters = derived.adds.iter().map(|(_, counter, _)| counter);
                counters.all(|counter| schema.index_of(counter.as_str()).is_some())
            }
            _ => true,
        })
    };
    let id = user_schema_id();
    if let Some(schema) = catalog.schemas.cached(id).filter(has_all) {
        return Ok(schema);
    }
    match catalog.schemas.refresh(id).await {
        Ok(schema) => Ok(schema),
        Err(SchemaError::Store(error)) => Err(error),
        Err(error) => Err(StoreError::Unexpected(error.to_string())),
    }
}

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
        if let Some(event) = entry.first_event() {
            let of_class = classes.get_or_insert_with(event, || class_schemas(event, config));
            let ClassSchemas {
                metric,
                counted_by,
                credits_by,
            } = *of_class;
            if let Some(id) = counted_by.filter(|_| !event.counted) {
                metrics.entry(id).or_default().insert(metric);
            }
            if let Some(id) = credits_by {
                metrics.entry(id).or_default();
            }
        }
        match entry {
            DecodedEntry::Check(check) => {
                if let Some(id) = config.schema_of(&check.etype).flatten() {
                    let checked = metrics.entry(id).or_default();
                    let names = check.checks.iter().take(MAX_CHECKS);
                    checked
                        .extend(names.map(|(metric, _)| config.metrics.resolve(metric.as_str())));
                }
            }
            // The counters of the entity are compared with what its author was credited with.
            DecodedEntry::Author(new) => {
                if let Some(id) = config.schema_of(&new.entity.etype).flatten() {
                    metrics.entry(id).or_default();
                }
            }
            DecodedEntry::Journal(journal) | DecodedEntry::JournalToApply(journal) => {
                if let Some(id) = config.schema_of(&journal.etype).flatten() {
                    let changes = journal.changes.iter();
                    let metrics = metrics.entry(id).or_default();
                    metrics.extend(changes.map(|(counter, _)| counter.as_str()));
                }
            }
            _ => {}
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
