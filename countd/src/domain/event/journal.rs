//! The log entry of a change of counters that no event made.

use super::timestamp::now_ms;
use crate::domain::ids::{Entity, Id, Name, stored_id};
use serde::{Deserialize, Serialize};

/// Why counters changed without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// A client has reset a counter.
    Reset,
    /// An operator has adjusted a counter.
    Adjust,
    /// Counts were imported.
    Import,
    /// The counters were deleted.
    Erase,
    /// The counters of a split entity were merged.
    Merge,
    /// A wrong counter was corrected.
    Repair,
}

/// A change of counters of an entity or a user, which the step that changes them appends. The consumer counts nothing from it; it credits
/// the author of the entity with the difference. A restore applies it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// The entity. The counters of a user have the type `user`.
    pub etype: Name,
    /// Its ID.
    #[serde(deserialize_with = "stored_id")]
    pub eid: Id,
    /// Why they changed.
    pub why: Cause,
    /// When, in milliseconds since 1970.
    pub ts: u64,
    /// Counter and difference. All counters were deleted if the cause is [`Erase`](Cause::Erase).
    #[serde(default)]
    pub changes: Vec<(Name, i64)>,
    /// Of an erasure, if the data has a topic: the offset of the first record of its partition of the topic that was not counted before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<u64>,
}

impl Journal {
    /// The entity.
    pub fn entity(&self) -> Entity {
        Entity {
            etype: self.etype.clone(),
            eid: self.eid.clone(),
        }
    }

    /// The entry of a script that changes one counter, up to the difference, which the script adds.
    pub fn of_change(entity: &Entity, why: Cause, ts: u64, counter: &Name) -> String {
        let entry = Journal {
            etype: entity.etype.clone(),
            eid: entity.eid.clone(),
            why,
            ts,
            changes: vec![(counter.clone(), 0)],
            topic: None,
        };
        let mut entry = entry.to_json();
        entry.truncate(entry.len() - "0]]}".len());
        entry
    }

    /// The entry of a script that changes counters, up to the changes, which the script adds.
    pub fn of_changes(entity: &Entity, why: Cause, ts: u64) -> String {
        let mut entry = Journal {
            etype: entity.etype.clone(),
            eid: entity.eid.clone(),
            why,
            ts,
            changes: Vec::new(),
            topic: None,
        }
        .to_json();
        entry.truncate(entry.len() - "]}".len());
        entry
    }

    /// The entry of counters that are deleted.
    pub fn of_erasure(entity: &Entity) -> Journal {
        Journal {
            etype: entity.etype.clone(),
            eid: entity.eid.clone(),
            why: Cause::Erase,
            ts: now_ms(),
            changes: Vec::new(),
            topic: None,
        }
    }

    /// The JSON form in the log.
    pub fn to_json(&self) -> String {
        // Strings and numbers can always be serialized.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_form_that_scripts_write() {
        let note = Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new("7").expect("an ID"),
        };
        let read = Name::new("read").expect("a name");
        let entry = Journal::of_change(&note, Cause::Reset, 5, &read) + "-12]]}";
        let json = r#"{"etype":"note","eid":"7","why":"reset","ts":5,"changes":[["read",-12]]}"#;
        assert_eq!(entry, json);
        let parsed: Journal = serde_json::from_str(&entry).expect("an entry");
        assert_eq!(parsed.changes, [(read, -12)]);
        assert_eq!(parsed.entity(), note);
        for json in [
            r#"{"etype":"note","eid":"7","why":"reset"}"#,
            r#"{"etype":"note","eid":"7","why":"theft","ts":5}"#,
            r#"{"etype":"note","eid":"7","why":"reset","ts":5,"changes":[["read",1.5]]}"#,
        ] {
            assert!(serde_json::from_str::<Journal>(json).is_err(), "{json}");
        }
    }
}
