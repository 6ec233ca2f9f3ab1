//! Which counters of an entity are compared, and where they and their facts are.

use super::source::{Source, Sources};
use crate::domain::config::FactKind;
use crate::domain::error::{SchemaError, StoreError};
use crate::domain::event_class::feeds_author;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::StoragePhase;
use crate::facts::{CardSource, CounterField, FactStores, SplitFacts};
use crate::redis::day::DayNumbers;
use crate::redis::day_states::complete_days;
use crate::redis::layout::Authors;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use crate::storage::locator::Locator;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A counter that can be compared.
#[derive(Debug)]
pub struct PlannedMetric {
    /// The metric.
    pub name: Name,
    /// Whether the consumer changes the counter, which counts facts. Other counters can be compared in any step.
    pub is_batched: bool,
    /// Whether the counter feeds the author of the entity.
    pub feeds_author: bool,
    /// The field of the counter.
    pub idx: usize,
    /// The fact store. Without facts, the total and the days decide.
    kind: Option<FactKind>,
    /// Whether the counter has counts by day.
    is_daily: bool,
}

impl PlannedMetric {
    /// Whether the counter counts facts.
    pub fn has_facts(&self) -> bool {
        self.kind.is_some()
    }
}

/// The counters of the entities of a type that can be compared.
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
    catalog: Catalog,
    store: Store,
    locator: Locator,
    stores: FactStores,
    plans: HashMap<Name, Option<Arc<TypePlan>>>,
    /// The metrics of which all counts are known by day.
    daily: Option<HashSet<Name>>,
}

impl Planner {
    /// A planner for the current layout.
    pub fn new(catalog: &Catalog, store: &Store) -> Planner {
        let shards = catalog.config.facts.shards;
        Planner {
            locator: Locator::of(store),
            stores: FactStores::new(store.keys(), store.current_backend(), shards),
            catalog: catalog.clone(),
            store: store.clone(),
            plans: HashMap::new(),
            daily: None,
        }
    }

    /// Plans again if the layout has changed.
    pub fn follow_layout(&mut self) {
        if !Arc::ptr_eq(&self.store.layout(), self.locator.layout()) {
            *self = Planner::new(&self.catalog, &self.store);
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
        if self.daily.is_none() {
            self.daily = Some(complete_days(&self.store).await?);
        }
        let plan = self.plan(etype).await?.map(Arc::new);
        self.plans.insert(etype.clone(), plan.clone());
        Ok(plan)
    }

    async fn plan(&self, etype: &Name) -> Result<Option<TypePlan>, StoreError> {
        let config = &self.catalog.config;
        let layout = self.locator.layout();
        let Some(id) = config.schema_of(etype).flatten() else {
            return Ok(None);
        };
        if layout.storage_of(etype) == StoragePhase::Moving {
            return Ok(None);
        }
        let schema = match self.catalog.schemas.get(id).await {
            Ok(schema) => schema,
            Err(SchemaError::Store(error)) => return Err(error),
            // There is no schema yet, so there are no counters.
            Err(_) => return Ok(None),
        };
        let sources = Sources::new(config, layout);
        let has_registry = layout.authors != Authors::Event;
        let metrics = config.metrics.iter().filter_map(|(name, metric)| {
            // Until what was counted before is known by day, the total and the days are behind the counter.
            let daily = self.daily.as_ref();
            if metric.daily && !daily.is_some_and(|daily| daily.contains(name)) {
                return None;
            }
            let (kind, is_batched) = match sources.of_entity(name) {
                Source::Facts(kind) => (Some(kind), false),
                Source::FactsBatched(kind) => (Some(kind), true),
                Source::Days => (None, false),
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
                is_daily: metric.daily,
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

    /// Where the facts of a counter are, if it counts facts.
    pub fn source(&self, metric: &PlannedMetric, entity: &Entity) -> Option<CardSource> {
        let (kind, name) = (metric.kind?, &metric.name);
        let state = self.locator.layout().split_of(entity);
        // Only metrics whose counters change with their facts are split.
        let state = state.filter(|_| !metric.is_batched).map(|state| &**state);
        let splits = SplitFacts::new(self.store.keys(), self.stores.clone());
        Some(splits.counted_source((name, kind), entity, state))
    }

    /// The counts by day of a counter, if it has any.
    pub fn days(&self, metric: &PlannedMetric, entity: &Entity) -> Option<DayNumbers> {
        let layout = (self.store.keys(), self.store.backend());
        metric
            .is_daily
            .then(|| DayNumbers::new(layout, &metric.name, entity))
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
