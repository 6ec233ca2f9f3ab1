//! How events count by day.

use super::days::{Days, DaysFamily};
use super::increments::Increments;
use super::rules::Rules;
use crate::domain::config::Reads;
use crate::domain::day::{EventDay, civil};
use crate::domain::event::Event;
use crate::domain::ids::Name;
use crate::domain::keys::Keys;
use crate::redis::script::CounterBackend;

/// How the events of a class count by day.
pub struct DayRule {
    /// The metric.
    pub metric: Name,
    /// The metric and the type in the batch.
    pub family: DaysFamily,
    /// Whether the events are appended to streams.
    pub is_streamed: bool,
    /// Whether the counts are part of a ranking.
    pub is_ranked: bool,
}

impl DayRule {
    /// The rule of an event's class. `None` if its metric has no counts by day, or it is counted by another schema than that of its type.
    pub fn of(event: &Event, metric: &Name, increments: &mut Increments<'_>) -> Option<DayRule> {
        let config = increments.rules.config;
        let (_, settings) = config.metrics.get(metric.as_str())?;
        let of_type = config.schema_of(&event.entity.etype).flatten()?;
        let is_other = event.schema.as_ref().is_some_and(|id| id != of_type);
        if !settings.daily || is_other {
            return None;
        }
        Some(DayRule {
            metric: metric.clone(),
            family: increments.batch.days.family(metric, &event.entity.etype),
            is_streamed: settings.reads == Some(Reads::Stream),
            is_ranked: config.is_ranked(metric, &event.entity.etype),
        })
    }

    /// The stream of an event, if its day is not archived.
    fn stream(&self, rules: &Rules<'_>, event: &Event, day: EventDay) -> Option<String> {
        let is_kept = self.is_streamed && !day.is_archived;
        let streams = || {
            rules
                .locator
                .keys()
                .read_streams(&self.metric, &event.entity)
        };
        is_kept.then(|| streams().key(civil(day.number)))
    }

    /// Checks that the keys of the counts of an event are usable, if the commit writes them. Streams are not checked: an event counts
    /// although its stream is damaged.
    ///
    /// # Errors
    /// Why they are not.
    pub fn check(
        &self,
        rules: &Rules<'_>,
        event: &Event,
        day: EventDay,
        changes_counter: bool,
    ) -> Result<(), String> {
        if rules.unusable_keys.is_empty() || !changes_counter {
            return Ok(());
        }
        let subject = (&self.metric, &event.entity);
        for key in Days::keys_of(layout_of(rules), subject, day) {
            rules.check_key(&key)?;
        }
        Ok(())
    }

    /// The stream of an event, if the event is appended to it: the stream and the Hash of its day are usable.
    fn usable_stream(&self, rules: &Rules<'_>, event: &Event, day: EventDay) -> Option<String> {
        let stream = self.stream(rules, event, day)?;
        if rules.unusable_keys.is_empty() {
            return Some(stream);
        }
        let hash = rules.locator.keys().days_of(&self.metric, &event.entity);
        let is_usable = |key: &str| rules.check_key(key).is_ok();
        (is_usable(&stream) && is_usable(&hash)).then_some(stream)
    }

    /// Adds an event. `changes_counter` tells whether the commit changes the entity's counter; otherwise the action has counted the day.
    pub fn add(
        &self,
        increments: &mut Increments<'_>,
        event: &Event,
        day: EventDay,
        changes_counter: bool,
    ) {
        let Increments { rules, batch, .. } = increments;
        let subject = (self.family, &event.entity);
        if changes_counter {
            batch.days.add(layout_of(rules), subject, day, event.delta);
        }
        // The action may have counted the day; the scores change here.
        if self.is_ranked {
            batch.ranks.add(rules, &event.entity);
        }
        if let Some(stream) = self.usable_stream(rules, event, day) {
            batch.days.keep(layout_of(rules), subject, day);
            batch
                .days
                .stream(stream, event, rules.config.days.stream_len);
        }
    }
}

/// The layout of the keys and the backend of the counters.
fn layout_of(rules: &Rules<'_>) -> (Keys, CounterBackend) {
    (rules.locator.keys(), rules.locator.layout().backend)
}
