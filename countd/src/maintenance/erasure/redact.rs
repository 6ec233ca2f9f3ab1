//! What remains of a dead letter when a user is erased.

use super::names::{has_id, is_id};
use crate::domain::config::USER;
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
pub fn redact(kind: &str, payload: &[u8], uid: &str) -> Redaction {
    let Ok(mut value) = serde_json::from_slice::<Value>(payload) else {
        return Redaction::Drop;
    };
    let is_kept = match kind {
        "e" => redact_event(&mut value, uid),
        "o" => match value.get_mut("payload") {
            Some(payload) => redact_event(payload, uid),
            None => false,
        },
        "d" => redact_derived(&mut value, uid),
        "a" => redact_author(&mut value, uid),
        "b" => redact_list(&mut value, "uids", |user| is_id(user, uid)),
        _ => false,
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

/// The increments and the facts of other users are kept, without facts on the user.
fn redact_derived(derived: &mut Value, uid: &str) -> bool {
    let has_adds = redact_list(derived, "adds", |add| is_id(&add[0], uid));
    let is_on_user = |rev: &Value| rev[2] == USER && is_id(&rev[3], uid);
    let has_revs = redact_list(derived, "revs", |rev| {
        is_id(&rev[0], uid) || is_on_user(rev)
    });
    has_adds || has_revs
}

/// Removes items of a list. Returns whether any are left.
fn redact_list(value: &mut Value, field: &str, is_removed: impl Fn(&Value) -> bool) -> bool {
    let Some(items) = value.get_mut(field).and_then(Value::as_array_mut) else {
        return false;
    };
    items.retain(|item| !is_removed(item));
    !items.is_empty()
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
            ("e", r#"{"uid":"42","etype":"note","eid":"1"}"#, None),
            ("e", r#"{"uid":"1","etype":"user","eid":"42"}"#, None),
            (
                "e",
                r#"{"author":"42","eid":"1","etype":"note","traceId":"42","uid":"9"}"#,
                Some(r#"{"eid":"1","etype":"note","uid":"9"}"#),
            ),
            (
                "o",
                r#"{"aggregate_id":1,"payload":{"author":42,"uid":9}}"#,
                Some(r#"{"aggregate_id":1,"payload":{"uid":9}}"#),
            ),
            (
                "d",
                r#"{"adds":[["42","followers",1],["9","followings",1]]}"#,
                Some(r#"{"adds":[["9","followings",1]]}"#),
            ),
            ("d", r#"{"adds":[["42","followers",1]]}"#, None),
            (
                "d",
                r#"{"revs":[["42","like","note","1",1,5],["9","follow","user","42",1,5],["9","like","note","42",1,5]]}"#,
                None,
            ),
            (
                "d",
                r#"{"adds":[],"revs":[["42","like","note","1",1,5],["9","like","note","1",0,5]]}"#,
                Some(r#"{"adds":[],"revs":[["9","like","note","1",0,5]]}"#),
            ),
            (
                "b",
                r#"{"eid":"1","etype":"note","metric":"like","uids":["42","9"]}"#,
                Some(r#"{"eid":"1","etype":"note","metric":"like","uids":["9"]}"#),
            ),
            (
                "a",
                r#"{"amounts":[["like",3]],"eid":"1","etype":"note","from":"42"}"#,
                Some(r#"{"eid":"1","etype":"note"}"#),
            ),
            ("?", r#"{"uid":"42"}"#, None),
            ("e", "{42", None),
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
