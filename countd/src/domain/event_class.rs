//! Event classes: events with the same schema, entity type and metric are counted by the same rule.

use super::config::{Config, Count};
use super::event::Event;
use super::ids::Name;

/// The maximum number of classes in a cache.
const MAX_CACHED_CLASSES: usize = 64;

/// The fields of an event that determine its counting rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EventClass {
    schema: Option<Name>,
    etype: Name,
    metric: Name,
}

impl EventClass {
    fn of(event: &Event) -> EventClass {
        EventClass {
            schema: event.schema.clone(),
            etype: event.entity.etype.clone(),
            metric: event.metric.clone(),
        }
    }

    fn includes(&self, event: &Event) -> bool {
        self.metric == event.metric
            && self.etype == event.entity.etype
            && self.schema == event.schema
    }
}

/// Values computed once for each event class. Most logs have few classes, so a linear search is the fastest lookup.
pub struct EventClassCache<T>(Vec<(EventClass, T)>);

impl<T> EventClassCache<T> {
    /// An empty cache.
    pub fn new() -> EventClassCache<T> {
        EventClassCache(Vec::new())
    }

    /// The value of the event's class, computed by `compute` if the class is new.
    pub fn get_or_insert_with(&mut self, event: &Event, compute: impl FnOnce() -> T) -> &T {
        let cached = self.0.iter().position(|(class, _)| class.includes(event));
        let at = cached.unwrap_or_else(|| {
            // A client can send any number of classes. The bound keeps the search short.
            if self.0.len() == MAX_CACHED_CLASSES {
                self.0.clear();
            }
            self.0.push((EventClass::of(event), compute()));
            self.0.len() - 1
        });
        &self.0[at].1
    }
}

impl<T> Default for EventClassCache<T> {
    fn default() -> EventClassCache<T> {
        EventClassCache::new()
    }
}

/// Whether entities have a counter of this metric.
pub fn has_entity_counter(metric: &Name, config: &Config) -> bool {
    let metric = config.metrics.get(metric.as_str());
    metric.is_none_or(|(_, metric)| metric.count != Count::Never)
}

/// Whether the metric changes counters of the entity's author.
pub fn feeds_author(metric: &Name, config: &Config) -> bool {
    let metric = config.metrics.get(metric.as_str());
    metric.is_some_and(|(_, metric)| metric.author_counters().next().is_some())
}

/// Whether the consumer has to change the entity's counter for this event.
pub fn changes_entity_counter(event: &Event, config: &Config) -> bool {
    !event.counted && has_entity_counter(&event.metric, config)
}

/// The schema by which an event is counted: its own, or that of its entity type.
pub fn schema_id<'a>(event: &'a Event, config: &'a Config) -> Option<&'a Name> {
    let of_type = || config.schema_of(&event.entity.etype).flatten();
    event.schema.as_ref().or_else(of_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(metric: &str) -> Event {
        let json = format!(r#"{{"etype":"note","eid":1,"metric":"{metric}","delta":1,"uid":9}}"#);
        serde_json::from_str(&json).expect("an event")
    }

    #[test]
    fn a_value_is_computed_once_for_each_class() {
        let (mut cache, mut computed) = (EventClassCache::new(), 0);
        for metric in ["read", "like", "read", "like", "read"] {
            let value = cache.get_or_insert_with(&event(metric), || {
                computed += 1;
                metric
            });
            assert_eq!(*value, metric);
        }
        assert_eq!(computed, 2);
    }

    #[test]
    fn the_number_of_cached_classes_is_bounded() {
        let mut cache = EventClassCache::new();
        for number in 0..10 * MAX_CACHED_CLASSES {
            let value = cache.get_or_insert_with(&event(&format!("m{number}")), || number);
            assert_eq!(*value, number);
            assert!(cache.0.len() <= MAX_CACHED_CLASSES);
        }
    }
}
