//! Which counters of an entity are compared, and where they and their facts are.

use super::context::Context;
use crate::domain::config::FactKind;
use crate::domain::error::{SchemaError, StoreError};
use crate::domain::event_class::feeds_author;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::StoragePhase;
use crate::facts::{CardSource, CounterField, FactStores};
use crate::redis::layout::Authors;
use crate::repair::{Source, Sources};
use crate::storage::locator::Locator;
use std::collections::HashMap;
use std::sync::Arc;

/// A counter that counts facts.
#[derive(Debug)]
pub struct PlannedMetric {
    /// The metric.
    pub name: Name,
    /// Whether the consumer changes the counter. Otherwise it changes with the fact.
    pub is_batched: bool,
    /// Whether the counter feeds the author of the entity.
    pub feeds_author: bool,
    /// The field of the counter.
    pub idx: usize,
    kind: FactKind,
}

/// The counters of the entities of a type that count facts.
#[derive(Debug)]
pub struct TypePlan {
    /// The schema of the entities.
    pub schema: Name,
    /// The number of their counters.
    pub len: usize,
    min_len: usize,
    /// The counters. At least one.
    pub metrics: Vec<PlannedMetric>,
}

/// The plans of all types, by the layout and the schemas of the moment at which it is created.
pub struct Planner {
    context: Context,
    locator: Locator,
    stores: FactStores,
    plans: HashMap<Name, Option<Arc<TypePlan>>>,
}

impl Planner {
    /// A planner for the current layout.
    pub fn new(context: &Context) -> Planner {
        let store = &context.store;
        let shards = context.catalog.config.facts.shards;
        Planner {
            locator: Locator::of(store),
            stores: FactStores::new(store.keys(), store.backend(), shards),
            context: context.clone(),
            plans: HashMap::new(),
        }
    }

    /// Where counters are.
    pub fn locator(&self) -> &Locator {
        &self.locator
    }

    /// The plan of a type. `None` if entities of the type have no such counters, or a migration moves them.
    ///
    /// # Errors
    /// The schema cannot be read.
    pub async fn of_type(&mut self, etype: &Name) -> Result<Option<Arc<TypePlan>>, StoreError> {
        if let Some(plan) = self.plans.get(etype) {
            return Ok(plan.clone());
        }
        let plan = self.plan(etype).await?.map(Arc::new);
        self.plans.insert(etype.clone(), plan.clone());
        Ok(plan)
    }

    async fn plan(&self, etype: &Name) -> Result<Option<TypePlan>, StoreError> {
        let config = &self.context.catalog.config;
        let layout = self.locator.layout();
        let Some(id) = config.schema_of(etype).flatten() else {
            return Ok(None);
        };
        if layout.storage_of(etype) == StoragePhase::Moving {
            return Ok(None);
        }
        let schema = match self.context.catalog.schemas.get(id).await {
            Ok(schema) => schema,
            Err(SchemaError::Store(error)) => return Err(error),
            // There is no schema yet, so there are no counters.
            Err(_) => return Ok(None),
        };
        let sources = Sources::new(config, layout);
        let has_registry = layout.authors != Authors::Event;
        let metrics = config.metrics.iter().filter_map(|(name, metric)| {
            // A correction has to change the total and the days in the same step (`repair::days`).
            if metric.daily {
                return None;
            }
            let (kind, is_batched) = match sources.of_entity(name) {
                Source::Facts(kind) => (kind, false),
                Source::FactsBatched(kind) => (kind, true),
                Source::None => return None,
            };
            Some(PlannedMetric {
                idx: schema
                    .index_of(name.as_str())
                    .filter(|_| metric.applies_to(etype))?,
                name: name.clone(),
                is_batched,
                feeds_author: has_registry && feeds_author(name, config),
                kind,
            })
        });
        let metrics: Vec<PlannedMetric> = metrics.collect();
        Ok((!metrics.is_empty()).then(|| TypePlan {
            schema: id.clone(),
            len: schema.len(),
            min_len: schema.min_len(),
            metrics,
        }))
    }

    /// Where the facts of a counter are.
    pub fn source(&self, metric: &PlannedMetric, entity: &Entity) -> CardSource {
        self.stores
            .get(metric.kind)
            .card_source(&metric.name, entity)
    }

    /// A counter of an entity.
    pub fn field(&self, plan: &TypePlan, metric: &PlannedMetric, entity: &Entity) -> CounterField {
        CounterField {
            at: self.locator.entity(&plan.schema, entity),
            idx: metric.idx,
            len: plan.len,
            min_len: plan.min_len,
            verify: false,
        }
    }
}
