//! What a request for a page reads of the entities of each type.

use super::reads::Queries;
use super::selection::FieldSelection;
use crate::domain::config::Nature;
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Id, Name};
use crate::facts::{FactStore, FactStores};
use crate::storage::catalog::Catalog;

/// A request for a page.
pub(super) struct Request<'a> {
    pub(super) uid: &'a Id,
    /// The requested metrics; by default, all of each entity's type.
    pub(super) metrics: Option<&'a [String]>,
    pub(super) has_counters: bool,
    pub(super) trace_id: &'a str,
}

/// What to read of the entities of one type.
pub(super) struct Selection<'a> {
    pub(super) etype: &'a Name,
    /// The counters; `None` for no counters.
    pub(super) counters: Option<FieldSelection>,
    /// The *once* metrics whose facts are read, each once, and their stores.
    pub(super) facts: Vec<(&'a Name, &'a dyn FactStore)>,
    /// *Once* metrics that no user with such an ID can have performed.
    pub(super) impossible: Vec<Name>,
}

/// What to read of the entities of a page.
pub(super) struct SelectedPage<'a> {
    /// Of each type.
    pub(super) selections: Vec<Selection<'a>>,
    /// The number of the selection of each entity.
    pub(super) indexes: Vec<usize>,
}

impl SelectedPage<'_> {
    /// The number of entities of which a fact is read from Redis, if `absent` says which facts are known not to exist. Without it, all facts are
    /// read, and the number is at least 1.
    pub(super) fn entities_to_read(&self, absent: Option<&[bool]>) -> usize {
        let Some(absent) = absent else {
            return self.indexes.len().max(1);
        };
        let mut absent = absent.iter();
        let is_read = |index: &&usize| {
            let facts = self.selections[**index].facts.len();
            let of_entity = absent.by_ref().take(facts);
            // All of the entity are taken, whichever of them is read.
            of_entity.fold(false, |is_read, absent| is_read | !absent)
        };
        self.indexes.iter().filter(is_read).count()
    }
}

/// Selects what pages read. Cheap to clone.
#[derive(Clone)]
pub(super) struct PageSelector {
    catalog: Catalog,
    facts: FactStores,
    queries: Queries,
}

impl PageSelector {
    /// Uses the metrics of `catalog`; `queries` looks up the fields of counters.
    pub(super) fn new(catalog: Catalog, facts: FactStores, queries: Queries) -> PageSelector {
        PageSelector {
            catalog,
            facts,
            queries,
        }
    }

    /// What a request reads of entities.
    ///
    /// # Errors
    /// An entity type or a metric is unknown or of the wrong kind, or a schema cannot be read.
    pub(super) async fn select_page<'a>(
        &'a self,
        entities: &'a [Entity],
        request: &Request<'_>,
    ) -> Result<SelectedPage<'a>, Problem> {
        let (mut selections, mut indexes) = (Vec::<Selection>::new(), Vec::new());
        for entity in entities {
            // A page has few entity types.
            let mut known = selections.iter();
            let index = match known.position(|selection| *selection.etype == entity.etype) {
                Some(index) => index,
                None => {
                    selections.push(self.select(entity, request).await?);
                    selections.len() - 1
                }
            };
            indexes.push(index);
        }
        Ok(SelectedPage {
            selections,
            indexes,
        })
    }

    /// What a request reads of the entities of this entity's type.
    async fn select<'a>(
        &'a self,
        entity: &'a Entity,
        request: &Request<'_>,
    ) -> Result<Selection<'a>, Problem> {
        self.catalog.schema_id(&entity.etype)?;
        let mut selection = Selection {
            etype: &entity.etype,
            counters: None,
            facts: Vec::new(),
            impossible: Vec::new(),
        };
        match request.metrics {
            None => self.select_all(&mut selection, (entity, request)).await?,
            Some(metrics) if request.has_counters => {
                let counters = self.select_named(&mut selection, (entity, metrics), request.uid);
                let counters = counters.await?;
                if !counters.is_empty() {
                    let fields = self.queries.select_fields(entity, &counters).await?;
                    selection.counters = Some(fields);
                }
            }
            Some(metrics) => {
                for metric in metrics {
                    self.add_facts(&mut selection.facts, metric, request.uid)?;
                }
            }
        }
        Ok(selection)
    }

    /// Selects the *once* metrics of a type and, if they are requested, all counters.
    async fn select_all<'a>(
        &'a self,
        selection: &mut Selection<'a>,
        (entity, request): (&Entity, &Request<'_>),
    ) -> Result<(), Problem> {
        for (name, metric) in self.catalog.config.metrics.iter() {
            if metric.nature != Nature::Once || !metric.applies_to(&entity.etype) {
                continue;
            }
            let facts = self.facts.require(name, metric)?;
            match facts.check_uid(request.uid) {
                Ok(()) => selection.facts.push((name, facts)),
                Err(_) => selection.impossible.push(name.clone()),
            }
        }
        if request.has_counters {
            selection.counters = Some(self.queries.select_fields(entity, &[]).await?);
        }
        Ok(())
    }

    /// Selects the facts of a list of metrics. Returns the metrics whose counters are read.
    async fn select_named<'a>(
        &'a self,
        selection: &mut Selection<'a>,
        (entity, metrics): (&Entity, &[String]),
        uid: &Id,
    ) -> Result<Vec<String>, Problem> {
        let mut counters = Vec::new();
        let (_, schema) = self.catalog.schema(entity).await?;
        for requested in metrics {
            let metric = self.catalog.config.metrics.get(requested);
            let name = metric.map_or(requested.as_str(), |(name, _)| name.as_str());
            let once = metric.is_some_and(|(_, metric)| metric.nature == Nature::Once);
            if once {
                self.add_facts(&mut selection.facts, requested, uid)?;
            }
            // A schema may have been extended; reading the counter reports a name that it does not have.
            if !once || schema.served_index_of(name).is_some() {
                counters.push(requested.clone());
            }
        }
        Ok(counters)
    }

    /// Adds the facts of a metric, once for all of its names.
    pub(super) fn add_facts<'a>(
        &'a self,
        facts: &mut Vec<(&'a Name, &'a dyn FactStore)>,
        metric: &str,
        uid: &Id,
    ) -> Result<(), Problem> {
        let (name, metric) = self.catalog.metric(metric)?;
        // There are at most as many as configured metrics.
        if !facts.iter().any(|(known, _)| *known == name) {
            let store = self.facts.require(name, metric)?;
            store.check_uid(uid)?;
            facts.push((name, store));
        }
        Ok(())
    }
}
