//! What remains of a dead letter when a user is erased.

use super::names::{has_id, is_id, is_on};
use crate::domain::config::USER;
use crate::domain::ids::Entity;
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

impl Redaction {
    /// Whether a payload stays as it is.
    pub fn keeps(&self, payload: &[u8]) -> bool {
        let value = |json: &[u8]| serde_json::from_slice::<Value>(json).ok();
        matches!(self, Redaction::Replace(kept) if value(kept.as_bytes()) == value(payload))
    }
}

/// Removes an entity from the payload of a dead letter. Changes of facts on other entities are kept.
pub fn redact_entity(payload: &[u8], Entity { etype, eid }: &Entity) -> Redaction {
    let Ok(mut value) = serde_json::from_slice::<Value>(payload) else {
        return Redaction::Drop;
    };
    let Some(revs) = value.get_mut("revs").and_then(Value::as_array_mut) else {
        return Redaction::Drop;
    };
    revs.retain(|rev| !is_on(rev, etype.as_str(), eid.as_str()));
    match revs.is_empty() {
        true => Redaction::Drop,
        false => Redaction::Replace(value.to_string()),
    }
}

/// The fields of an event that hold no user, although they may equal the ID of one. `eid` does if the entity is a user.
const OTHER_FIELDS: &[&str] = &[
    "schema", "etype", "eid", "metric", "delta", "ts", "counted", "retried",
];

/// Removes a user from the payload of a dead letter. Only the fields that hold users decide: IDs of entities, amounts and times of other
/// users can be the same number.
pub fn redact(kind: EntryKind, payload: &[u8], uid: &str) -> Redaction {
    let Ok(mut value) = serde_json::from_slice::<Value>(payload) else {
        return Redaction::Drop;
    };
    let is_kept = match kind {
        EntryKind::Event => redact_event(&mut value, uid),
        EntryKind::Group => redact_group(&mut value, uid),
        EntryKind::Envelope => redact_envelope(&mut value, uid),
        EntryKind::Derived => redact_derived(&mut value, uid),
        EntryKind::Author => redact_author(&mut value, uid),
        EntryKind::Reread => redact_reread(&mut value, uid),
        EntryKind::Check => redact_check(&mut value, uid),
        EntryKind::Journal => !is_on_user(&value, uid),
        EntryKind::Unknown => false,
    };
    match is_kept {
        true => Redaction::Replace(value.to_string()),
        false => Redaction::Drop,
    }
}

/// The payload of an envelope is an event, or a text with the JSON of one.
fn redact_envelope(envelope: &mut Value, uid: &str) -> bool {
    if envelope["aggregate_type"] == USER && is_id(&envelope["aggregate_id"], uid) {
        return false;
    }
    let Some(payload) = envelope.get_mut("payload") else {
        return false;
    };
    let Some(text) = payload.as_str() else {
        return redact_event(payload, uid);
    };
    let Ok(mut event) = serde_json::from_str::<Value>(text) else {
        return !has_id(text, uid);
    };
    let is_kept = redact_event(&mut event, uid);
    *payload = Value::String(event.to_string());
    is_kept
}

/// Drops an event whose actor or entity is the user. Removes the author from an event if it is the user.
fn redact_event(event: &mut Value, uid: &str) -> bool {
    let Some(fields) = event.as_object_mut() else {
        return false;
    };
    let is = |name: &str| fields.get(name).is_some_and(|value| is_id(value, uid));
    let is_on_user = fields.get("etype").is_some_and(|etype| etype == USER);
    if is("uid") || is_on_user && is("eid") {
        return false;
    }
    fields.retain(|name, value| {
        OTHER_FIELDS.contains(&name.as_str())
            || name != "traceId" && !has_id(&value.to_string(), uid)
    });
    true
}

/// The facts of other users are kept.
fn redact_group(group: &mut Value, uid: &str) -> bool {
    let is_kept = redact_uids(group, uid);
    let uids = group.get_mut("uids").map(Value::take);
    // The other fields are those of an event.
    let is_kept = is_kept && redact_event(group, uid);
    if let (Some(uids), Some(fields)) = (uids, group.as_object_mut()) {
        fields.insert("uids".to_owned(), uids);
    }
    is_kept
}

/// Whether an entry is about the user as an entity.
fn is_on_user(entry: &Value, uid: &str) -> bool {
    entry["etype"] == USER && is_id(&entry["eid"], uid)
}

/// The increments, the changes of facts, and the checks of other users are kept.
fn redact_derived(derived: &mut Value, uid: &str) -> bool {
    let mut is_kept = false;
    for list in ["adds", "sums", "checks"] {
        if let Some(items) = derived.get_mut(list).and_then(Value::as_array_mut) {
            items.retain(|item| !is_id(&item[0], uid));
            is_kept |= !items.is_empty();
        }
    }
    if let Some(revs) = derived.get_mut("revs").and_then(Value::as_array_mut) {
        // User, metric, type and ID of the entity.
        revs.retain(|rev| !is_id(&rev[0], uid) && !is_on(rev, USER, uid));
        is_kept |= !revs.is_empty();
    }
    is_kept
}

/// The counters of the entity, and the facts of other users, are checked.
fn redact_check(check: &mut Value, uid: &str) -> bool {
    if is_on_user(check, uid) {
        return false;
    }
    let Some(fields) = check.as_object_mut() else {
        return false;
    };
    if let Some(facts) = fields.get_mut("facts").and_then(Value::as_array_mut) {
        // The metric, the user, and whether the fact exists.
        facts.retain(|fact| !is_id(&fact[1], uid));
    }
    fields.retain(|name, value| name != "traceId" || !has_id(&value.to_string(), uid));
    let mut lists = ["checks", "facts"].into_iter();
    lists.any(|list| {
        let items = fields.get(list).and_then(Value::as_array);
        items.is_some_and(|items| !items.is_empty())
    })
}

/// The facts of other users are read again.
fn redact_reread(reread: &mut Value, uid: &str) -> bool {
    !is_on_user(reread, uid) && redact_uids(reread, uid)
}

/// Removes the user from `uids`. Returns whether other users are left.
fn redact_uids(entry: &mut Value, uid: &str) -> bool {
    let Some(uids) = entry.get_mut("uids").and_then(Value::as_array_mut) else {
        return false;
    };
    uids.retain(|other| !is_id(other, uid));
    !uids.is_empty()
}

/// The new author is credited, without what is taken back from the user.
fn redact_author(author: &mut Value, uid: &str) -> bool {
    if is_on_user(author, uid) {
        return false;
    }
    let Some(fields) = author.as_object_mut() else {
        return false;
    };
    if fields.get("from").is_some_and(|from| is_id(from, uid)) {
        fields.remove("from");
        fields.remove("amounts");
    }
    if fields.get("to").is_some_and(|to| is_id(to, uid)) {
        fields.remove("to");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{Id, Name};

    #[test]
    fn facts_on_other_entities_are_kept() {
        let entity = Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new("7").expect("an ID"),
        };
        let revs = r#"{"revs":[["1","like","note","7",1,5],["1","like","note","8",1,5]]}"#;
        let kept = r#"{"revs":[["1","like","note","8",1,5]]}"#;
        let redacted = redact_entity(revs.as_bytes(), &entity);
        assert_eq!(redacted, Redaction::Replace(kept.to_owned()));
        for payload in [
            r#"{"revs":[["1","like","note","7",1,5]]}"#,
            r#"{"etype":"note","eid":"7"}"#,
        ] {
            assert_eq!(redact_entity(payload.as_bytes(), &entity), Redaction::Drop);
        }
    }

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
                EntryKind::Group,
                r#"{"author":"42","delta":42,"eid":"42","etype":"note","ts":42,"uids":["9","42","142"]}"#,
                Some(r#"{"delta":42,"eid":"42","etype":"note","ts":42,"uids":["9","142"]}"#),
            ),
            (
                EntryKind::Group,
                r#"{"eid":"1","etype":"note","uids":["42"]}"#,
                None,
            ),
            (
                EntryKind::Group,
                r#"{"eid":"42","etype":"user","uids":["9"]}"#,
                None,
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
            // IDs of entities, amounts and times that are the number of the user.
            (
                EntryKind::Event,
                r#"{"delta":42,"eid":"42","etype":"note","metric":"like","more":"of 42","retried":42,"ts":42,"uid":"9"}"#,
                Some(
                    r#"{"delta":42,"eid":"42","etype":"note","metric":"like","retried":42,"ts":42,"uid":"9"}"#,
                ),
            ),
            (
                EntryKind::Envelope,
                r#"{"aggregate_id":42,"aggregate_type":"note","event_id":"42","payload":"{\"delta\":1,\"uid\":9}"}"#,
                Some(
                    r#"{"aggregate_id":42,"aggregate_type":"note","event_id":"42","payload":"{\"delta\":1,\"uid\":9}"}"#,
                ),
            ),
            (
                EntryKind::Envelope,
                r#"{"aggregate_id":42,"aggregate_type":"user","payload":{"delta":1,"uid":9}}"#,
                None,
            ),
            (
                EntryKind::Envelope,
                r#"{"aggregate_id":7,"aggregate_type":"note","payload":"{\"delta\":1,\"uid\":42}"}"#,
                None,
            ),
            (
                EntryKind::Derived,
                r#"{"adds":[["9","likesReceived",42]],"from":42,"seq":42}"#,
                Some(r#"{"adds":[["9","likesReceived",42]],"from":42,"seq":42}"#),
            ),
            (
                EntryKind::Derived,
                r#"{"revs":[["9","like","note","42",1,42]]}"#,
                Some(r#"{"revs":[["9","like","note","42",1,42]]}"#),
            ),
            (
                EntryKind::Author,
                r#"{"amounts":[["like",42]],"eid":"42","etype":"note","from":"9"}"#,
                Some(r#"{"amounts":[["like",42]],"eid":"42","etype":"note","from":"9"}"#),
            ),
            (
                EntryKind::Reread,
                r#"{"eid":"42","etype":"note","metric":"like","uids":["42","9"]}"#,
                Some(r#"{"eid":"42","etype":"note","metric":"like","uids":["9"]}"#),
            ),
            (
                EntryKind::Derived,
                r#"{"adds":[["9","followers",1]],"checks":[["42","followers",5,1,true],["9","followers",42,42,true]],"sums":[["42","likesReceived",1,3]]}"#,
                Some(
                    r#"{"adds":[["9","followers",1]],"checks":[["9","followers",42,42,true]],"sums":[]}"#,
                ),
            ),
            (
                EntryKind::Derived,
                r#"{"checks":[["42","followers",5,1,true]],"sums":[["42","likesReceived",1,3]]}"#,
                None,
            ),
            (
                EntryKind::Check,
                r#"{"checks":[["like",42]],"eid":"42","etype":"note","facts":[["like","42",true],["like","9",true]],"source":"check","traceId":"42"}"#,
                Some(
                    r#"{"checks":[["like",42]],"eid":"42","etype":"note","facts":[["like","9",true]],"source":"check"}"#,
                ),
            ),
            (
                EntryKind::Check,
                r#"{"eid":"7","etype":"note","facts":[["like","42",true]],"source":"check"}"#,
                None,
            ),
            (
                EntryKind::Check,
                r#"{"checks":[["follow",1]],"eid":"42","etype":"user","source":"check"}"#,
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
