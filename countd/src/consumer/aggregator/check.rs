//! Aggregates checks of counters.

use super::super::authors::credit_again;
use super::super::checks::CheckItem;
use super::super::increments::{Increments, find_field};
use super::super::timeline_rule::TimelineRule;
use super::super::user_checks::{ForwardedCheck, UserCheck};
use crate::domain::config::USER;
use crate::domain::event::{Check, CheckMode, MAX_CHECKS};
use crate::domain::event_class::feeds_author;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::Partition;
use crate::domain::split::base_of;
use crate::redis::day::DayNumbers;
use crate::repair::{Outcome, Source, Sources, UserSource, record_difference};

/// Adds the check of an entity of a partition. Skips counters that cannot be checked: a later check may find them.
///
/// # Errors
/// The entry is malformed.
pub fn add_check(
    increments: &mut Increments<'_>,
    partition: Partition,
    check: &Check,
) -> Result<(), String> {
    let entity = check.entity();
    let home = increments.rules.locator.keys().of_entity(&entity);
    if home != partition {
        return Err(format!("it belongs to partition {home}"));
    }
    if !check.is_in_range() {
        return Err(format!("malformed: more than {MAX_CHECKS} counters"));
    }
    let Increments { rules, batch, .. } = &mut *increments;
    for (metric, uid, exists) in &check.facts {
        if let Some(rule) = TimelineRule::of(metric, rules) {
            rule.add_verified(rules, &mut batch.timelines, (&entity, uid), *exists);
        }
    }
    let is_settled = rules.locator.layout().counting == rules.config.counting();
    if check.etype.as_str() == USER {
        match is_settled {
            true => add_user_checks(increments, partition, check),
            false => record_difference(check.source.as_str(), 0, Outcome::Unchecked),
        }
        return Ok(());
    }
    let mut is_corrected = false;
    for (metric, expected) in &check.checks {
        let item = |metric: &Name, prefix| CheckItem {
            expected: *expected,
            prefix,
            metric: metric.clone(),
            entity: entity.clone(),
            mode: check.mode,
            round: check.round,
            source: check.source.clone(),
            trace_id: check.trace_id.clone(),
            report: check.report.clone(),
            days: None,
        };
        let added = is_settled.then(|| add_counter(increments, (&entity, partition), metric, item));
        match added.flatten() {
            Some(()) => is_corrected = true,
            None => record_difference(check.source.as_str(), 0, Outcome::Unchecked),
        }
    }
    let Increments { rules, batch, .. } = increments;
    if is_corrected && rules.config.changes.enabled {
        batch.changes.add(&base_of(&entity));
    }
    Ok(())
}

/// Adds the check of a counter. `None` if it cannot be checked.
fn add_counter(
    increments: &mut Increments<'_>,
    (entity, partition): (&Entity, Partition),
    metric: &Name,
    item: impl FnOnce(&Name, i64) -> CheckItem,
) -> Option<()> {
    let config = increments.rules.config;
    let (name, settings) = config.metrics.get(metric.as_str())?;
    let sources = Sources::new(config, increments.rules.locator.layout());
    let Source::FactsBatched(_) = sources.of_entity(name) else {
        return None;
    };
    let schema = config.schema_of(&entity.etype).flatten();
    let field = find_field((schema, &entity.etype), name, increments).ok()?;
    let (counter, prefix) = increments.checked_counter(field, entity, partition)?;
    if feeds_author(name, config) {
        credit_again(increments, (entity, partition)).ok()?;
    }
    let locator = increments.rules.locator;
    let layout = (locator.keys(), locator.layout().backend);
    let days = settings
        .daily
        .then(|| DayNumbers::new(layout, name, entity));
    let item = CheckItem {
        days,
        ..item(name, prefix)
    };
    if item.expected > 0 && item.mode != CheckMode::Report {
        increments.check_row(field, entity, partition);
    }
    increments.batch.checks.add(layout.0, counter, item);
    Some(())
}

/// Adds checks of the counters of a user that count facts on the user, like followers. In a cluster they may be in another slot: the
/// check follows the increments through the outbox.
fn add_user_checks(increments: &mut Increments<'_>, partition: Partition, check: &Check) {
    let config = increments.rules.config;
    let sources = Sources::new(config, increments.rules.locator.layout());
    let (keys, uid) = (increments.rules.locator.keys(), &check.eid);
    let home = keys.of_user(uid);
    for counter in config
        .users
        .names()
        .iter()
        .filter_map(|name| config.users.counter(name))
    {
        let UserSource::Target(metrics) = sources.of_user(&counter) else {
            continue;
        };
        let facts = |metric: &Name| {
            let found = check.checks.iter().find(|(name, _)| name == metric);
            found.map(|(_, facts)| *facts)
        };
        let Some(expected) = metrics.iter().map(facts).sum::<Option<u64>>() else {
            continue;
        };
        let details = UserCheck {
            round: check.round,
            mode: check.mode,
            report: check.report.clone(),
        };
        if keys.can_combine(partition, home) {
            let item = CheckItem {
                source: check.source.clone(),
                trace_id: check.trace_id.clone(),
                ..details.item(uid, counter.name(), expected)
            };
            increments.check_user_counter((uid, home), counter.index(), item);
        } else if check.mode != CheckMode::Report || check.report.is_some() {
            let outbox = &increments.batch.outbox;
            let added = outbox
                .get(&home)
                .and_then(|users| users.get(&(uid.clone(), counter.clone())));
            let mut details = ForwardedCheck {
                without_batch: i128::from(expected) - i128::from(added.copied().unwrap_or(0)),
                check: details,
            };
            let checks = increments.batch.user_checks.entry(home).or_default();
            // The last check of a batch takes the place of earlier ones, and their report.
            let earlier = checks.remove(&(uid.clone(), counter.clone()));
            let report = earlier.and_then(|earlier| earlier.check.report);
            details.check.report = details.check.report.or(report);
            checks.insert((uid.clone(), counter), details);
        }
    }
}
