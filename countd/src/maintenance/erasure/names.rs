//! Whether a payload names an entity or a user.

use crate::domain::ids::Entity;
use crate::domain::split::Shard;
use crate::maintenance::jobs::Target;
use serde_json::Value;

/// Replaces an erased ID in entries that are kept.
pub const ERASED: &str = "erased";

/// Whether a byte can be part of an ID.
fn is_id_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(byte)
}

/// The places of an ID in a text, without those in longer IDs.
fn places<'a>(text: &'a str, id: &'a str) -> impl Iterator<Item = usize> + 'a {
    let found = text.match_indices(id).map(|(at, _)| at);
    found.filter(move |at| {
        let (before, after) = (&text.as_bytes()[..*at], &text.as_bytes()[at + id.len()..]);
        !before.last().is_some_and(is_id_byte) && !after.first().is_some_and(is_id_byte)
    })
}

/// Whether a text has an ID as a word.
pub fn has_id(text: &str, id: &str) -> bool {
    places(text, id).next().is_some()
}

/// A text with [`ERASED`] in the places of an ID.
pub fn without_id(text: &str, id: &str) -> String {
    let (mut result, mut from) = (String::with_capacity(text.len()), 0);
    for at in places(text, id) {
        // Overlapping places: `7.7` in `7.7.7` is no place, so places do not overlap.
        result.push_str(&text[from..at]);
        result.push_str(ERASED);
        from = at + id.len();
    }
    result.push_str(&text[from..]);
    result
}

/// Whether a JSON value is this ID, as a string or a number.
pub fn is_id(value: &Value, id: &str) -> bool {
    match value {
        Value::String(text) => text == id,
        Value::Number(number) => number.to_string() == id,
        _ => false,
    }
}

/// Whether a JSON value is the ID of this entity, or of a shard that it has or had.
fn is_entity(value: &Value, eid: &str) -> bool {
    let is_shard = |text| Shard::parse(text).is_some_and(|(base, _)| base.as_str() == eid);
    is_id(value, eid) || value.as_str().is_some_and(is_shard)
}

/// Whether a change of a fact (user, metric, type and ID of the entity) is one on this entity.
pub fn is_on(rev: &Value, etype: &str, eid: &str) -> bool {
    rev[2] == etype && is_entity(&rev[3], eid)
}

/// Whether the payload of an entry names a target.
pub fn names(target: &Target, payload: &[u8]) -> bool {
    match target {
        Target::User(uid) => has_id(&String::from_utf8_lossy(payload), uid.as_str()),
        Target::Entity(Entity { etype, eid }) => {
            let Ok(value) = serde_json::from_slice::<Value>(payload) else {
                return false;
            };
            let is = |etype_field: &str, eid_field: &str| {
                value[etype_field] == etype.as_str() && is_entity(&value[eid_field], eid.as_str())
            };
            let revs = value["revs"].as_array().into_iter().flatten();
            let mut revs = revs.filter(|rev| is_on(rev, etype.as_str(), eid.as_str()));
            is("etype", "eid") || is("aggregate_type", "aggregate_id") || revs.next().is_some()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_as_a_word() {
        for text in [
            r#"{"uid":"42"}"#,
            r#"{"uid":42}"#,
            "42",
            "note:42",
            "a 42 b",
        ] {
            assert!(has_id(text, "42"), "{text}");
        }
        for text in ["142", "421", "4.42", "42-1", "x_42", ""] {
            assert!(!has_id(text, "42"), "{text}");
        }
        assert_eq!(
            without_id("42 is 42, not 142", "42"),
            "erased is erased, not 142"
        );
    }

    #[test]
    fn entities_are_found_in_events_and_envelopes() {
        let target = Target::parse("entity:note:7").expect("a target");
        for payload in [
            r#"{"etype":"note","eid":"7","metric":"like"}"#,
            r#"{"etype":"note","eid":7}"#,
            // A shard.
            r#"{"etype":"note","eid":"7~12.3","metric":"like"}"#,
            r#"{"aggregate_type":"note","aggregate_id":7}"#,
            r#"{"revs":[["1","like","note","8",1,5],["1","like","note","7",1,5]]}"#,
        ] {
            assert!(names(&target, payload.as_bytes()), "{payload}");
        }
        for payload in [
            "",
            "{",
            r#"{"etype":"post","eid":"7"}"#,
            r#"{"etype":"note","eid":"77~12.3"}"#,
            r#"{"etype":"note","eid":"8","uid":"7"}"#,
        ] {
            assert!(!names(&target, payload.as_bytes()), "{payload}");
        }
    }
}
