//! The counters, timelines and days that the events of a class change.

use super::super::authors::ClassCredit;
use super::super::day_rule::DayRule;
use super::super::increments::{EntityField, Increments, find_field};
use super::super::timeline_rule::TimelineRule;
use crate::domain::config::{Role, USER, UserCounter};
use crate::domain::event::Event;
use crate::domain::event_class::{has_entity_counter, schema_id};
use crate::domain::ids::Id;
use crate::redis::layout::Authors;

/// The counters that the events of a class increment.
pub(super) struct CountingRule<'a> {
    /// The entity's counter, or the reason why it does not exist.
    pub field: Result<EntityField<'a>, String>,
    /// Whether entities have a counter of the metric.
    pub has_entity_counter: bool,
    /// The users' counters that change with it.
    pub feeds: Vec<(UserCounter, Role)>,
    /// Whether its events name the authors that they credit.
    pub authors_are_named: bool,
    /// How its events credit the authors of their entities. `None` if the events name the authors, or the entities have none.
    pub credit: Option<ClassCredit>,
    /// The timelines that its facts change.
    pub timelines: Option<TimelineRule>,
    /// How its events count by day, if they do.
    pub days: Option<DayRule>,
}

impl<'a> CountingRule<'a> {
    /// The rule of an event's class.
    pub fn of(event: &Event, increments: &mut Increments<'a>) -> CountingRule<'a> {
        let config = increments.rules.config;
        let metric = config.metrics.get(event.metric.as_str());
        let name = metric.map_or(&event.metric, |(name, _)| name);
        CountingRule {
            credit: ClassCredit::of(event, increments),
            timelines: TimelineRule::of(name, &increments.rules),
            field: {
                let schema = schema_id(event, config);
                find_field((schema, &event.entity.etype), name, increments)
            },
            days: DayRule::of(event, name, increments),
            has_entity_counter: has_entity_counter(&event.metric, config),
            feeds: metric.map_or_else(Vec::new, |(_, metric)| {
                let feeds = metric.users.iter();
                feeds
                    .filter_map(|feed| Some((config.users.counter(&feed.counter)?, feed.of)))
                    .collect()
            }),
            authors_are_named: increments.rules.locator.layout().authors == Authors::Event,
        }
    }

    /// The users' counters that an event changes by itself.
    pub fn fed_counters<'e>(
        &self,
        event: &'e Event,
    ) -> impl Iterator<Item = (&'e Id, &UserCounter)> {
        let is_corrected = |counter: &UserCounter| event.corrected.contains(counter.name());
        let feeds = self.feeds.iter();
        let feeds = feeds.filter(move |(counter, _)| !is_corrected(counter));
        feeds.filter_map(|(counter, of)| Some((self.user_in_role(event, *of)?, counter)))
    }

    /// The user in a role of an event, if the event names one. The commit credits registered authors.
    pub fn user_in_role<'e>(&self, event: &'e Event, role: Role) -> Option<&'e Id> {
        match role {
            Role::Actor => Some(&event.uid),
            // Only a user is a target, whatever a foreign event says.
            Role::Target => (event.entity.etype.as_str() == USER).then_some(&event.entity.eid),
            Role::Author => event.author.as_ref().filter(|_| self.authors_are_named),
        }
    }
}
