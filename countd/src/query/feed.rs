//! Pages of entities: the counters and a user's statuses of each, where a damaged key fails its own entity only.

use super::reads::{Counts, Queries};
use super::status::{Status, StatusFormat};
use crate::domain::config::Nature;
use crate::domain::error::{ErrorCode, Problem};
use crate::domain::ids::{Entity, Id, Name};
use crate::facts::FactStores;
use crate::storage::catalog::Catalog;
use futures_util::future::{join, join_all};
use std::collections::BTreeMap;

/// The counters of an entity and a user's status on it.
pub type FeedItem = (Counts, Status);

/// A result for each entity, in order. The outer error concerns the request.
pub type Page<T> = Result<Vec<Result<T, Problem>>, Problem>;

/// Reads pages. Cheap to clone.
#[derive(Clone)]
pub struct Pages {
    catalog: Catalog,
    facts: FactStores,
    queries: Queries,
}

/// The metrics to read for the entities of one type.
struct Selection {
    /// The metrics whose counters are read; `None` for no counters, empty for all.
    counters: Option<Vec<String>>,
    /// The *once* metrics whose facts are read.
    facts: Vec<String>,
    /// *Once* metrics that no user with such an ID can have performed.
    impossible: Vec<Name>,
}

impl Pages {
    /// Uses the metrics of `catalog`, and reads with `queries`.
    pub fn new(catalog: Catalog, facts: FactStores, queries: Queries) -> Pages {
        Pages {
            catalog,
            facts,
            queries,
        }
    }

    /// A user's statuses on entities: of `metrics`, or of all *once* metrics of each entity's type.
    ///
    /// # Errors
    /// As [`Queries::statuses`], except for damaged keys.
    pub async fn statuses(
        &self,
        entities: &[Entity],
        uid: &Id,
        metrics: Option<&[String]>,
    ) -> Page<Status> {
        if let Some(metrics) = metrics {
            return self.read_statuses(entities, uid, metrics, &[]).await;
        }
        let request = Request {
            uid,
            metrics: None,
            has_counters: false,
        };
        let items = self.read_page(entities, &request).await?.into_iter();
        Ok(items.map(|item| item.map(|(_, status)| status)).collect())
    }

    /// The counters of entities and a user's statuses on them. `metrics` selects both; by default, all counters of the schemas and all
    /// *once* metrics of each entity's type are read.
    ///
    /// # Errors
    /// There are too many entities, an entity type or metric is unknown, or Redis failed.
    pub async fn feed(
        &self,
        entities: &[Entity],
        uid: &Id,
        metrics: Option<&[String]>,
    ) -> Page<FeedItem> {
        let request = Request {
            uid,
            metrics,
            has_counters: true,
        };
        self.read_page(entities, &request).await
    }

    /// Reads the entities of each type at the same time. Returns the results in the order of `entities`.
    async fn read_page(&self, entities: &[Entity], request: &Request<'_>) -> Page<FeedItem> {
        let max = self.catalog.config.http.max_batch;
        if entities.len() > max {
            return Err(Problem::TooMany(max));
        }
        let Some(first) = entities.first() else {
            return Ok(Vec::new());
        };
        if entities.iter().all(|entity| entity.etype == first.etype) {
            return self.read_type(entities, request).await;
        }
        let mut groups: BTreeMap<&Name, (Vec<usize>, Vec<Entity>)> = BTreeMap::new();
        for (index, entity) in entities.iter().enumerate() {
            let (indexes, group) = groups.entry(&entity.etype).or_default();
            indexes.push(index);
            group.push(entity.clone());
        }
        let groups: Vec<(Vec<usize>, Vec<Entity>)> = groups.into_values().collect();
        let mut reads = Vec::with_capacity(groups.len());
        for (_, group) in &groups {
            reads.push(self.read_type(group, request));
        }
        let mut items = Vec::with_capacity(entities.len());
        for ((indexes, _), page) in groups.iter().zip(join_all(reads).await) {
            items.extend(indexes.iter().zip(page?));
        }
        items.sort_by_key(|(index, _)| **index);
        Ok(items.into_iter().map(|(_, item)| item).collect())
    }

    /// Reads entities of one type, at least one.
    async fn read_type(&self, entities: &[Entity], request: &Request<'_>) -> Page<FeedItem> {
        let mut selection = match request.metrics {
            None => self.all_facts(&entities[0].etype, request.uid)?,
            Some(metrics) => self.select(&entities[0], request.uid, metrics).await?,
        };
        if !request.has_counters {
            selection.counters = None;
        }
        self.read_selection(entities, request.uid, &selection).await
    }

    /// All counters of a type, and its *once* metrics.
    fn all_facts(&self, etype: &Name, uid: &Id) -> Result<Selection, Problem> {
        self.catalog.schema_id(etype)?;
        let mut selection = Selection {
            counters: Some(Vec::new()),
            facts: Vec::new(),
            impossible: Vec::new(),
        };
        for (name, metric) in self.catalog.config.metrics.iter() {
            if metric.nature != Nature::Once || !metric.applies_to(etype) {
                continue;
            }
            match self.facts.require(name, metric)?.check_uid(uid) {
                Ok(()) => selection.facts.push(name.to_string()),
                Err(_) => selection.impossible.push(name.clone()),
            }
        }
        Ok(selection)
    }

    /// The counters and facts that a list of metrics selects for the type of an entity.
    async fn select(
        &self,
        entity: &Entity,
        uid: &Id,
        metrics: &[String],
    ) -> Result<Selection, Problem> {
        let (mut counters, mut facts) = (Vec::new(), Vec::new());
        let (_, schema) = self.catalog.schema(entity).await?;
        for requested in metrics {
            let metric = self.catalog.config.metrics.get(requested);
            let name = metric.map_or(requested.as_str(), |(name, _)| name.as_str());
            let once = metric.is_some_and(|(_, metric)| metric.nature == Nature::Once);
            if let (true, Some((name, metric))) = (once, metric) {
                self.facts.require(name, metric)?.check_uid(uid)?;
                facts.push(name.to_string());
            }
            // A schema may have been extended; reading the counter reports a name that it does not have.
            if !once || schema.index_of(name).is_some() {
                counters.push(requested.clone());
            }
        }
        Ok(Selection {
            counters: (!counters.is_empty()).then_some(counters),
            facts,
            impossible: Vec::new(),
        })
    }

    /// Reads the counters and the facts at the same time.
    async fn read_selection(
        &self,
        entities: &[Entity],
        uid: &Id,
        selection: &Selection,
    ) -> Page<FeedItem> {
        let counters = async {
            match &selection.counters {
                None => Ok(entities.iter().map(|_| Ok(Counts::default())).collect()),
                Some(metrics) => self.queries.counters(entities, metrics).await,
            }
        };
        let impossible = &selection.impossible;
        let statuses = async {
            match selection.facts.is_empty() {
                true => {
                    let status = StatusFormat::new(Vec::new(), impossible).status(&[]);
                    Ok(entities.iter().map(|_| Ok(status.clone())).collect())
                }
                false => {
                    let facts = &selection.facts;
                    self.read_statuses(entities, uid, facts, impossible).await
                }
            }
        };
        let (counters, statuses): (Page<Counts>, Page<Status>) = join(counters, statuses).await;
        let items = counters?.into_iter().zip(statuses?);
        Ok(items
            .map(|(counts, status)| Ok((counts?, status?)))
            .collect())
    }

    async fn read_statuses(
        &self,
        entities: &[Entity],
        uid: &Id,
        metrics: &[String],
        unperformed: &[Name],
    ) -> Page<Status> {
        let queries = &self.queries;
        match queries.statuses(entities, uid, metrics, unperformed).await {
            Ok(items) => Ok(items.into_iter().map(Ok).collect()),
            Err(problem) if is_damaged(&problem) => {
                let mut reads = Vec::with_capacity(entities.len());
                for entity in entities {
                    let entity = std::slice::from_ref(entity);
                    reads.push(queries.statuses(entity, uid, metrics, unperformed));
                }
                each(join_all(reads).await)
            }
            Err(problem) => Err(problem),
        }
    }
}

/// A request for a page.
struct Request<'a> {
    uid: &'a Id,
    metrics: Option<&'a [String]>,
    has_counters: bool,
}

fn is_damaged(problem: &Problem) -> bool {
    problem.code() == ErrorCode::Damaged
}

/// The results of reading each entity by itself. Any error but a damaged key fails the request.
fn each<T>(reads: Vec<Result<Vec<T>, Problem>>) -> Page<T> {
    let mut items = Vec::with_capacity(reads.len());
    for read in reads {
        match read {
            Ok(read) => items.extend(read.into_iter().map(Ok)),
            Err(problem) if is_damaged(&problem) => items.push(Err(problem)),
            Err(problem) => return Err(problem),
        }
    }
    Ok(items)
}
