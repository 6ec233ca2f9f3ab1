//! The rules by which authors are credited.

use super::credits::{CreditRule, CreditedMetric};
use super::rules::Rules;
use crate::domain::config::USER;
use crate::domain::ids::Name;
use crate::redis::layout::Authors;

/// How the authors of entities of a type are credited. `None` if the data does not register authors, or the entities have none.
pub fn credit_rule(rules: &Rules<'_>, etype: &Name) -> Option<CreditRule> {
    let Authors::Registry { feeds } = &rules.locator.layout().authors else {
        return None;
    };
    if etype.as_str() == USER {
        return None;
    }
    let schema_id = rules.config.schema_of(etype).flatten()?;
    let schema = rules.schemas.get(schema_id)?;
    let mut credited: Vec<CreditedMetric> = Vec::new();
    for (column, feed) in feeds.iter().enumerate() {
        let Some((_, metric)) = rules.config.metrics.get(feed.metric.as_str()) else {
            continue;
        };
        let mut counters = metric.author_counters();
        let counter = counters.find(|counter| Some(*counter) == feed.counter.as_ref());
        let counter = counter.and_then(|counter| rules.config.users.counter(counter));
        let (Some(counter), Some(idx)) = (counter, schema.index_of(feed.metric.as_str())) else {
            continue;
        };
        match credited.iter_mut().find(|m| m.name == feed.metric) {
            Some(metric) => metric.counters.push((column, counter)),
            None => credited.push(CreditedMetric {
                name: feed.metric.clone(),
                idx,
                counters: vec![(column, counter)],
            }),
        }
    }
    let place = rules.place_of(etype.as_str());
    Some(CreditRule {
        schema: schema_id.clone(),
        storage: place.storage,
        is_moving: place.is_moving,
        min_len: schema.min_len(),
        user_len: rules.user_counter_count(),
        metrics: credited,
    })
}
