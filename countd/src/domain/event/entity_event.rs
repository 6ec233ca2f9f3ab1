//! The event that an action appends to the log.

use crate::domain::ids::{Entity, Id, Name, stored_id};
use crate::domain::text::truncate;
use compact_str::CompactString;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The maximum absolute delta of an event: the maximum value of a counter.
pub const MAX_DELTA: i64 = (1 << 40) - 1;

/// The maximum length of a trace ID, in bytes. Longer ones are truncated.
pub const MAX_TRACE: usize = 128;

/// A user's action on an entity. Unknown JSON fields are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "EventFields", rename_all = "camelCase")]
pub struct Event {
    /// The schema of the entity's counters; by default, the schema of its type in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Name>,
    /// The entity.
    #[serde(flatten)]
    pub entity: Entity,
    /// The metric, by its name in the schema.
    pub metric: Name,
    /// The increment of the counter: -[`MAX_DELTA`] to [`MAX_DELTA`].
    pub delta: i64,
    /// The user who acts.
    pub uid: Id,
    /// The author of the entity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<Id>,
    /// The trace ID of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<CompactString>,
    /// The time of the action, in milliseconds since the Unix epoch.
    pub ts: u64,
    /// Whether the step that appended the event also updated the entity's counter. If it did, only users' counters remain to be
    /// updated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
    /// The counters of users that were corrected after the event had become a dead letter: they include it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub corrected: Vec<Name>,
    /// The offset of the entry that became a dead letter, if this is a retry of an event whose action had updated the entity's counter:
    /// the counter includes the event since that entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried: Option<u64>,
}

/// The JSON fields of an event. They are listed here because `serde(flatten)` would more than double the cost of parsing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventFields {
    #[serde(default)]
    schema: Option<Name>,
    etype: Name,
    #[serde(deserialize_with = "stored_id")]
    eid: Id,
    metric: Name,
    delta: i64,
    uid: Id,
    #[serde(default)]
    author: Option<Id>,
    #[serde(default)]
    trace_id: Option<TruncatedTraceId>,
    #[serde(default)]
    ts: u64,
    #[serde(default)]
    counted: bool,
    #[serde(default)]
    corrected: Vec<Name>,
    #[serde(default)]
    retried: Option<u64>,
}

impl From<EventFields> for Event {
    fn from(fields: EventFields) -> Event {
        Event {
            schema: fields.schema,
            entity: Entity {
                etype: fields.etype,
                eid: fields.eid,
            },
            metric: fields.metric,
            delta: fields.delta,
            uid: fields.uid,
            author: fields.author,
            trace_id: fields.trace_id.map(|TruncatedTraceId(id)| id),
            ts: fields.ts,
            counted: fields.counted,
            corrected: fields.corrected,
            retried: fields.retried,
        }
    }
}

/// A trace ID, truncated to [`MAX_TRACE`] bytes. Counting does not depend on it, so a long one is not an error.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct TruncatedTraceId(pub CompactString);

impl<'de> Deserialize<'de> for TruncatedTraceId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<TruncatedTraceId, D::Error> {
        struct TraceIdVisitor;

        impl Visitor<'_> for TraceIdVisitor {
            type Value = TruncatedTraceId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TruncatedTraceId, E> {
                Ok(TruncatedTraceId(truncate(text, MAX_TRACE).into()))
            }
        }

        from.deserialize_str(TraceIdVisitor)
    }
}

impl Event {
    /// The JSON form in the log.
    pub fn to_json(&self) -> String {
        String::from_utf8(to_json_bytes(self)).unwrap_or_default()
    }

    /// Whether the absolute delta is at most [`MAX_DELTA`].
    pub fn is_in_range(&self) -> bool {
        self.delta.unsigned_abs() <= MAX_DELTA.unsigned_abs()
    }
}

/// The initial capacity of the JSON buffer. Most events are shorter.
const JSON_BYTES: usize = 256;

/// Serializes a value of strings and numbers.
pub(super) fn to_json_bytes(value: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::with_capacity(JSON_BYTES);
    // Writing strings and numbers to memory cannot fail.
    let _ = serde_json::to_writer(&mut json, value);
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_documented_form() {
        let json = r#"{"schema":"v1","etype":"note","eid":"7","metric":"like","delta":1,"uid":"42","author":"9","traceId":"t","ts":5}"#;
        let event: Event = serde_json::from_str(json).expect("an event");
        assert_eq!(event.to_json(), json);
        assert!(!event.counted);
        let short = r#"{"etype":"note","eid":7,"metric":"read","delta":-1,"uid":42,"more":[]}"#;
        let event: Event = serde_json::from_str(short).expect("an event");
        assert_eq!(
            (event.entity.eid.as_str(), event.delta, event.ts),
            ("7", -1, 0)
        );
    }

    #[test]
    fn logs_have_events_of_shards_and_clients_send_none() {
        use crate::domain::event::{Envelope, GroupEvent, Journal, NewAuthor};
        let json = r#"{"etype":"note","eid":"7~12.3","metric":"like","delta":1,"uid":"42","ts":5}"#;
        let event: Event = serde_json::from_str(json).expect("an event");
        assert_eq!(event.to_json(), json);
        let group = r#"{"etype":"note","eid":"7~12.3","metric":"like","delta":1,"uids":["42"]}"#;
        let group: GroupEvent = serde_json::from_str(group).expect("a group");
        assert_eq!(group.into_events()[0].entity, event.entity);
        let author = r#"{"etype":"note","eid":"7~12.3","to":"9"}"#;
        let author: NewAuthor = serde_json::from_str(author).expect("an author");
        assert_eq!(author.entity, event.entity);
        let journal = r#"{"etype":"note","eid":"7~12.3","why":"merge","ts":5}"#;
        let journal: Journal = serde_json::from_str(journal).expect("an entry");
        assert_eq!(journal.entity(), event.entity);
        for other in ["7~12", "7~12.64", "7~12.3~", "~1.2", "7~a.b"] {
            let other = json.replace("7~12.3", other);
            assert!(serde_json::from_str::<Event>(&other).is_err(), "{other}");
        }
        assert!(serde_json::from_str::<Entity>(r#"{"etype":"note","eid":"7~12.3"}"#).is_err());
        let envelope = r#"{"event_id":"1","event_type":"like","aggregate_type":"note","aggregate_id":"7~12.3","payload":{"delta":1,"uid":"42"}}"#;
        assert!(serde_json::from_str::<Envelope<'_>>(envelope).is_err());
    }

    #[test]
    fn an_event_keeps_known_fields_and_a_truncated_trace_id() {
        let padding = "[".repeat(1_000) + &"]".repeat(1_000);
        let trace = "\u{20ac}".repeat(1_000);
        let json = format!(
            r#"{{"etype":"note","eid":7,"metric":"read","delta":1,"uid":42,"more":{padding},"traceId":"{trace}"}}"#
        );
        let event: Event = serde_json::from_str(&json).expect("an event");
        let kept = event.to_json();
        assert_eq!(serde_json::from_str::<Event>(&kept).ok(), Some(event));
        let trace = "\u{20ac}".repeat(MAX_TRACE / 3);
        let expected = format!(
            r#"{{"etype":"note","eid":"7","metric":"read","delta":1,"uid":"42","traceId":"{trace}","ts":0}}"#
        );
        assert_eq!(kept, expected);
    }
}
