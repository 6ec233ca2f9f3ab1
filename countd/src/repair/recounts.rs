//! Rebuilds of counters whose facts need a recount first, which takes longer than a read waits.

use super::comparison::FieldSource;
use super::rebuild::Shared;
use super::source::Sources;
use crate::domain::config::USER;
use crate::domain::error::Problem;
use crate::domain::ids::Entity;
use crate::facts::{CardSource, recount};
use std::sync::Arc;

/// The number of recounts that run or wait.
const MAX_RECOUNTS: usize = 1_024;

impl Shared {
    /// Rebuilds the counters. If facts need a recount, starts it, and waits for a while.
    pub(super) async fn rebuild_or_recount(
        self: Arc<Self>,
        entity: Entity,
        trace_id: String,
    ) -> Option<Arc<[u64]>> {
        let rebuilt = self.rebuild_or_count(&entity, &trace_id).await?;
        if !rebuilt.is_large || self.recounts.flights.is_full(&entity, MAX_RECOUNTS) {
            return Some(rebuilt.values.into());
        }
        let recount = || {
            let (shared, entity) = (Arc::clone(&self), entity.clone());
            async move { shared.recount(&entity, &trace_id).await }
        };
        let recounted = self.recounts.flights.share(&entity, recount);
        let wait = self.catalog.config.rebuild.wait();
        let recounted = tokio::time::timeout(wait, recounted).await;
        let values = recounted.ok().flatten();
        Some(values.unwrap_or_else(|| rebuilt.values.into()))
    }

    /// Recounts the facts of an entity, and rebuilds its counters.
    async fn recount(&self, entity: &Entity, trace_id: &str) -> Option<Arc<[u64]>> {
        let _permit = self.recounts.permits.acquire().await.ok()?;
        let recounted = match self.fact_sources(entity).await {
            Ok(sources) => recount(&self.store, &sources).await.map_err(Problem::from),
            Err(problem) => Err(problem),
        };
        if let Err(error) = recounted {
            let Entity { etype, eid } = entity;
            tracing::warn!(%etype, %eid, %error, "facts cannot be counted now");
            return None;
        }
        let rebuilt = self.rebuild_or_count(entity, trace_id).await?;
        Some(rebuilt.values.into())
    }

    /// The facts that the counters of an entity or a user count.
    async fn fact_sources(&self, entity: &Entity) -> Result<Vec<CardSource>, Problem> {
        if entity.etype.as_str() == USER {
            let layout = self.store.layout();
            let sources = Sources::new(&self.catalog.config, &layout);
            let metrics = sources.of_followers().into_iter();
            let sources =
                metrics.map(|(name, kind)| self.facts.get(kind).card_source(&name, entity));
            return Ok(sources.collect());
        }
        let comparison = self.comparison(entity).await?;
        let fields = comparison.into_iter().flat_map(|of| of.fields);
        let facts = fields.filter_map(|field| match field.source {
            FieldSource::Facts(_, source) => Some(source),
            FieldSource::Days(_) | FieldSource::None => None,
        });
        Ok(facts.collect())
    }
}
