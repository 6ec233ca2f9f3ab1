//! The copies of an entry of a stream in the topic.

use crate::domain::config::USER;
use crate::domain::event::{Cause, GroupEvent, Journal};
use crate::domain::keys::Partition;
use crate::log::archive::Outcome;
use crate::log::kafka::{
    HISTORY, INDEX, KIND, OUTCOME, OutgoingRecord, SEQUENCE, SOURCE, short_history,
};
use crate::log::{EntryKind, LogEntry};
use serde::Deserialize;
use std::borrow::Cow;

/// What the copies of entries of a stream have in common.
pub(super) struct Copies<'a> {
    /// The partition of the stream.
    pub source: Partition,
    /// The history of the server from which the entries were read.
    pub history: &'a str,
    /// The partition of the topic.
    pub of_topic: u16,
}

impl Copies<'_> {
    /// Adds the copies of an entry: one for an event or a change of an entity's counters without an event, one for each user of a group, and
    /// none for what countd writes for itself. `outcome` is that of an entry that was not counted.
    ///
    /// Returns false if an entry that was counted has no copy: a rebuild would miss it.
    pub fn add(
        &self,
        entry: &LogEntry,
        outcome: Option<Outcome>,
        records: &mut Vec<OutgoingRecord>,
    ) -> bool {
        let mut add = |key: String, value: Vec<u8>, index: Option<usize>| {
            let mut headers = vec![
                (SOURCE, self.source.to_string()),
                (SEQUENCE, entry.offset.to_string()),
                (HISTORY, short_history(self.history).to_owned()),
            ];
            headers.extend(index.map(|index| (INDEX, index.to_string())));
            headers.extend(outcome.map(|outcome| (OUTCOME, outcome.name().to_owned())));
            if entry.kind == EntryKind::Journal {
                headers.push((KIND, entry.kind.field().to_owned()));
            }
            records.push(OutgoingRecord {
                partition: self.of_topic,
                key,
                value,
                headers,
            });
        };
        let is_copied = match entry.kind {
            EntryKind::Event | EntryKind::Envelope => {
                let key = key_of(&entry.payload).filter(|_| entry.is_whole);
                let is_copied = key.is_some();
                if let Some(key) = key {
                    add(key, entry.payload.clone(), None);
                }
                is_copied
            }
            EntryKind::Group => match serde_json::from_slice::<GroupEvent>(&entry.payload) {
                Ok(group) => {
                    for (index, event) in group.into_events().into_iter().enumerate() {
                        let key = format!("{}:{}", event.entity.etype, event.entity.eid);
                        add(key, event.to_json().into_bytes(), Some(index));
                    }
                    true
                }
                Err(_) => false,
            },
            EntryKind::Journal => match serde_json::from_slice::<Journal>(&entry.payload) {
                Ok(journal) => {
                    if journal.etype.as_str() != USER && journal.why != Cause::Repair {
                        let key = format!("{}:{}", journal.etype, journal.eid);
                        add(key, entry.payload.clone(), None);
                    }
                    true
                }
                Err(_) => false,
            },
            _ => true,
        };
        is_copied || outcome.is_some()
    }
}

/// The key of the record of an event or an envelope. `None` if it names no entity.
fn key_of(payload: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow, alias = "aggregate_type")]
        etype: Cow<'a, str>,
        #[serde(borrow, alias = "aggregate_id")]
        eid: IdText<'a>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum IdText<'a> {
        Text(#[serde(borrow)] Cow<'a, str>),
        Number(u64),
    }
    let named: Named<'_> = serde_json::from_slice(payload).ok()?;
    Some(match named.eid {
        IdText::Text(eid) => format!("{}:{eid}", named.etype),
        IdText::Number(eid) => format!("{}:{eid}", named.etype),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_key_of_the_entity() {
        for (payload, key) in [
            (
                r#"{"etype":"note","eid":"7","metric":"like"}"#,
                Some("note:7"),
            ),
            (r#"{"etype":"note","eid":7}"#, Some("note:7")),
            (
                r#"{"event_id":"a","aggregate_type":"note","aggregate_id":"x-1","payload":{"etype":"note"}}"#,
                Some("note:x-1"),
            ),
            (r#"{"etype":"note"}"#, None),
            ("not JSON", None),
        ] {
            assert_eq!(key_of(payload.as_bytes()).as_deref(), key, "{payload}");
        }
    }

    #[test]
    fn an_entry_that_was_counted_without_a_copy_is_reported() {
        let copies = Copies {
            source: 3,
            history: "0123456789",
            of_topic: 1,
        };
        let add = |kind, payload: &str, is_whole, outcome| {
            let entry = LogEntry {
                offset: 7,
                kind,
                payload: payload.as_bytes().to_vec(),
                size: payload.len(),
                is_whole,
            };
            let mut records = Vec::new();
            let is_complete = copies.add(&entry, outcome, &mut records);
            (records.len(), is_complete)
        };
        const EVENT: &str = r#"{"etype":"note","eid":"7","metric":"like"}"#;
        const NAMELESS: &str = r#"{"metric":"like"}"#;
        assert_eq!(add(EntryKind::Event, EVENT, true, None), (1, true));
        assert_eq!(add(EntryKind::Event, EVENT, false, None), (0, false));
        for kind in [EntryKind::Event, EntryKind::Envelope, EntryKind::Group] {
            assert_eq!(add(kind, NAMELESS, true, None), (0, false), "{kind:?}");
            let dead = Some(Outcome::Dead);
            assert_eq!(add(kind, NAMELESS, true, dead), (0, true), "{kind:?}");
        }
        assert_eq!(add(EntryKind::Journal, "{}", true, None), (0, false));
        assert_eq!(add(EntryKind::Check, "{}", true, None), (0, true));
    }
}
