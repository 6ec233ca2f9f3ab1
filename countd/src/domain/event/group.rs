//! The event of several actions that were executed together.

use super::entity_event::{Event, to_json_bytes};
use crate::domain::ids::{Entity, Id, Name, stored_id};
use serde::{Deserialize, Serialize};

/// The field in which `RBM.MMARK` and `RBM.MUNMARK` list the members that changed.
pub const MEMBERS: &[u8] = b"members";

/// The same action of several users on one entity. Its entry has the JSON without the users, and lists them in the field [`MEMBERS`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupEvent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<Name>,
    etype: Name,
    #[serde(deserialize_with = "stored_id")]
    eid: Id,
    metric: Name,
    delta: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    author: Option<Id>,
    #[serde(default)]
    ts: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    counted: bool,
    /// The users whose facts changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    uids: Vec<Id>,
}

impl GroupEvent {
    /// The event of actions that are like `event` but for their users, traces and times. Its time is that of the group.
    pub fn like(event: &Event) -> GroupEvent {
        GroupEvent {
            schema: event.schema.clone(),
            etype: event.entity.etype.clone(),
            eid: event.entity.eid.clone(),
            metric: event.metric.clone(),
            delta: event.delta,
            author: event.author.clone(),
            ts: event.ts,
            counted: event.counted,
            uids: Vec::new(),
        }
    }

    /// The JSON form in the log.
    pub fn to_json(&self) -> String {
        String::from_utf8(to_json_bytes(self)).unwrap_or_default()
    }

    /// Adds the users to the JSON form in the log: ids in decimal, separated by commas. Returns whether both texts have their forms.
    pub fn add_users(json: &mut Vec<u8>, members: &[u8]) -> bool {
        let are_ids = members
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b',');
        if members.is_empty() || !are_ids || json.last() != Some(&b'}') {
            return false;
        }
        json.pop();
        json.extend(b",\"uids\":[\"");
        for byte in members {
            match byte {
                b',' => json.extend(b"\",\""),
                digit => json.push(*digit),
            }
        }
        json.extend(b"\"]}");
        true
    }

    /// The event of each user.
    pub fn into_events(self) -> Vec<Event> {
        let GroupEvent {
            schema,
            etype,
            eid,
            metric,
            delta,
            author,
            ts,
            counted,
            uids,
        } = self;
        let entity = Entity { etype, eid };
        let event = |uid| Event {
            schema: schema.clone(),
            entity: entity.clone(),
            metric: metric.clone(),
            delta,
            uid,
            author: author.clone(),
            trace_id: None,
            ts,
            counted,
            corrected: Vec::new(),
            retried: None,
        };
        uids.into_iter().map(event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"schema":"v1","etype":"note","eid":"7","metric":"like","delta":1,"uid":"42","author":"9","traceId":"t","ts":5,"counted":true}"#;

    #[test]
    fn a_group_is_the_event_of_each_of_its_users() {
        let event: Event = serde_json::from_str(EVENT).expect("an event");
        let mut json = GroupEvent::like(&event).to_json().into_bytes();
        let text = String::from_utf8(json.clone()).expect("JSON");
        let expected = r#"{"schema":"v1","etype":"note","eid":"7","metric":"like","delta":1,"author":"9","ts":5,"counted":true}"#;
        assert_eq!(text, expected);
        assert!(GroupEvent::add_users(&mut json, b"42,18446744073709551615"));
        let group: GroupEvent = serde_json::from_slice(&json).expect("a group");
        let events = group.into_events();
        let of = |uid: &str| Event {
            uid: Id::new(uid).expect("an ID"),
            trace_id: None,
            ..event.clone()
        };
        assert_eq!(events, [of("42"), of("18446744073709551615")]);
    }

    #[test]
    fn other_texts_are_no_groups() {
        for (json, members) in [
            ("{}", ""),
            ("{}", "1 2"),
            ("{}", "\"1\""),
            ("", "1"),
            ("[]", "1"),
        ] {
            assert!(
                !GroupEvent::add_users(&mut json.as_bytes().to_vec(), members.as_bytes()),
                "{json} {members}"
            );
        }
        for (json, members) in [("{}", "1"), (r#"{"etype":"note"}"#, "1,,2")] {
            let mut json = json.as_bytes().to_vec();
            assert!(GroupEvent::add_users(&mut json, members.as_bytes()));
            assert!(
                serde_json::from_slice::<GroupEvent>(&json).is_err(),
                "{members}"
            );
        }
    }
}
