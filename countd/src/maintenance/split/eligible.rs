//! Which metrics of an entity can be split.

use super::splitter::Splitter;
use crate::domain::config::{Config, Count, FactKind, Metric, Order};
use crate::domain::ids::{Entity, Name};
use crate::maintenance::storage::MigrationError;
use crate::redis::layout::{Authors, StoredLayout};

impl Splitter<'_> {
    /// The metrics that can be split, and why others cannot.
    pub(super) async fn metrics(
        &self,
        entity: &Entity,
    ) -> Result<(Vec<Name>, Vec<(Name, String)>), MigrationError> {
        let (mut split, mut whole) = (Vec::new(), Vec::new());
        let layout = self.store.layout();
        let config = &self.catalog.config;
        for (name, metric) in config.metrics.iter() {
            if !metric.applies_to(&entity.etype) {
                continue;
            }
            match reason((name, metric), (config, &layout), &entity.etype) {
                Some(reason) => whole.push((name.clone(), reason.to_owned())),
                None => match self.catalog.field(entity, name.as_str()).await {
                    Ok(_) => split.push(name.clone()),
                    Err(problem) => whole.push((name.clone(), problem.to_string())),
                },
            }
        }
        Ok((split, whole))
    }
}

/// Why a metric stays whole.
fn reason(
    (name, metric): (&Name, &Metric),
    (config, layout): (&Config, &StoredLayout),
    etype: &Name,
) -> Option<&'static str> {
    let feeds_author = metric.author_counters().next().is_some();
    let is_backfilled = layout.is_reverse(name) && !layout.has_reverse(name);
    match metric.fact_kind() {
        None => Some("is repeatable: its events are batched anyway"),
        Some(kind) if kind != FactKind::Rbm => Some("has facts of another kind than rbm"),
        _ if metric.count != Count::Now => Some("is not counted with the action: count = \"now\""),
        _ if metric.daily => Some("has counts by day"),
        _ if metric.order == Order::Time => Some("keeps the latest users: order = \"time\""),
        _ if config.is_ranked(name, etype) => Some("has a ranking"),
        _ if layout.is_external(name) => Some("has counted events without facts"),
        _ if is_backfilled => Some("is being backfilled for users"),
        _ if feeds_author && layout.authors == Authors::Event => {
            Some("feeds authors, which this data does not register")
        }
        _ => None,
    }
}
