//! Events from the outbox of another system, in the envelope that such tables have.

use super::{Event, TraceId};
use crate::domain::ids::{Entity, Id, MAX_EXACT, Name};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Number;
use serde_json::value::RawValue;
use std::borrow::Cow;
use utoipa::ToSchema;

/// The longest type of an event, in bytes.
const MAX_TYPE: usize = 256;

/// A row of an outbox. Sent again within the window (`dedup.event_window_seconds`), it counts once.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Envelope<'a> {
    /// What it is known by: unique among all events.
    pub event_id: Id,
    /// What happened, 1 to 256 bytes. It is the metric where the payload names none.
    #[schema(
        min_length = 1,
        max_length = 256,
        pattern = "^[ -~]+$",
        example = "like"
    )]
    #[serde(borrow)]
    pub event_type: Cow<'a, str>,
    /// The type of the entity.
    pub aggregate_type: Name,
    /// The id of the entity.
    pub aggregate_id: Id,
    /// The event.
    #[serde(borrow)]
    #[schema(value_type = PayloadForm)]
    pub payload: &'a RawValue,
}

/// Why there is no event in an envelope.
#[derive(Debug, thiserror::Error)]
pub enum InvalidEvent {
    /// The type is empty or too long.
    #[error("event_type: 1 to 256 printable ASCII characters")]
    Type,
    /// The payload is none.
    #[error("payload: {0}")]
    Payload(serde_json::Error),
    /// The payload is a text, but what it holds is none.
    #[error("payload: its text: {0}")]
    Text(serde_json::Error),
    /// The payload is neither an object nor a text.
    #[error("payload: neither an object nor a string that holds one")]
    Form,
    /// The payload speaks of another entity.
    #[error("payload: {0} is not that of the aggregate")]
    Other(&'static str),
    /// The payload names no metric, and the type is none either.
    #[error("payload: it names no metric, and event_type is none")]
    Metric,
}

/// What stands in an envelope: an event, or the same as a string, since outbox tables often keep text.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[allow(
    dead_code,
    reason = "it describes; payloads are read where they are used"
)]
pub enum PayloadForm {
    /// An event.
    Event(Payload),
    /// The JSON of an event.
    Text(String),
}

/// An event as it stands in an envelope. Fields that are not known here are ignored.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Payload {
    /// The schema of the entity's counters; without it, that of its type in the configuration.
    schema: Option<Name>,
    /// The type of the entity. The envelope says it already.
    etype: Option<Name>,
    /// The id of the entity. The envelope says it already.
    eid: Option<Id>,
    /// What was done, by its name in the schema; without it, `event_type` is it.
    metric: Option<Name>,
    /// What that adds to the counter.
    #[serde(deserialize_with = "integer")]
    #[schema(minimum = -1_099_511_627_775_i64, maximum = 1_099_511_627_775_i64)]
    delta: i64,
    /// Who did it.
    uid: Id,
    /// Whose entity it is.
    author: Option<Id>,
    /// Ties together what belongs to one request. Its first 128 bytes are kept.
    #[schema(value_type = Option<String>)]
    trace_id: Option<TraceId>,
    /// When, in milliseconds since 1970.
    #[serde(default, deserialize_with = "time")]
    #[schema(maximum = 9_007_199_254_740_991_i64)]
    ts: u64,
    /// The entity's counter has changed already; only users' counters are to follow.
    #[serde(default)]
    counted: bool,
}

/// A whole number, also as 7.0, which is 7 in JSON.
fn integer<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let number = Number::deserialize(from)?;
    let whole =
        |number: f64| (number.fract() == 0.0 && number.abs() <= MAX_EXACT).then_some(number as i64);
    let found = number.as_i64().or_else(|| number.as_f64().and_then(whole));
    found.ok_or_else(|| de::Error::custom(format!("{number} is no integer of 64 bits")))
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let time = integer(from)?;
    u64::try_from(time).map_err(|_| de::Error::custom("ts: before 1970"))
}

/// An envelope as the log keeps it. Its payload names the metric.
#[derive(Serialize)]
pub(super) struct Stored<'a> {
    event_id: &'a Id,
    event_type: &'a str,
    aggregate_type: &'a Name,
    aggregate_id: &'a Id,
    payload: StoredPayload<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredPayload<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<&'a Name>,
    metric: &'a Name,
    delta: i64,
    uid: &'a Id,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<&'a Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
    ts: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    counted: bool,
}

impl<'a> Stored<'a> {
    pub(super) fn new(event_id: &'a Id, event_type: &'a str, event: &'a Event) -> Stored<'a> {
        Stored {
            event_id,
            event_type,
            aggregate_type: &event.entity.etype,
            aggregate_id: &event.entity.eid,
            payload: StoredPayload {
                schema: event.schema.as_ref(),
                metric: &event.metric,
                delta: event.delta,
                uid: &event.uid,
                author: event.author.as_ref(),
                trace_id: event.trace_id.as_deref(),
                ts: event.ts,
                counted: event.counted,
            },
        }
    }
}

impl Envelope<'_> {
    /// The event in it.
    ///
    /// # Errors
    /// There is none.
    pub fn event(&self) -> Result<Event, InvalidEvent> {
        let is_type = |text: &str| text.bytes().all(|b| matches!(b, b' '..=b'~'));
        if !(1..=MAX_TYPE).contains(&self.event_type.len()) || !is_type(&self.event_type) {
            return Err(InvalidEvent::Type);
        }
        let json = self.payload.get();
        let payload = match json.as_bytes().first() {
            Some(b'"') => {
                let text: String = serde_json::from_str(json).map_err(InvalidEvent::Payload)?;
                serde_json::from_str::<Payload>(&text).map_err(InvalidEvent::Text)?
            }
            Some(b'{') => serde_json::from_str::<Payload>(json).map_err(InvalidEvent::Payload)?,
            _ => return Err(InvalidEvent::Form),
        };
        if payload
            .etype
            .is_some_and(|etype| etype != self.aggregate_type)
        {
            return Err(InvalidEvent::Other("etype"));
        }
        if payload.eid.is_some_and(|eid| eid != self.aggregate_id) {
            return Err(InvalidEvent::Other("eid"));
        }
        let by_type = || Name::new(&*self.event_type).map_err(|_| InvalidEvent::Metric);
        Ok(Event {
            schema: payload.schema,
            entity: Entity {
                etype: self.aggregate_type.clone(),
                eid: self.aggregate_id.clone(),
            },
            metric: payload.metric.map_or_else(by_type, Ok)?,
            delta: payload.delta,
            uid: payload.uid,
            author: payload.author,
            trace_id: payload.trace_id.map(|TraceId(id)| id),
            ts: payload.ts,
            counted: payload.counted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(json: &str) -> Result<Event, String> {
        let envelope: Envelope<'_> = serde_json::from_str(json).map_err(|why| why.to_string())?;
        envelope.event().map_err(|why| why.to_string())
    }

    fn envelope(event_type: &str, payload: &str) -> String {
        format!(
            r#"{{"event_id":"e-1","event_type":"{event_type}","aggregate_type":"note","aggregate_id":7,"payload":{payload}}}"#
        )
    }

    #[test]
    fn an_event_is_there_as_an_object_and_as_text() {
        let object = r#"{"metric":"like","delta":1,"uid":42,"author":9,"ts":5,"more":[]}"#;
        let text = serde_json::to_string(object).expect("JSON");
        let [object, text] = [object, &text].map(|payload| event(&envelope("NoteLiked", payload)));
        let found = object.expect("an event");
        assert_eq!(Some(&found), text.ok().as_ref());
        let json = r#"{"etype":"note","eid":"7","metric":"like","delta":1,"uid":"42","author":"9","ts":5}"#;
        assert_eq!(found.to_json(), json);
    }

    #[test]
    fn the_type_is_the_metric_where_the_payload_names_none() {
        let payload = r#"{"etype":"note","eid":"7","delta":-1.0,"uid":42.0}"#;
        let found = event(&envelope("like", payload)).expect("an event");
        assert_eq!((found.metric.as_str(), found.delta), ("like", -1));
        let why = event(&envelope("note.liked/v1", payload)).expect_err("no metric");
        assert!(why.contains("names no metric"), "{why}");
    }

    #[test]
    fn what_is_stored_is_the_same_event_without_what_is_not_known() {
        let payload = r#"{"more":[[{"":0}],"x"],"delta":-1,"uid":42,"author":9,"ts":5,"schema":"v1","counted":true,"traceId":"t"}"#;
        for event_type in ["like", "note.liked/v1"] {
            let payload = match event_type {
                "like" => payload.to_owned(),
                _ => payload.replacen('{', r#"{"metric":"like","#, 1),
            };
            let sent = envelope(event_type, &payload);
            let found = event(&sent).expect("an event");
            let id = Id::new("e-1").expect("an id");
            let stored = found.to_envelope(&id, event_type);
            let stored = String::from_utf8(stored).expect("a text");
            assert_eq!(event(&stored), Ok(found), "{stored}");
            assert_eq!(
                stored,
                format!(
                    r#"{{"event_id":"e-1","event_type":"{event_type}","aggregate_type":"note","aggregate_id":"7","payload":{{"schema":"v1","metric":"like","delta":-1,"uid":"42","author":"9","traceId":"t","ts":5,"counted":true}}}}"#
                )
            );
        }
    }

    #[test]
    fn what_is_no_envelope_says_why() {
        let good = r#"{"delta":1,"uid":1}"#;
        for (json, part) in [
            (envelope("", good), "event_type"),
            (envelope(&"x".repeat(257), good), "event_type"),
            (envelope("like", "[]"), "neither"),
            (envelope("like", "5"), "neither"),
            (envelope("like", r#""text""#), "payload"),
            (envelope("like", r#"{"uid":1}"#), "delta"),
            (envelope("like", r#"{"delta":1}"#), "uid"),
            (envelope("like", r#"{"delta":1.5,"uid":1}"#), "no integer"),
            (envelope("like", r#"{"delta":1e300,"uid":1}"#), "no integer"),
            (envelope("like", r#"{"delta":"1","uid":1}"#), "payload"),
            (
                envelope("like", r#"{"delta":1,"uid":1,"ts":-1}"#),
                "before 1970",
            ),
            (
                envelope("like", r#"{"delta":1,"uid":1,"eid":8}"#),
                "eid is not",
            ),
            (
                envelope("like", r#"{"delta":1,"uid":1,"etype":"x"}"#),
                "etype is not",
            ),
            (envelope("like", good).replace("e-1", "a:b"), "an id"),
            (
                envelope("like", good).replace("event_id", "id"),
                "unknown field",
            ),
            (r#"{"event_id":1}"#.to_owned(), "missing field"),
        ] {
            let why = event(&json).expect_err(&json);
            assert!(why.contains(part), "{json}: {why}");
        }
    }
}
