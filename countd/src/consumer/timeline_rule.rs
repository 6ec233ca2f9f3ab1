//! Which timelines the facts of a metric change.

use super::rules::Rules;
use super::timelines::{Change, Timelines, keys_of};
use crate::domain::config::{Nature, Order};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::TimelineKeys;
use crate::domain::split::{base_of, is_shard};
use crate::storage::locator::Locator;

/// The timelines that the facts of a metric change.
#[derive(Clone, Debug)]
pub struct TimelineRule {
    /// The name of the metric.
    metric: Name,
    /// Whether the facts are kept for users.
    is_reverse: bool,
    /// Whether the latest users of entities are kept.
    is_ordered: bool,
    /// The number of newest facts whose times are kept.
    keep: u32,
}

impl TimelineRule {
    /// The rule of a metric; `None` if its facts change no timeline.
    pub fn of(metric: &Name, rules: &Rules<'_>) -> Option<TimelineRule> {
        let (name, config) = rules.config.metrics.get(metric.as_str())?;
        let rule = TimelineRule {
            metric: name.clone(),
            is_reverse: rules.locator.layout().is_reverse(name),
            is_ordered: config.order == Order::Time,
            keep: config.latest(),
        };
        let is_used = config.nature == Nature::Once && (rule.is_reverse || rule.is_ordered);
        is_used.then_some(rule)
    }

    /// Checks that the keys that the change of a fact needs are usable.
    ///
    /// # Errors
    /// Why one of them is not.
    pub fn check(&self, rules: &Rules<'_>, entity: &Entity, uid: &Id) -> Result<(), String> {
        if rules.unusable_keys.is_empty() {
            return Ok(());
        }
        let keys = rules.locator.keys();
        let home = keys.of_entity(entity);
        if self.is_reverse && keys.can_combine(home, keys.of_user(uid)) {
            self.check_reverse(rules, entity, uid)?;
        }
        if self.is_ordered {
            check_keys(rules, keys.latest_users(&self.metric, entity), uid)?;
        }
        Ok(())
    }

    /// Checks that the keys of a user's fact are usable.
    ///
    /// # Errors
    /// Why one of them is not.
    pub fn check_reverse(
        &self,
        rules: &Rules<'_>,
        entity: &Entity,
        uid: &Id,
    ) -> Result<(), String> {
        let keys = rules.locator.keys();
        let keys = keys.reverse(&self.metric, &entity.etype, uid);
        check_keys(rules, keys, &base_of(entity).eid)
    }

    /// Adds a change of a fact on an entity. The change of the user's timeline is forwarded if it is in another slot.
    pub fn add(
        &self,
        (locator, timelines): (&Locator, &mut Timelines),
        entity: &Entity,
        uid: &Id,
        change: Change,
    ) {
        let (keys, backend) = (locator.keys(), locator.layout().backend);
        if self.is_reverse {
            let home = keys.of_user(uid);
            match keys.can_combine(keys.of_entity(entity), home) {
                true => self.add_reverse((locator, timelines), entity, uid, change),
                false => {
                    timelines.forward(home, uid, &self.metric, &base_of(entity), change);
                }
            }
        }
        if self.is_ordered {
            let keys = keys.latest_users(&self.metric, entity);
            timelines.add((keys, backend), self.keep, uid, change);
        }
    }

    /// Adds what a check has read of a user's fact on an entity. Skips a timeline that is damaged: a later check may correct it.
    pub fn add_verified(
        &self,
        rules: &Rules<'_>,
        timelines: &mut Timelines,
        (entity, uid): (&Entity, &Id),
        exists: bool,
    ) {
        let (locator, keys) = (rules.locator, rules.locator.keys());
        let (home, change) = (keys.of_user(uid), Change::Verified(exists));
        // A fact that is not at this shard may be at the base.
        if !self.is_reverse || !exists && is_shard(entity) {
            return;
        }
        if !keys.can_combine(keys.of_entity(entity), home) {
            timelines.forward(home, uid, &self.metric, &base_of(entity), change);
        } else if self.check_reverse(rules, entity, uid).is_ok() {
            timelines.enable_audit(keys.audit(home));
            self.add_reverse((locator, timelines), entity, uid, change);
        }
    }

    /// Adds a change of a fact to the user's timeline, which has the base of a split entity.
    pub fn add_reverse(
        &self,
        (locator, timelines): (&Locator, &mut Timelines),
        entity: &Entity,
        uid: &Id,
        change: Change,
    ) {
        let keys = locator.keys();
        let keys = keys.reverse(&self.metric, &entity.etype, uid);
        let backend = locator.layout().backend;
        timelines.add((keys, backend), self.keep, &base_of(entity).eid, change);
    }
}

fn check_keys(rules: &Rules<'_>, keys: TimelineKeys, member: &Id) -> Result<(), String> {
    let (newest, older, _) = keys_of(keys, rules.locator.layout().backend, member);
    let mut keys = std::iter::once(newest).chain(older);
    keys.try_for_each(|key| rules.check_key(&key))
}
