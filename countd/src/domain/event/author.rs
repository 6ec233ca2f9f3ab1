//! The log entry of a new author of an entity.

use crate::domain::author_feed::AuthorFeed;
use crate::domain::ids::{Entity, Id, stored_entity};
use serde::{Deserialize, Serialize};

/// An entity has a new author, or none any more. The step that changes the author appends it. The consumer takes back what the former
/// author was credited with, and credits the new one with the entity's counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAuthor {
    /// The entity.
    #[serde(flatten, deserialize_with = "stored_entity")]
    pub entity: Entity,
    /// The former author, if they were credited with anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Id>,
    /// What the former author was credited with: metrics and counters of the author, and how much of the entity's counter each got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amounts: Vec<(AuthorFeed, i64)>,
    /// The last sweep that has added the amounts to its sums; 0 without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sweep: u32,
    /// The new author; empty if there is none any more. Entries of older versions do not name them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whether the author stays the same: a counter was corrected, and the consumer compares it with what the author was credited with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(sweep: &u32) -> bool {
    *sweep == 0
}

impl NewAuthor {
    /// An entry without a former author: the consumer compares the entity's counters with what its author was credited with.
    pub fn unchanged(entity: &Entity) -> NewAuthor {
        NewAuthor {
            entity: entity.clone(),
            from: None,
            amounts: Vec::new(),
            sweep: 0,
            to: None,
            unchanged: true,
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
        for json in [
            r#"{"etype":"note","eid":"7"}"#,
            r#"{"etype":"note","eid":"7","from":"9","amounts":[["like",3]],"sweep":12}"#,
            r#"{"etype":"note","eid":"7","from":"9","amounts":[["like",3],["fav>favsReceived",1099511627775]],"to":""}"#,
            r#"{"etype":"note","eid":"7","to":"42"}"#,
        ] {
            let entry: NewAuthor = serde_json::from_str(json).expect("an entry");
            assert_eq!(serde_json::to_string(&entry).ok().as_deref(), Some(json));
        }
    }

    #[test]
    fn malformed_entries_are_rejected() {
        for json in [
            "{}",
            r#"{"etype":"note"}"#,
            r#"{"etype":"note","eid":"a:b"}"#,
            r#"{"etype":"note","eid":"7","from":"9","amounts":[["like"]]}"#,
            r#"{"etype":"note","eid":"7","from":"9","amounts":[["like",1.5]]}"#,
        ] {
            assert!(serde_json::from_str::<NewAuthor>(json).is_err(), "{json}");
        }
    }
}
