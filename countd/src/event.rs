//! What the log holds: events, as JSON.

mod envelope;

pub use envelope::{Envelope, NoEvent, PayloadForm};

use crate::config::UserCounter;
use crate::ids::{Entity, Id, Name};
use crate::keys::Partition;
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// The most that one event adds or subtracts: the largest value of a counter.
pub const MAX_DELTA: i64 = (1 << 40) - 1;

/// Somebody did something to an entity. Fields that are not known here are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The schema of the entity's counters; without it, that of its type in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Name>,
    /// The entity.
    #[serde(flatten)]
    pub entity: Entity,
    /// What was done, by its name in the schema.
    pub metric: Name,
    /// What that adds to the counter: -[`MAX_DELTA`] to [`MAX_DELTA`].
    pub delta: i64,
    /// Who did it.
    pub uid: Id,
    /// Whose entity it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Id>,
    /// Ties together what belongs to one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// When, in milliseconds since 1970.
    #[serde(default)]
    pub ts: u64,
    /// The entity's counter has changed already, in the same step that wrote this event; only users' counters are to follow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
}

impl Event {
    /// Its form in the log.
    pub fn to_json(&self) -> String {
        // Strings and numbers only: nothing that JSON could not hold.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether its delta is one that can be counted.
    pub fn is_in_range(&self) -> bool {
        self.delta.unsigned_abs() <= MAX_DELTA.unsigned_abs()
    }
}

/// What the events of one partition do to the counters of users that lie in another slot of a cluster. It is written in the
/// transaction that counts those events, and handed over to the log of the users' partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Derived {
    /// Where it comes from. Without a source it is not a repetition of anything and is counted as it stands: so is one
    /// that was taken out of the dead letters.
    #[serde(flatten)]
    pub source: Option<Source>,
    /// User, counter, what is added.
    pub adds: Vec<(Id, UserCounter, i64)>,
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
}
