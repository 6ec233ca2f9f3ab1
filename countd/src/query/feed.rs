//! Pages of entities: the counters and a user's statuses of each, where a damaged key fails its own entity only.

use super::cached_page::CachedPage;
use super::counts::Counts;
use super::fact_reads::FactReads;
use super::page_selection::{PageSelector, Request, SelectedPage};
use super::prefilter::Prefilter;
use super::reads::Queries;
use super::split_fact::SplitFact;
use super::status::{Status, StatusFormat};
use super::suspects::rebuild_lost;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Id};
use crate::facts::{Fact, FactStores};
use crate::storage::catalog::Catalog;
use std::sync::Arc;

/// The counters of an entity and a user's status on it.
pub type FeedItem = (Counts, Status);

/// A result for each entity, in order. The outer error concerns the request.
pub type Page<T> = Result<Vec<Result<T, Problem>>, Problem>;

/// Reads pages. Cheap to clone.
#[derive(Clone)]
pub struct Pages {
    selector: PageSelector,
    queries: Queries,
    prefilter: Prefilter,
}

impl Pages {
    /// Uses the metrics of `catalog`, and reads with `queries`. `prefilter` answers statuses.
    pub fn new(
        catalog: Catalog,
        facts: FactStores,
        queries: Queries,
        prefilter: Prefilter,
    ) -> Pages {
        Pages {
            prefilter,
            selector: PageSelector::new(catalog, facts, queries.clone()),
            queries,
        }
    }

    /// A user's statuses on entities: of `metrics`, or of all *once* metrics of each entity's type. `charge` is called with the number of entities
    /// whose statuses are read from Redis, before they are read; the prefilter has answered the others. If it answers none, it is at least 1.
    ///
    /// # Errors
    /// There are too many entities, an entity type or metric is unknown, a metric is repeatable, `charge` or Redis failed.
    pub async fn statuses<F: Future<Output = Result<(), Problem>>>(
        &self,
        entities: &[Entity],
        (uid, metrics): (&Id, Option<&[String]>),
        charge: impl FnOnce(usize) -> F,
    ) -> Page<Status> {
        self.queries.check_batch_size(entities.len())?;
        // Metrics are checked without an entity, too.
        if let Some(metrics) = metrics {
            let mut facts = Vec::new();
            for metric in metrics {
                self.selector.add_facts(&mut facts, metric, uid)?;
            }
            if facts.is_empty() {
                let problem = "metrics: at least one is required".to_owned();
                return Err(Problem::Malformed(problem));
            }
        }
        let request = Request {
            uid,
            metrics,
            has_counters: false,
            trace_id: "-",
        };
        let selected = self.selector.select_page(entities, &request).await?;
        let absent = self.absent(entities, &selected, uid).await;
        charge(selected.entities_to_read(absent.as_deref())).await?;
        let page = (entities, &selected, absent.as_deref());
        let items = self.read_page(page, &request).await?.into_iter();
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
        trace_id: &str,
    ) -> Page<FeedItem> {
        let request = Request {
            uid,
            metrics,
            has_counters: true,
            trace_id,
        };
        self.queries.check_batch_size(entities.len())?;
        let selected = self.selector.select_page(entities, &request).await?;
        // Counters are read from Redis in any case.
        self.read_page((entities, &selected, None), &request).await
    }

    /// Reads a page in one pipeline, without the facts that are known not to exist (`absent`). Returns the results in the order of `entities`.
    async fn read_page(
        &self,
        (entities, selected, absent): (&[Entity], &SelectedPage<'_>, Option<&[bool]>),
        request: &Request<'_>,
    ) -> Page<FeedItem> {
        self.queries.hot.record_reads(entities);
        let mut absent = absent.unwrap_or_default().iter();
        let locator = self.queries.locator();
        let mut counters = CachedPage::new(&self.queries.hot, entities.len());
        let mut facts = FactReads::default();
        let (mut facts_of_page, mut splits) = (Vec::new(), Vec::new());
        let selections = &selected.selections;
        let page = || entities.iter().zip(&selected.indexes);
        for (entity, index) in page() {
            let selection = &selections[*index];
            if let Some(fields) = &selection.counters {
                let to_read = || fields.to_read(&locator, entity);
                counters.add(entity, fields.len(), to_read);
            }
            for (metric, store) in &selection.facts {
                let fact = Fact {
                    metric,
                    entity,
                    uid: request.uid,
                };
                let state = locator.layout().split_of(entity);
                let state = state.filter(|state| state.has(metric));
                facts_of_page.push(fact);
                let is_absent = absent.next() == Some(&true);
                match state.filter(|_| !is_absent) {
                    Some(state) => {
                        splits.push(SplitFact {
                            place: facts_of_page.len() - 1,
                            fact,
                            state: Arc::clone(state),
                        });
                        facts.add_absent();
                    }
                    None if is_absent => facts.add_absent(),
                    None => facts.add(locator.keys(), *store, fact),
                }
            }
        }
        let calls = facts.take_calls();
        let mut read = self.queries.read_page(counters.to_read(), &calls).await?;
        let queries = &self.queries;
        let (repair, fields) = ((&queries.store, &queries.rebuilder), &mut read.fields);
        rebuild_lost(repair, counters.missing(), fields, request.trace_id).await;
        queries
            .add_shards(counters.missing(), &mut read.fields, request.trace_id)
            .await?;
        let mut fields = counters.complete(read.fields)?.into_iter();
        let mut found = facts.results(&self.queries, read.replies).await?;
        self.add_splits(&facts_of_page, splits, &mut found).await?;
        let mut found = found.into_iter();
        let formats = selections.iter().map(|selection| {
            let metrics = selection.facts.iter().map(|(metric, _)| (*metric).clone());
            StatusFormat::new(metrics.collect(), &selection.impossible)
        });
        let mut formats: Vec<StatusFormat> = formats.collect();
        let mut items = Vec::with_capacity(entities.len());
        let mut performed = Vec::new();
        for (entity, index) in page() {
            let selection = &selections[*index];
            let counts = match &selection.counters {
                None => Ok(Counts::default()),
                Some(selected) => {
                    next(&mut fields).map(|fields| selected.counts(&entity.eid, &fields))
                }
            };
            performed.clear();
            let mut failed = None;
            // All results of the entity are taken, whichever of them is an error.
            for _ in &selection.facts {
                match next(&mut found) {
                    Ok(is_performed) => performed.push(is_performed),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            items.push(match (counts, failed) {
                (Ok(counts), None) => Ok((counts, formats[*index].status(&performed))),
                (Err(error @ StoreError::WrongType(_)), _)
                | (Ok(_), Some(error @ StoreError::WrongType(_))) => Err(error.into()),
                (Err(error), _) | (_, Some(error)) => return Err(error.into()),
            });
        }
        Ok(items)
    }

    /// Reads the facts on split entities of a page, and those that have moved because their entities were split meanwhile.
    async fn add_splits<'a>(
        &self,
        facts: &[Fact<'a>],
        mut splits: Vec<SplitFact<'a>>,
        found: &mut [Result<bool, StoreError>],
    ) -> Result<(), Problem> {
        let is_moved =
            |found: &Result<bool, StoreError>| matches!(found, Err(StoreError::WrongType(_)));
        if found.iter().any(is_moved) {
            let refreshed = self.queries.store.refresh_layout().await;
            refreshed.map_err(|error| StoreError::Unexpected(error.to_string()))?;
            let layout = self.queries.store.layout();
            for (place, fact) in facts.iter().enumerate() {
                let state = layout.split_of(fact.entity);
                if is_moved(&found[place])
                    && let Some(state) = state.filter(|state| state.has(fact.metric))
                {
                    splits.push(SplitFact {
                        place,
                        fact: *fact,
                        state: Arc::clone(state),
                    });
                }
            }
        }
        if splits.is_empty() {
            return Ok(());
        }
        for (place, exists) in self.queries.split_facts(&splits).await? {
            found[place] = Ok(exists);
        }
        Ok(())
    }

    /// Whether each fact of a page is known not to exist, in the order of the page. `None` if Redis is asked for all.
    async fn absent(
        &self,
        entities: &[Entity],
        selected: &SelectedPage<'_>,
        uid: &Id,
    ) -> Option<Vec<bool>> {
        if !self.prefilter.is_enabled() {
            return None;
        }
        let page = entities.iter().zip(&selected.indexes);
        let facts = page.flat_map(|(entity, index)| {
            let metrics = selected.selections[*index].facts.iter();
            metrics.map(move |(metric, _)| Fact {
                metric,
                entity,
                uid,
            })
        });
        let facts: Vec<Fact<'_>> = facts.collect();
        self.prefilter.absent(&facts).await
    }
}

/// The next result of a read.
fn next<T>(results: &mut impl Iterator<Item = Result<T, StoreError>>) -> Result<T, StoreError> {
    let missing = || StoreError::Unexpected("a page: a reply is missing".to_owned());
    results.next().unwrap_or_else(|| Err(missing()))
}
