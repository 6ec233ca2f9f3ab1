//! Adds journal entries to a batch: changes of counters that no event made.

use super::authors::check_keys;
use super::counter_key::ObjectLength;
use super::increments::Increments;
use crate::domain::config::USER;

use crate::domain::event::{Cause, Journal, now_ms};
use crate::domain::keys::Partition;

/// Adds a journal entry of a partition. The author of the entity is credited with the changes. `applies` tells whether the changes
/// themselves are added, too: the data is older than the entry.
///
/// # Errors
/// Why it cannot be counted.
pub fn add_journal(
    increments: &mut Increments<'_>,
    partition: Partition,
    journal: &Journal,
    applies: bool,
) -> Result<(), String> {
    let (entity, keys) = (journal.entity(), increments.rules.locator.keys());
    let is_user = journal.etype.as_str() == USER;
    let home = match is_user {
        true => keys.of_user(&journal.eid),
        false => keys.of_entity(&entity),
    };
    if home != partition {
        return Err(format!("it belongs to partition {home}"));
    }
    // What was repaired may not be wrong in older data.
    let changes: &[_] = match applies && journal.why != Cause::Repair {
        true => &journal.changes,
        false => &[],
    };
    if is_user {
        increments.check_user(&journal.eid, home)?;
        for (counter, delta) in changes {
            let index = increments.rules.user_counter(counter)?;
            increments.add_to_user(&journal.eid, home, index, *delta);
        }
        return Ok(());
    }
    if !increments.rules.config.ranks.is_empty() {
        let Increments { rules, batch, .. } = increments;
        batch.ranks.add(rules, &entity);
    }
    let rule = increments.credit_rule(&journal.etype);
    if let Some(rule) = &rule {
        check_keys(&increments.rules, rule, (&entity, partition))?;
    }
    if !changes.is_empty() {
        let schema = increments.rules.config.schema_of(&journal.etype).flatten();
        let found = schema.and_then(|id| increments.rules.schemas.get_key_value(id));
        let (id, schema) = found.ok_or("its schema does not exist")?;
        let length = ObjectLength {
            len: schema.len(),
            min_len: schema.min_len(),
        };
        let calendar = increments.rules.config.days.calendar();
        let day = calendar.event_day(journal.ts, now_ms());
        for (counter, delta) in changes {
            let idx = schema.index_of(counter.as_str());
            let idx = idx.and_then(|idx| u16::try_from(idx).ok());
            let idx = idx.ok_or_else(|| format!("schema {id} has no metric {counter}"))?;
            let field = increments.entity_field(id, &journal.etype, idx, length);
            increments.add_to_entity(field, &entity, partition, *delta)?;
            let metric = increments.rules.config.metrics.get(counter.as_str());
            if metric.is_some_and(|(_, metric)| metric.daily) {
                let layout = (keys, increments.rules.locator.layout().backend);
                let days = &mut increments.batch.days;
                let family = days.family(counter, &journal.etype);
                days.add(layout, (family, &entity), day, *delta);
            }
        }
    }
    if let Some(rule) = rule {
        increments.credit(&rule, (&entity, partition), None, None);
        for (counter, delta) in changes {
            if let Some(metric) = rule.position(counter) {
                let delta = Some((metric, *delta));
                increments.credit(&rule, (&entity, partition), None, delta);
            }
        }
    }
    Ok(())
}
