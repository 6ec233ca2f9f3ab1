//! The rules by which authors are credited.

use super::credits::{CreditRule, CreditedMetric};
use super::rules::Rules;
use crate::domain::config::USER;
use crate::domain::ids::Name;
use crate::redis::layout::Authors;

/// How the authors of entities of a type are credited. `None` if the data does not register authors, or the entities have none.
pub fn credit_rule(rules: &Rules<'_>, etype: &Name) -> Option<CreditRule> {
    let Authors::Registry { metrics } = &rules.locator.layout().authors else {
        return None;
    };
    if etype.as_str() == USER {
        return None;
    }
    let schema_id = rules.config.schema_of(etype).flatten()?;
    let schema = rules.schemas.get(schema_id)?;
    let credited = metrics.iter().enumerate().filter_map(|(column, name)| {
        let (_, metric) = rules.config.metrics.get(name.as_str())?;
        let counters = metric.author_counters();
        let counters: Vec<_> = counters
            .filter_map(|counter| rules.config.users.counter(counter))
            .collect();
        let idx = schema.index_of(name.as_str())?;
        (!counters.is_empty()).then(|| CreditedMetric {
            name: name.clone(),
            column,
            idx,
            counters,
        })
    });
    let place = rules.place_of(etype.as_str());
    Some(CreditRule {
        schema: schema_id.clone(),
        storage: place.storage,
        is_moving: place.is_moving,
        min_len: schema.min_len(),
        user_len: rules.user_counter_count(),
        metrics: credited.collect(),
    })
}
