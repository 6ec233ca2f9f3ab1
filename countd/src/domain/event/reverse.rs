//! Changes of facts, as the log carries them to the users of the facts.

use crate::domain::ids::{Entity, Id, Name, stored_id};
use serde::{Deserialize, Serialize};

/// The maximum number of changes in a derived event that countd writes.
pub const MAX_REVS: usize = 200;

/// Whether a user has performed a metric on an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RevFields", into = "RevFields")]
pub struct Rev {
    /// The user.
    pub uid: Id,
    /// The metric.
    pub metric: Name,
    /// The entity.
    pub entity: Entity,
    /// Whether the fact exists.
    pub exists: bool,
    /// The time of the action in milliseconds since 1970; 0 if it is not known.
    pub ts: u64,
    /// Whether a check has read the fact, rather than an action changed it.
    pub is_verified: bool,
}

/// The JSON form: user, metric, type and ID of the entity, state, time.
type RevFields = (Id, Name, Name, Id, State, u64);

/// Whether a fact exists: 0 or 1 after an action; 2 (it does not) or 3 (it does) if a check has read it.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
struct State(u8);

impl TryFrom<u8> for State {
    type Error = &'static str;

    fn try_from(state: u8) -> Result<State, &'static str> {
        match state {
            0..=3 => Ok(State(state)),
            _ => Err("not the state of a fact"),
        }
    }
}

impl From<State> for u8 {
    fn from(State(state): State) -> u8 {
        state
    }
}

impl From<RevFields> for Rev {
    fn from((uid, metric, etype, eid, State(state), ts): RevFields) -> Rev {
        Rev {
            uid,
            metric,
            entity: Entity { etype, eid },
            exists: state % 2 == 1,
            ts,
            is_verified: state >= 2,
        }
    }
}

impl From<Rev> for RevFields {
    fn from(rev: Rev) -> RevFields {
        let Entity { etype, eid } = rev.entity;
        let state = u8::from(rev.exists) + 2 * u8::from(rev.is_verified);
        (rev.uid, rev.metric, etype, eid, State(state), rev.ts)
    }
}

/// A log entry that asks for the facts of users on an entity to be read again. The consumer reads them when it reaches the entry, so
/// what it finds includes every change before the entry. Later changes follow in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reread {
    /// The metric.
    pub metric: Name,
    /// The type of the entity.
    pub etype: Name,
    /// The ID of the entity.
    #[serde(deserialize_with = "stored_id")]
    pub eid: Id,
    /// The users.
    pub uids: Vec<Id>,
}

impl Reread {
    /// The JSON form in the log.
    pub fn to_json(&self) -> Vec<u8> {
        // Strings can always be serialized.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_documented_form() {
        let json = r#"["42","like","note","7",1,5]"#;
        let rev: Rev = serde_json::from_str(json).expect("a change");
        assert!(rev.exists && rev.entity.eid.as_str() == "7" && rev.ts == 5);
        assert_eq!(serde_json::to_string(&rev).ok().as_deref(), Some(json));
        let verified = r#"["42","like","note","7",3,0]"#;
        let rev: Rev = serde_json::from_str(verified).expect("a change");
        assert!(rev.exists && rev.is_verified);
        assert_eq!(serde_json::to_string(&rev).ok().as_deref(), Some(verified));
        for json in [
            r#"["42","like","note","7",4,5]"#,
            r#"["42","like","note","7",1,-5]"#,
            r#"["42","like","note","7",1]"#,
            r#"["4:2","like","note","7",1,5]"#,
        ] {
            assert!(serde_json::from_str::<Rev>(json).is_err(), "{json}");
        }
        let json = r#"{"metric":"like","etype":"note","eid":"7","uids":["42"]}"#;
        let reread: Reread = serde_json::from_str(json).expect("an entry");
        assert_eq!(reread.to_json(), json.as_bytes());
    }
}
