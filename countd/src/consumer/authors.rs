//! Adds entities to a batch whose authors are credited.

use super::credits::CreditRule;
use super::increments::Increments;
use super::rules::Rules;
use crate::domain::config::NamesAuthor;
use crate::domain::config::UserCounter;
use crate::domain::event::{Event, NewAuthor};
use crate::domain::event_class::{feeds_author, schema_id};
use crate::domain::ids::{Entity, Id};
use crate::domain::keys::Partition;
use crate::redis::author::author_keys;
use std::sync::Arc;

/// How the events of a class credit the authors of their entities.
pub struct ClassCredit {
    rule: Arc<CreditRule>,
    /// The index of the metric in the rule; `None` if a commit of its events changes no counter that feeds authors.
    metric: Option<usize>,
    /// Whether the metric feeds authors.
    is_fed: bool,
    /// Whether the user who acts becomes the author.
    names_actor: bool,
}

impl ClassCredit {
    /// The credit of the events of a class. `None` if the data does not register authors, or the entities have none.
    pub fn of(event: &Event, increments: &mut Increments<'_>) -> Option<ClassCredit> {
        let rule = increments.credit_rule(&event.entity.etype)?;
        let config = increments.rules.config;
        let metric = config.metrics.get(event.metric.as_str());
        let place = metric.and_then(|(name, _)| rule.position(name));
        let is_of_rule = schema_id(event, config) == Some(&rule.schema);
        Some(ClassCredit {
            metric: place.filter(|_| is_of_rule),
            rule,
            is_fed: feeds_author(&event.metric, config),
            names_actor: metric
                .is_some_and(|(_, metric)| metric.names_author == Some(NamesAuthor::Actor)),
        })
    }

    /// The author that an event names.
    fn named<'e>(&self, event: &'e Event) -> Option<&'e Id> {
        let actor = (self.names_actor && event.delta > 0).then_some(&event.uid);
        event.author.as_ref().or(actor)
    }

    /// Whether the commit of an event has to look at the author of its entity.
    pub fn concerns(&self, event: &Event) -> bool {
        self.is_fed || self.named(event).is_some()
    }

    /// Checks that the keys that the credit needs are usable.
    ///
    /// # Errors
    /// Why one of them is not.
    pub fn check(
        &self,
        increments: &mut Increments<'_>,
        entity: &Entity,
        partition: Partition,
    ) -> Result<(), String> {
        check_keys(&increments.rules, &self.rule, (entity, partition))
    }

    /// Adds the entity of an event. `is_counted` tells whether the batch changes its counter.
    pub fn add(
        &self,
        increments: &mut Increments<'_>,
        (event, partition): (&Event, Partition),
        is_counted: bool,
    ) {
        let delta = self.metric.filter(|_| is_counted);
        increments.credit(
            &self.rule,
            (&event.entity, partition),
            self.named(event),
            delta.map(|metric| (metric, event.delta)),
        );
    }
}

/// Adds a new author of an entity of a partition: takes back what the former author was credited with.
///
/// # Errors
/// Why it cannot be counted.
pub fn add_new_author(
    increments: &mut Increments<'_>,
    partition: Partition,
    new: &NewAuthor,
) -> Result<(), String> {
    let keys = increments.rules.locator.keys();
    let home = keys.of_entity(&new.entity);
    if home != partition {
        return Err(format!("it belongs to partition {home}"));
    }
    let etype = &new.entity.etype;
    let rule = increments
        .credit_rule(etype)
        .ok_or_else(|| format!("entities of type {etype} have no authors"))?;
    check_keys(&increments.rules, &rule, (&new.entity, partition))?;
    if let Some(from) = &new.from {
        let home = keys.of_user(from);
        increments.check_user(from, home)?;
        for (feed, amount) in &new.amounts {
            let Some(counter) = increments.rules.config.metrics.author_counter(feed) else {
                continue;
            };
            let index = increments.rules.user_counter(counter)?;
            // In a cluster the credits of all authors go through the outbox. What is taken back follows them there: it must not
            // arrive first.
            let sweep = (new.sweep > 0).then_some(new.sweep);
            if keys.tagged() {
                let batch = &mut increments.batch;
                if let Some(sweep) = sweep {
                    batch.sums.forward(home, from, counter, -amount, sweep);
                }
                let counter = UserCounter::new(index, counter.clone());
                batch.forward(home, from, &counter, -amount);
            } else {
                if let Some(sweep) = sweep {
                    let sums = &mut increments.batch.sums;
                    sums.add(home, from, index, -amount, sweep);
                }
                increments.add_to_user(from, home, index, -amount);
            }
        }
    }
    increments.credit(&rule, (&new.entity, partition), None, None);
    Ok(())
}

/// The commit compares the counters of an entity of a partition, one of which it may correct, with what the author was credited with.
///
/// # Errors
/// Why that is not possible.
pub fn credit_again(
    increments: &mut Increments<'_>,
    (entity, partition): (&Entity, Partition),
) -> Result<(), String> {
    let Some(rule) = increments.credit_rule(&entity.etype) else {
        return Ok(());
    };
    check_keys(&increments.rules, &rule, (entity, partition))?;
    increments.credit(&rule, (entity, partition), None, None);
    Ok(())
}

pub(super) fn check_keys(
    rules: &Rules<'_>,
    rule: &CreditRule,
    (entity, partition): (&Entity, Partition),
) -> Result<(), String> {
    if rules.unusable_keys.is_empty() {
        return Ok(());
    }
    for key in author_keys(rules.locator.keys(), &entity.etype, partition) {
        rules.check_key(&key)?;
    }
    let at = rules.locator.entity(&rule.schema, entity);
    if let Some(moving) = at.moving() {
        rules.check_key(&moving.table)?;
    }
    rules.check_key(at.key())
}
