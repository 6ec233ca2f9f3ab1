//! Envelopes: the rows of another system's outbox table, as its relay sends them.

use super::entity_event::{Event, TruncatedTraceId, to_json_bytes};
use crate::domain::ids::{Entity, Id, MAX_EXACT, Name};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Number;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use utoipa::ToSchema;

/// The maximum length of an event type, in bytes.
const MAX_TYPE: usize = 256;

/// A row of an outbox table. If it is sent again within the deduplication window (`dedup.event_window_seconds`), it counts once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Envelope<'a> {
    /// A unique ID of the event, used for deduplication.
    pub event_id: Id,
    /// The type of the event: 1 to 256 printable ASCII characters. It is the metric if the payload does not name one.
    #[schema(
        min_length = 1,
        max_length = 256,
        pattern = "^[ -~]+$",
        example = "like"
    )]
    #[serde(borrow)]
    pub event_type: Cow<'a, str>,
    /// The entity type.
    pub aggregate_type: Name,
    /// The ID of the entity.
    pub aggregate_id: Id,
    /// The event.
    #[serde(borrow)]
    #[schema(value_type = PayloadForm)]
    pub payload: &'a RawValue,
}

/// Why an envelope does not contain a valid event.
#[derive(Debug, thiserror::Error)]
pub enum InvalidEvent {
    /// The event type is empty, too long, or has characters that are not printable ASCII.
    #[error("event_type: must be 1 to 256 printable ASCII characters")]
    EventType,
    /// The payload is not an event.
    #[error("payload: {0}")]
    Payload(serde_json::Error),
    /// The payload is a string that does not contain an event.
    #[error("payload: invalid JSON in the string: {0}")]
    StringPayload(serde_json::Error),
    /// The payload is neither an object nor a string.
    #[error("payload: must be an object, or a string that contains one")]
    PayloadType,
    /// The payload names another entity than the envelope.
    #[error("payload: {0} differs from that of the aggregate")]
    EntityMismatch(&'static str),
    /// The payload does not name a metric, and the event type is not a metric's name.
    #[error("payload: metric is missing, and event_type is not a metric")]
    MissingMetric,
}

/// The payload of an envelope: an event, or a string with its JSON, because many outbox tables store text.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[allow(
    dead_code,
    reason = "schema only: payloads are parsed from their raw form"
)]
pub enum PayloadForm {
    /// An event.
    Event(Payload),
    /// The JSON of an event.
    Text(String),
}

/// The event in an envelope. Unknown fields are ignored.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Payload {
    /// The schema of the entity's counters; by default, the schema of its type in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Name>,
    /// The entity type. If present, it must equal `aggregate_type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    etype: Option<Name>,
    /// The ID of the entity. If present, it must equal `aggregate_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    eid: Option<Id>,
    /// The metric, by its name in the schema; by default, `event_type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<Name>,
    /// The increment of the counter.
    #[serde(deserialize_with = "integer")]
    #[schema(minimum = -1_099_511_627_775_i64, maximum = 1_099_511_627_775_i64)]
    delta: i64,
    /// The user who acts.
    uid: Id,
    /// The author of the entity.
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<Id>,
    /// The trace ID of the request. It is truncated to 128 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    trace_id: Option<TruncatedTraceId>,
    /// The time of the event, in milliseconds since the Unix epoch.
    #[serde(default, deserialize_with = "timestamp")]
    #[schema(maximum = 9_007_199_254_740_991_i64)]
    ts: u64,
    /// Whether the entity's counter already includes the event. If it does, only users' counters are updated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    counted: bool,
}

/// Deserializes an integer. JSON does not distinguish 7.0 from 7.
fn integer<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let number = Number::deserialize(from)?;
    let exact =
        |number: f64| (number.fract() == 0.0 && number.abs() <= MAX_EXACT).then_some(number as i64);
    let value = number.as_i64().or_else(|| number.as_f64().and_then(exact));
    value.ok_or_else(|| de::Error::custom(format!("{number} is not a 64-bit integer")))
}

fn timestamp<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let ts = integer(from)?;
    u64::try_from(ts).map_err(|_| de::Error::custom("ts: must not be negative"))
}

impl Envelope<'_> {
    /// Parses the event.
    ///
    /// # Errors
    /// The payload is invalid, or names another entity.
    pub fn event(&self) -> Result<Event, InvalidEvent> {
        let is_printable = |text: &str| text.bytes().all(|b| matches!(b, b' '..=b'~'));
        if !(1..=MAX_TYPE).contains(&self.event_type.len()) || !is_printable(&self.event_type) {
            return Err(InvalidEvent::EventType);
        }
        let json = self.payload.get();
        let payload = match json.as_bytes().first() {
            Some(b'"') => {
                let text: String = serde_json::from_str(json).map_err(InvalidEvent::Payload)?;
                serde_json::from_str::<Payload>(&text).map_err(InvalidEvent::StringPayload)?
            }
            Some(b'{') => serde_json::from_str::<Payload>(json).map_err(InvalidEvent::Payload)?,
            _ => return Err(InvalidEvent::PayloadType),
        };
        if payload
            .etype
            .is_some_and(|etype| etype != self.aggregate_type)
        {
            return Err(InvalidEvent::EntityMismatch("etype"));
        }
        if payload.eid.is_some_and(|eid| eid != self.aggregate_id) {
            return Err(InvalidEvent::EntityMismatch("eid"));
        }
        let event_type = || Name::new(&*self.event_type).map_err(|_| InvalidEvent::MissingMetric);
        Ok(Event {
            schema: payload.schema,
            entity: Entity {
                etype: self.aggregate_type.clone(),
                eid: self.aggregate_id.clone(),
            },
            metric: payload.metric.map_or_else(event_type, Ok)?,
            delta: payload.delta,
            uid: payload.uid,
            author: payload.author,
            trace_id: payload.trace_id.map(|TruncatedTraceId(id)| id),
            ts: payload.ts,
            counted: payload.counted,
            corrected: Vec::new(),
            retried: None,
        })
    }
}

impl From<&Event> for Payload {
    /// The canonical payload: it names the metric, but not the entity, which the envelope names.
    fn from(event: &Event) -> Payload {
        Payload {
            schema: event.schema.clone(),
            etype: None,
            eid: None,
            metric: Some(event.metric.clone()),
            delta: event.delta,
            uid: event.uid.clone(),
            author: event.author.clone(),
            trace_id: event.trace_id.clone().map(TruncatedTraceId),
            ts: event.ts,
            counted: event.counted,
        }
    }
}

impl Event {
    /// The JSON of an envelope with this event, as the log stores it. It has no unknown fields.
    pub fn to_envelope(&self, event_id: &Id, event_type: &str) -> Vec<u8> {
        // Writing strings and numbers to memory cannot fail.
        let payload = to_raw_value(&Payload::from(self)).unwrap_or_default();
        to_json_bytes(&Envelope {
            event_id: event_id.clone(),
            event_type: Cow::Borrowed(event_type),
            aggregate_type: self.entity.etype.clone(),
            aggregate_id: self.entity.eid.clone(),
            payload: &payload,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(json: &str) -> Result<Event, String> {
        let envelope: Envelope<'_> =
            serde_json::from_str(json).map_err(|error| error.to_string())?;
        envelope.event().map_err(|error| error.to_string())
    }

    fn envelope(event_type: &str, payload: &str) -> String {
        format!(
            r#"{{"event_id":"e-1","event_type":"{event_type}","aggregate_type":"note","aggregate_id":7,"payload":{payload}}}"#
        )
    }

    #[test]
    fn a_payload_is_an_object_or_a_string() {
        let object = r#"{"metric":"like","delta":1,"uid":42,"author":9,"ts":5,"more":[]}"#;
        let text = serde_json::to_string(object).expect("JSON");
        let [object, text] = [object, &text].map(|payload| event(&envelope("NoteLiked", payload)));
        let object = object.expect("an event");
        assert_eq!(Some(&object), text.ok().as_ref());
        let json = r#"{"etype":"note","eid":"7","metric":"like","delta":1,"uid":"42","author":"9","ts":5}"#;
        assert_eq!(object.to_json(), json);
    }

    #[test]
    fn event_type_is_the_default_metric() {
        let payload = r#"{"etype":"note","eid":"7","delta":-1.0,"uid":42.0}"#;
        let parsed = event(&envelope("like", payload)).expect("an event");
        assert_eq!((parsed.metric.as_str(), parsed.delta), ("like", -1));
        let error = event(&envelope("note.liked/v1", payload)).expect_err("no metric");
        assert!(error.contains("metric is missing"), "{error}");
    }

    #[test]
    fn a_stored_envelope_has_the_same_event_without_unknown_fields() {
        let payload = r#"{"more":[[{"":0}],"x"],"delta":-1,"uid":42,"author":9,"ts":5,"schema":"v1","counted":true,"traceId":"t"}"#;
        for event_type in ["like", "note.liked/v1"] {
            let payload = match event_type {
                "like" => payload.to_owned(),
                _ => payload.replacen('{', r#"{"metric":"like","#, 1),
            };
            let sent = envelope(event_type, &payload);
            let parsed = event(&sent).expect("an event");
            let id = Id::new("e-1").expect("an ID");
            let stored = parsed.to_envelope(&id, event_type);
            let stored = String::from_utf8(stored).expect("UTF-8");
            assert_eq!(event(&stored), Ok(parsed), "{stored}");
            assert_eq!(
                stored,
                format!(
                    r#"{{"event_id":"e-1","event_type":"{event_type}","aggregate_type":"note","aggregate_id":"7","payload":{{"schema":"v1","metric":"like","delta":-1,"uid":"42","author":"9","traceId":"t","ts":5,"counted":true}}}}"#
                )
            );
        }
    }

    #[test]
    fn errors_name_the_invalid_part() {
        let good = r#"{"delta":1,"uid":1}"#;
        for (json, part) in [
            (envelope("", good), "event_type"),
            (envelope(&"x".repeat(257), good), "event_type"),
            (envelope("like", "[]"), "must be an object"),
            (envelope("like", "5"), "must be an object"),
            (envelope("like", r#""text""#), "payload"),
            (envelope("like", r#"{"uid":1}"#), "delta"),
            (envelope("like", r#"{"delta":1}"#), "uid"),
            (
                envelope("like", r#"{"delta":1.5,"uid":1}"#),
                "not a 64-bit integer",
            ),
            (
                envelope("like", r#"{"delta":1e300,"uid":1}"#),
                "not a 64-bit integer",
            ),
            (envelope("like", r#"{"delta":"1","uid":1}"#), "payload"),
            (
                envelope("like", r#"{"delta":1,"uid":1,"ts":-1}"#),
                "must not be negative",
            ),
            (
                envelope("like", r#"{"delta":1,"uid":1,"eid":8}"#),
                "eid differs",
            ),
            (
                envelope("like", r#"{"delta":1,"uid":1,"etype":"x"}"#),
                "etype differs",
            ),
            (envelope("like", good).replace("e-1", "a:b"), "an ID"),
            (
                envelope("like", good).replace("event_id", "id"),
                "unknown field",
            ),
            (r#"{"event_id":1}"#.to_owned(), "missing field"),
        ] {
            let error = event(&json).expect_err(&json);
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
