//! What the log holds: events, as JSON.

mod envelope;

use envelope::Stored;
pub use envelope::{Envelope, InvalidEvent, PayloadForm};

use crate::domain::config::UserCounter;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;
use crate::domain::text::start;
use compact_str::CompactString;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most that one event adds or subtracts: the largest value of a counter.
pub const MAX_DELTA: i64 = (1 << 40) - 1;

/// So many bytes of a trace id are kept.
pub const MAX_TRACE: usize = 128;

/// Somebody did something to an entity. Fields that are not known here are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Flat")]
pub struct Event {
    /// The schema of the entity's counters; without it, that of its type in the configuration.
    pub schema: Option<Name>,
    /// The entity.
    pub entity: Entity,
    /// What was done, by its name in the schema.
    pub metric: Name,
    /// What that adds to the counter: -[`MAX_DELTA`] to [`MAX_DELTA`].
    pub delta: i64,
    /// Who did it.
    pub uid: Id,
    /// Whose entity it is.
    pub author: Option<Id>,
    /// Ties together what belongs to one request.
    pub trace_id: Option<CompactString>,
    /// When, in milliseconds since 1970.
    pub ts: u64,
    /// The entity's counter has changed already, in the same step that wrote this event; only users' counters are to follow.
    pub counted: bool,
}

/// The start of a trace id: nothing is counted by it, so a long one is no reason to refuse an event.
struct TraceId(CompactString);

impl<'de> Deserialize<'de> for TraceId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<TraceId, D::Error> {
        struct Start;

        impl Visitor<'_> for Start {
            type Value = TraceId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TraceId, E> {
                Ok(TraceId(start(text, MAX_TRACE).into()))
            }
        }

        from.deserialize_str(Start)
    }
}

/// An event as JSON has it: `serde(flatten)` for the entity would cost more than all else that reading one takes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Flat {
    #[serde(default)]
    schema: Option<Name>,
    etype: Name,
    eid: Id,
    metric: Name,
    delta: i64,
    uid: Id,
    #[serde(default)]
    author: Option<Id>,
    #[serde(default)]
    trace_id: Option<TraceId>,
    #[serde(default)]
    ts: u64,
    #[serde(default)]
    counted: bool,
}

impl From<Flat> for Event {
    fn from(flat: Flat) -> Event {
        Event {
            schema: flat.schema,
            entity: Entity {
                etype: flat.etype,
                eid: flat.eid,
            },
            metric: flat.metric,
            delta: flat.delta,
            uid: flat.uid,
            author: flat.author,
            trace_id: flat.trace_id.map(|TraceId(id)| id),
            ts: flat.ts,
            counted: flat.counted,
        }
    }
}

/// The same the other way round, with what is absent left out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<&'a Name>,
    etype: &'a Name,
    eid: &'a Id,
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

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let written = Written {
            schema: self.schema.as_ref(),
            etype: &self.entity.etype,
            eid: &self.entity.eid,
            metric: &self.metric,
            delta: self.delta,
            uid: &self.uid,
            author: self.author.as_ref(),
            trace_id: self.trace_id.as_deref(),
            ts: self.ts,
            counted: self.counted,
        };
        written.serialize(to)
    }
}

impl Event {
    /// Its form in the log.
    pub fn to_json(&self) -> String {
        String::from_utf8(written(self)).unwrap_or_default()
    }

    /// The form in the log of an envelope with it. What else the envelope held is not kept.
    pub fn to_envelope(&self, event_id: &Id, event_type: &str) -> Vec<u8> {
        written(&Stored::new(event_id, event_type, self))
    }

    /// Whether its delta is one that can be counted.
    pub fn is_in_range(&self) -> bool {
        self.delta.unsigned_abs() <= MAX_DELTA.unsigned_abs()
    }
}

fn written(value: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::with_capacity(JSON_BYTES);
    // Strings and numbers only, into memory: nothing that could fail.
    let _ = serde_json::to_writer(&mut json, value);
    json
}

/// Most events are shorter in JSON.
const JSON_BYTES: usize = 256;

/// The most additions of a derived event that countd writes.
pub const MAX_ADDS: usize = 1_000;

/// What the events of one partition do to the counters of users that lie in another slot of a cluster. It is written in the
/// transaction that counts those events, and handed over to the log of the users' partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "FlatDerived")]
pub struct Derived {
    /// Where it comes from. Without a source it is not a repetition of anything and is counted as it stands: so is one
    /// that was taken out of the dead letters.
    #[serde(flatten)]
    pub source: Option<Source>,
    /// User, counter, what is added.
    pub adds: Vec<(Id, UserCounter, i64)>,
}

/// A derived event as JSON has it. An optional source that is flattened would be absent where it is malformed, and the event would
/// count without a fence.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlatDerived {
    #[serde(default, deserialize_with = "present")]
    from: Option<Partition>,
    #[serde(default, deserialize_with = "present")]
    seq: Option<u64>,
    adds: Vec<(Id, UserCounter, i64)>,
}

/// A field that is there: null is no absent one.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl TryFrom<FlatDerived> for Derived {
    type Error = &'static str;

    fn try_from(flat: FlatDerived) -> Result<Derived, &'static str> {
        let source = match (flat.from, flat.seq) {
            (Some(from), Some(seq)) => Some(Source { from, seq }),
            (None, None) => None,
            _ => return Err("one of from and seq is missing"),
        };
        let adds = flat.adds;
        Ok(Derived { source, adds })
    }
}

/// Where a derived event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The partition that wrote it.
    pub from: Partition,
    /// Its offset there, in the outbox: later ones are greater.
    pub seq: u64,
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
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
    fn an_event_keeps_what_is_known_of_it_and_the_start_of_its_trace_id() {
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

    #[test]
    fn derived_events_come_back_as_they_were() {
        let uid = Id::new("42").expect("an id");
        for source in [None, Some(Source { from: 3, seq: 9 })] {
            let derived = Derived {
                source,
                adds: vec![(uid.clone(), UserCounter::LikesReceived, -2)],
            };
            let json = serde_json::to_string(&derived).expect("JSON");
            assert_eq!(
                serde_json::from_str::<Derived>(&json).ok(),
                Some(derived),
                "{json}"
            );
        }
    }

    #[test]
    fn a_malformed_source_is_not_an_absent_one() {
        for source in [
            r#""from":"3","seq":9"#,
            r#""from":3,"seq":"9""#,
            r#""from":3,"seq":-1"#,
            r#""from":3,"seq":9.5"#,
            r#""from":3,"seq":18446744073709551616"#,
            r#""from":65536,"seq":9"#,
            r#""from":null,"seq":null"#,
            r#""from":3"#,
            r#""seq":9"#,
            r#""from":3,"from":3,"seq":9"#,
            r#""From":3,"Seq":9"#,
        ] {
            let json = format!(r#"{{{source},"adds":[["42","likesReceived",1]]}}"#);
            let read = serde_json::from_str::<Derived>(&json);
            assert!(read.is_err(), "{json}: {read:?}");
        }
    }
}
