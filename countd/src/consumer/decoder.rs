//! Decodes log entries.

use crate::domain::config::Config;
use crate::domain::event::{
    Check, Derived, Envelope, Event, GroupEvent, Journal, NewAuthor, Reread,
};
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::text::brief;
use crate::log::{EntryKind, LogEntry};
use crate::redis::layout::StoredLayout;
use crate::storage::catalog::metric_name;

/// The maximum length of a derived event in bytes. countd writes far shorter ones.
const MAX_DERIVED_LEN: usize = 8 * 1024 * 1024;

/// The content of a log entry.
pub enum DecodedEntry {
    /// An event, and the id of its envelope if it has one.
    Event(Event, Option<Id>),
    /// The events of a group, which count together or not at all. There is at least one.
    Group(Vec<Event>),
    /// A derived event.
    Derived(Derived),
    /// A new author of an entity.
    Author(NewAuthor),
    /// Facts to read again. What was read replaces it before it is aggregated.
    Reread(Reread),
    /// Facts that were read again.
    Facts(ReadFacts),
    /// A check of counters.
    Check(Check),
    /// Changes of counters without an event, which were applied when the entry was appended.
    Journal(Journal),
    /// Changes of counters without an event, to be applied.
    JournalToApply(Journal),
    /// Has no effect.
    Skipped,
    /// Cannot be decoded, for this reason.
    Invalid(String),
}

/// Whether users have performed a metric on an entity.
pub struct ReadFacts {
    /// The metric.
    pub metric: Name,
    /// The entity.
    pub entity: Entity,
    /// The users, and whether the fact exists.
    pub users: Vec<(Id, bool)>,
}

impl DecodedEntry {
    /// The event, or the first of a group: all of its events have the same class and time.
    pub fn first_event(&self) -> Option<&Event> {
        match self {
            DecodedEntry::Event(event, _) => Some(event),
            DecodedEntry::Group(events) => events.first(),
            _ => None,
        }
    }

    /// Whether it names another schema than that of its type, which may have become a view of the columns of that one.
    pub fn names_other_schema(&self, config: &Config) -> bool {
        self.first_event().is_some_and(|event| {
            let of_type = config.schema_of(&event.entity.etype).flatten();
            event.schema.is_some() && event.schema.as_ref() != of_type
        })
    }

    /// Replaces the schemas that events name by those that have the columns of their counters, and the names that views have for the counters
    /// of metrics by those of the metrics.
    pub fn use_columns(&mut self, config: &Config, layout: &StoredLayout) {
        if layout.all_schema_views().is_empty() {
            return;
        }
        let events = match self {
            DecodedEntry::Event(event, _) => std::slice::from_mut(event),
            DecodedEntry::Group(events) => events.as_mut_slice(),
            _ => return,
        };
        for event in events {
            let etype = &event.entity.etype;
            let name = metric_name((config, layout), etype, event.metric.as_str());
            if config.metrics.get(event.metric.as_str()).is_none()
                && name != event.metric.as_str()
                && let Ok(name) = Name::new(name)
            {
                event.metric = name;
            }
            if let Some(named) = &event.schema {
                let columns = layout.columns_of(&event.entity.etype, named);
                if columns != named {
                    event.schema = Some(columns.clone());
                }
            }
        }
    }

    /// The number of events: 1, or those of a group.
    pub fn event_count(&self) -> usize {
        match self {
            DecodedEntry::Group(events) => events.len(),
            _ => 1,
        }
    }

    /// The event's timestamp in milliseconds since 1970, if it has one.
    pub fn timestamp(&self) -> Option<u64> {
        self.first_event()
            .map(|event| event.ts)
            .filter(|ts| *ts > 0)
    }
}

/// Decodes a log entry by its kind.
pub fn decode(entry: &LogEntry) -> DecodedEntry {
    let is_too_long = entry.kind == EntryKind::Derived && entry.payload.len() > MAX_DERIVED_LEN;
    if is_too_long || !entry.is_whole {
        return DecodedEntry::Invalid(format!("too long: {} bytes", entry.size));
    }
    let decoded = match entry.kind {
        EntryKind::Event => match Event::read_written(&entry.payload) {
            Some(event) => Ok(event),
            None => serde_json::from_slice(&entry.payload),
        }
        .map(|event| DecodedEntry::Event(event, None)),
        EntryKind::Group => serde_json::from_slice(&entry.payload).map(open_group),
        EntryKind::Envelope => serde_json::from_slice(&entry.payload).map(open_envelope),
        EntryKind::Derived => serde_json::from_slice(&entry.payload).map(DecodedEntry::Derived),
        EntryKind::Author => serde_json::from_slice(&entry.payload).map(DecodedEntry::Author),
        EntryKind::Reread => serde_json::from_slice(&entry.payload).map(DecodedEntry::Reread),
        EntryKind::Check => serde_json::from_slice(&entry.payload).map(DecodedEntry::Check),
        EntryKind::Journal => serde_json::from_slice(&entry.payload).map(DecodedEntry::Journal),
        EntryKind::Unknown => {
            return DecodedEntry::Invalid(
                "an entry with other fields than e, g, o, d, a, b, c or j".to_owned(),
            );
        }
    };
    decoded.unwrap_or_else(|error| DecodedEntry::Invalid(format!("malformed: {}", brief(&error))))
}

fn open_group(group: GroupEvent) -> DecodedEntry {
    let events = group.into_events();
    match events.is_empty() {
        true => DecodedEntry::Invalid("a group without users".to_owned()),
        false => DecodedEntry::Group(events),
    }
}

fn open_envelope(envelope: Envelope<'_>) -> DecodedEntry {
    match envelope.event() {
        Ok(event) => DecodedEntry::Event(event, Some(envelope.event_id)),
        Err(error) => DecodedEntry::Invalid(brief(&error)),
    }
}
