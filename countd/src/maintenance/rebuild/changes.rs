//! What entries of the log have changed of counters of entities.

use super::error::RebuildError;
use crate::domain::config::{Config, Count, USER};
use crate::domain::error::SchemaError;
use crate::domain::event::{Cause, Envelope, Event, GroupEvent, Journal};
use crate::domain::event_class::schema_id;
use crate::domain::ids::{Entity, Name};
use crate::log::EntryKind;
use crate::log::archive::{Outcome, Record};
use crate::redis::store::Store;
use crate::repair::{Source, Sources};
use crate::storage::catalog::Catalog;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Changes of a counter, or of all counters of an entity.
#[derive(Clone)]
pub struct Change {
    /// The schema of the counters.
    pub schema: Name,
    /// The entity.
    pub entity: Entity,
    /// The index and the difference of a counter. `None` if all were deleted.
    pub delta: Option<(usize, i64)>,
    /// Of a deletion, if the data has a topic: the offset of the first record that was not counted before.
    pub topic: Option<u64>,
    /// Whether the step that appended the entry has changed them; otherwise the commit that counted it.
    pub at_once: bool,
}

/// The metrics whose counters a rebuild computes. Those that count facts are compared with the facts (`countd reconcile`): events of them
/// may be dead letters.
pub fn rebuilt_metrics(store: &Store, config: &Config) -> BTreeSet<Name> {
    let layout = store.layout();
    let sources = Sources::new(config, &layout);
    let metrics = config.metrics.iter().filter(|(name, settings)| {
        settings.count != Count::Never
            && matches!(sources.of_entity(name), Source::None | Source::Days)
    });
    metrics.map(|(name, _)| name.clone()).collect()
}

/// Finds what entries have changed.
pub struct Changes {
    store: Store,
    catalog: Catalog,
    metrics: BTreeSet<Name>,
    /// The indexes of metrics in schemas.
    indexes: HashMap<(Name, Name), usize>,
}

impl Changes {
    /// Finds changes of the counters of these metrics.
    pub fn new(store: Store, catalog: Catalog, metrics: BTreeSet<Name>) -> Changes {
        Changes {
            store,
            catalog,
            metrics,
            indexes: HashMap::new(),
        }
    }

    /// The index of a metric that is rebuilt, in a schema.
    async fn index(&mut self, schema: &Name, metric: &Name) -> Result<Option<usize>, RebuildError> {
        let (metrics, layout) = (&self.catalog.config.metrics, self.store.layout());
        let name = metrics.resolve(metric.as_str());
        let name = match metrics.get(name) {
            Some(_) => name,
            None => layout.column_name(schema, name),
        };
        let Some(name) = self.metrics.get(name) else {
            return Ok(None);
        };
        let key = (schema.clone(), name.clone());
        if let Some(index) = self.indexes.get(&key) {
            return Ok(Some(*index));
        }
        let schemas = &self.catalog.schemas;
        let found = match schemas.with_name(schema, name.as_str()).await {
            Ok(schema) => schema.index_of(name.as_str()),
            Err(SchemaError::Store(error)) => return Err(error.into()),
            Err(_) => None,
        };
        if let Some(index) = found {
            self.indexes.insert(key, index);
        }
        Ok(found)
    }

    /// What an entry has changed. Entries that were not counted have changed nothing, except for actions that were counted at once.
    pub async fn of(&mut self, record: &Record) -> Result<Vec<Change>, RebuildError> {
        let payload = &record.entry.payload;
        match record.entry.kind {
            EntryKind::Event => {
                let Ok(event) = serde_json::from_slice::<Event>(payload) else {
                    return Ok(Vec::new());
                };
                let has_changed = match record.outcome {
                    // The action has changed the counter even if its event became a dead letter. A retry of it has not.
                    Outcome::Counted | Outcome::Dead if event.counted => event.retried.is_none(),
                    outcome => outcome == Outcome::Counted,
                };
                match has_changed {
                    true => self.of_event(record, event).await,
                    false => Ok(Vec::new()),
                }
            }
            EntryKind::Group => {
                let Ok(group) = serde_json::from_slice::<GroupEvent>(payload) else {
                    return Ok(Vec::new());
                };
                let mut changes = Vec::new();
                for event in group.into_events() {
                    if event.counted || record.outcome == Outcome::Counted {
                        changes.extend(self.of_event(record, event).await?);
                    }
                }
                Ok(changes)
            }
            EntryKind::Envelope if record.outcome == Outcome::Counted => {
                let envelope = serde_json::from_slice::<Envelope<'_>>(payload);
                let event = envelope.ok().and_then(|envelope| envelope.event().ok());
                match event {
                    Some(event) => self.of_event(record, event).await,
                    None => Ok(Vec::new()),
                }
            }
            EntryKind::Journal if record.outcome == Outcome::Counted => {
                match serde_json::from_slice::<Journal>(payload) {
                    Ok(journal) => self.of_journal(record, &journal).await,
                    Err(_) => Ok(Vec::new()),
                }
            }
            _ => Ok(Vec::new()),
        }
    }

    async fn of_event(
        &mut self,
        record: &Record,
        event: Event,
    ) -> Result<Vec<Change>, RebuildError> {
        let home = self.store.keys().of_entity(&event.entity);
        let layout = self.store.layout();
        let schema = schema_id(&event, &self.catalog.config);
        let schema = schema.map(|schema| layout.columns_of(&event.entity.etype, schema).clone());
        // Users have no counters of metrics, whatever a foreign event says.
        let is_of_entity = home == record.partition && event.entity.etype.as_str() != USER;
        let (true, true, Some(schema)) = (is_of_entity, event.is_in_range(), schema) else {
            return Ok(Vec::new());
        };
        let Some(idx) = self.index(&schema, &event.metric).await? else {
            return Ok(Vec::new());
        };
        Ok(vec![Change {
            schema,
            entity: event.entity,
            delta: Some((idx, event.delta)),
            topic: None,
            at_once: event.counted,
        }])
    }

    async fn of_journal(
        &mut self,
        record: &Record,
        journal: &Journal,
    ) -> Result<Vec<Change>, RebuildError> {
        let entity = journal.entity();
        let config = Arc::clone(&self.catalog.config);
        let Some(schema) = config.schema_of(&journal.etype).flatten() else {
            return Ok(Vec::new());
        };
        if self.store.keys().of_entity(&entity) != record.partition {
            return Ok(Vec::new());
        }
        let change = |schema: &Name, delta| Change {
            schema: schema.clone(),
            entity: entity.clone(),
            delta,
            topic: journal.topic,
            at_once: true,
        };
        match journal.why {
            // It has made the counter what the log says.
            Cause::Repair => Ok(Vec::new()),
            Cause::Erase => {
                let schemas: BTreeSet<&Name> =
                    config.entities.values().map(|e| &e.schema).collect();
                Ok(schemas.into_iter().map(|id| change(id, None)).collect())
            }
            Cause::Reset | Cause::Adjust | Cause::Import | Cause::Merge => {
                let mut changes = Vec::new();
                for (metric, delta) in &journal.changes {
                    if let Some(idx) = self.index(schema, metric).await? {
                        changes.push(change(schema, Some((idx, *delta))));
                    }
                }
                Ok(changes)
            }
        }
    }
}
