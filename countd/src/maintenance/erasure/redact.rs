//! What remains of a dead letter when a user is erased.

use super::names::{has_id, is_id};
use crate::domain::config::USER;
use crate::log::EntryKind;
use serde_json::Value;

/// What remains of a dead letter.
#[derive(Debug, PartialEq, Eq)]
pub enum Redaction {
    /// Nothing: it is only about the user.
    Drop,
    /// A payload that does not name the user.
    Replace(String),
}

/// Removes a user from the payload of a dead letter.
pub fn redact(kind: EntryKind, payload: &[u8], uid: &str) -> Redaction {
    let Ok(mut value) = serde_json::from_slice::<Value>(payload) else {
        return Redaction::Drop;
    };
    let is_kept = match kind {
        EntryKind::Event => redact_event(&mut value, uid),
        EntryKind::Envelope => match value.get_mut("payload") {
            Some(payload) => redact_event(payload, uid),
            None => false,
        },
        EntryKind::Derived => redact_derived(&mut value, uid),
        EntryKind::Author => redact_author(&mut value, uid),
        EntryKind::Reread => redact_reread(&mut value, uid),
        EntryKind::Unknown => false,
    };
    let text = value.to_string();
    match is_kept && !has_id(&text, uid) {
        true => Redaction::Replace(text),
        false => Redaction::Drop,
    }
}

/// An event of the user, or on the user, is dropped. An event that names the user as the author names nobody any more.
fn redact_event(event: &mut Value, uid: &str) -> bool {
    let Some(fields) = event.as_object_mut() else {
        return false;
    };
    let is = |name: &str| fields.get(name).is_some_and(|value| is_id(value, uid));
    let is_on_user = fields.get("etype").is_some_and(|etype| etype == USER);
    if is("uid") || is_on_user && is("eid") {
        return false;
    }
    fields.retain(|name, value| !(name == "author" && is_id(value, uid) || name == "traceId"));
    true
}

/// The increments, and the changes of facts, of other users are kept.
fn redact_derived(derived: &mut Value, uid: &str) -> bool {
    let mut is_kept = false;
    if let Some(adds) = derived.get_mut("adds").and_then(Value::as_array_mut) {
        adds.retain(|add| !is_id(&add[0], uid));
        is_kept |= !adds.is_empty();
    }
    if let Some(revs) = derived.get_mut("revs").and_then(Value::as_array_mut) {
        // User, metric, type and ID of the entity.
        revs.retain(|rev| !is_id(&rev[0], uid) && !(rev[2] == USER && is_id(&rev[3], uid)));
        is_kept |= !revs.is_empty();
    }
    is_kept
}

/// The facts of other users are read again.
fn redact_reread(reread: &mut Value, uid: &str) -> bool {
    if reread["etype"] == USER && is_id(&reread["eid"], uid) {
        return false;
    }
    let Some(uids) = reread.get_mut("uids").and_then(Value::as_array_mut) else {
        return false;
    };
    uids.retain(|other| !is_id(other, uid));
    !uids.is_empty()
}

/// The new author is credited, without what is taken back from the user.
fn redact_author(author: &mut Value, uid: &str) -> bool {
    let Some(fields) = author.as_object_mut() else {
        return false;
    };
    if fields.get("from").is_some_and(|from| is_id(from, uid)) {
        fields.remove("from");
        fields.remove("amounts");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_others_is_kept() {
        for (kind, payload, expected) in [
            (
                EntryKind::Event,
                r#"{"uid":"42","etype":"note","eid":"1"}"#,
                None,
            ),
            (
                EntryKind::Event,
                r#"{"uid":"1","etype":"user","eid":"42"}"#,
                None,
            ),
            (
                EntryKind::Event,
                r#"{"author":"42","eid":"1","etype":"note","traceId":"42","uid":"9"}"#,
                Some(r#"{"eid":"1","etype":"note","uid":"9"}"#),
            ),
            (
                EntryKind::Envelope,
                r#"{"aggregate_id":1,"payload":{"author":42,"uid":9}}"#,
                Some(r#"{"aggregate_id":1,"payload":{"uid":9}}"#),
            ),
            (
                EntryKind::Derived,
                r#"{"adds":[["42","followers",1],["9","followings",1]]}"#,
                Some(r#"{"adds":[["9","followings",1]]}"#),
            ),
            (
                EntryKind::Derived,
                r#"{"adds":[["42","followers",1]]}"#,
                None,
            ),
            (
                EntryKind::Author,
                r#"{"amounts":[["like",3]],"eid":"1","etype":"note","from":"42"}"#,
                Some(r#"{"eid":"1","etype":"note"}"#),
            ),
            (
                EntryKind::Derived,
                r#"{"revs":[["42","like","note","7",1,5],["9","follow","user","42",1,5],["9","like","note","43",1,5]]}"#,
                Some(r#"{"revs":[["9","like","note","43",1,5]]}"#),
            ),
            (
                EntryKind::Reread,
                r#"{"eid":"7","etype":"note","metric":"like","uids":["42","9"]}"#,
                Some(r#"{"eid":"7","etype":"note","metric":"like","uids":["9"]}"#),
            ),
            (
                EntryKind::Reread,
                r#"{"eid":"42","etype":"user","metric":"follow","uids":["9"]}"#,
                None,
            ),
            (EntryKind::Unknown, r#"{"uid":"42"}"#, None),
            (EntryKind::Event, "{42", None),
        ] {
            let expected =
                expected.map_or(Redaction::Drop, |text| Redaction::Replace(text.to_owned()));
            assert_eq!(
                redact(kind, payload.as_bytes(), "42"),
                expected,
                "{payload}"
            );
        }
    }
}
