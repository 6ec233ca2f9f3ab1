//! Records of the topic, and the entries of the log that they are.

use crate::domain::keys::{Keys, Partition};
use crate::log::entry::{EntryKind, LogEntry};
use memchr::memmem;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The header with the partition of the stream from which an event was copied to the topic. Such records are not counted: the stream is.
pub const SOURCE: &str = "countd-source";
/// The header with the offset in that stream.
pub const SEQUENCE: &str = "countd-seq";
/// The header with the number of the event in the entry, which has more than one for a group.
pub const INDEX: &str = "countd-index";

/// The header with the history of the server from which the entry was copied: the first digits of its ID. A server that has lost its last
/// writes has another history, in which other entries can have the same offsets.
pub const HISTORY: &str = "countd-history";
/// The header with the kind of an entry that is not an event: `j`, a change of counters without an event.
pub const KIND: &str = "countd-kind";
/// The header of an event that was not counted: `duplicate` or `dead`.
pub const OUTCOME: &str = "countd-outcome";

/// The number of digits in [`HISTORY`].
const HISTORY_DIGITS: usize = 8;

/// The value of [`HISTORY`] for the history of a server.
pub fn short_history(history: &str) -> &str {
    history.get(..HISTORY_DIGITS).unwrap_or(history)
}

/// A record of the topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The partition of the topic.
    pub topic_partition: u16,
    /// The offset.
    pub offset: u64,
    /// The key, if there is one.
    pub key: Option<Vec<u8>>,
    /// The value, if there is one.
    pub value: Option<Vec<u8>>,
    /// Whether it is a copy of an event in a stream.
    pub is_copy: bool,
}

/// A record of the topic whose key and value are borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BorrowedRecord<'a> {
    /// The partition of the topic.
    pub topic_partition: u16,
    /// The offset.
    pub offset: u64,
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// The value, if there is one.
    pub value: Option<&'a [u8]>,
    /// Whether it is a copy of an event in a stream.
    pub is_copy: bool,
}

/// Where a record belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// To this partition, by its key.
    Key(Partition),
    /// To this partition because it has to belong to some. It cannot be counted, for the reason.
    Misplaced(Partition, String),
}

impl Origin {
    /// The partition.
    pub fn partition(&self) -> Partition {
        match self {
            Origin::Key(partition) | Origin::Misplaced(partition, _) => *partition,
        }
    }

    /// Why the record cannot be counted where it is, if it cannot.
    pub fn misplaced(self) -> Option<String> {
        match self {
            Origin::Key(_) => None,
            Origin::Misplaced(_, reason) => Some(reason),
        }
    }
}

impl Record {
    /// The record with a borrowed key and value.
    pub fn as_borrowed(&self) -> BorrowedRecord<'_> {
        BorrowedRecord {
            topic_partition: self.topic_partition,
            offset: self.offset,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            is_copy: self.is_copy,
        }
    }

    /// The entry of the log: that of [`BorrowedRecord::to_entry`].
    pub fn into_entry(self) -> LogEntry {
        LogEntry {
            offset: self.offset,
            kind: kind_of(self.value.as_deref()),
            size: self.as_borrowed().size(),
            payload: self.value.unwrap_or_default(),
            is_whole: true,
        }
    }
}

impl<'a> BorrowedRecord<'a> {
    /// The record of a message. `None` if its partition or its offset is none of a topic.
    pub(super) fn of(message: &'a BorrowedMessage<'_>) -> Option<BorrowedRecord<'a>> {
        let is_copy = message
            .headers()
            .is_some_and(|headers| headers.iter().any(|header| header.key == SOURCE));
        Some(BorrowedRecord {
            topic_partition: u16::try_from(message.partition()).ok()?,
            offset: u64::try_from(message.offset()).ok()?,
            key: message.key(),
            value: message.payload(),
            is_copy,
        })
    }

    /// Copies key and value.
    pub(super) fn to_record(self) -> Record {
        Record {
            topic_partition: self.topic_partition,
            offset: self.offset,
            key: self.key.map(<[u8]>::to_vec),
            value: self.value.map(<[u8]>::to_vec),
            is_copy: self.is_copy,
        }
    }

    /// The partition to which the record belongs, of a topic with this number of partitions. It depends on the record only: each record is
    /// counted, or set aside, with the position of one partition.
    pub fn origin(&self, keys: Keys, topic_partitions: u16) -> Origin {
        let Some(key) = self.key else {
            let reason = "the record has no key: it must be {etype}:{eid}".to_owned();
            return Origin::Misplaced(self.topic_partition, reason);
        };
        let home = keys.of_record(key);
        let expected = home % topic_partitions.max(1);
        if expected == self.topic_partition {
            return Origin::Key(home);
        }
        let reason = format!(
            "the record is in partition {} of the topic, but its key belongs to {expected}: use the default partitioner of Kafka (murmur2)",
            self.topic_partition
        );
        Origin::Misplaced(self.topic_partition, reason)
    }

    /// The number of bytes of key and value.
    pub fn size(&self) -> usize {
        self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len)
    }

    /// The entry of the log. A value with an `event_id` is an envelope.
    pub fn to_entry(self) -> LogEntry {
        LogEntry {
            kind: kind_of(self.value),
            payload: self.value.map(<[u8]>::to_vec).unwrap_or_default(),
            is_whole: true,
            ..self.to_entry_of_event()
        }
    }

    /// The entry of the log of an event that [`Event::read_written`](crate::domain::event::Event::read_written) has read, without its text. A dead
    /// letter gets the text of the event, which is the same.
    pub fn to_entry_of_event(self) -> LogEntry {
        LogEntry {
            offset: self.offset,
            kind: EntryKind::Event,
            payload: Vec::new(),
            size: self.size(),
            is_whole: false,
        }
    }
}

/// The kind of the entry with a value.
fn kind_of(value: Option<&[u8]>) -> EntryKind {
    match value.is_some_and(has_event_id) {
        true => EntryKind::Envelope,
        false => EntryKind::Event,
    }
}

/// Whether a JSON object has the field `event_id`.
fn has_event_id(json: &[u8]) -> bool {
    const FIELD: &[u8] = b"\"event_id\"";
    #[derive(Deserialize)]
    struct WithEventId {
        #[serde(rename = "event_id")]
        _id: IgnoredAny,
    }
    // Most values are events: the search is cheaper than parsing them twice.
    memmem::find(json, FIELD).is_some() && serde_json::from_slice::<WithEventId>(json).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash;

    fn record(topic_partition: u16, key: Option<&str>, value: &str) -> Record {
        Record {
            topic_partition,
            offset: 7,
            key: key.map(|key| key.as_bytes().to_vec()),
            value: Some(value.as_bytes().to_vec()),
            is_copy: false,
        }
    }

    #[test]
    fn a_record_belongs_to_the_partition_of_its_key_if_it_is_where_kafka_puts_it() {
        let keys = Keys::new(1024, false, PartitionHash::Murmur2);
        let home = keys.of_record(b"note:7");
        let origin = |at, key| record(at, key, "").as_borrowed().origin(keys, 8);
        assert_eq!(origin(home % 8, Some("note:7")), Origin::Key(home));
        let elsewhere = (home + 1) % 8;
        for key in [Some("note:7"), None] {
            assert!(
                matches!(origin(elsewhere, key), Origin::Misplaced(p, _) if p == elsewhere),
                "{key:?}"
            );
        }
    }

    #[test]
    fn values_with_an_event_id_are_envelopes() {
        for (json, kind) in [
            (r#"{"event_id": 7, "payload": {}}"#, EntryKind::Envelope),
            (r#"{"etype":"note","eid":"7"}"#, EntryKind::Event),
            (r#"{"etype":"note","traceId":"event_id"}"#, EntryKind::Event),
            (r#"{"a":{"event_id":1}}"#, EntryKind::Event),
            (r#"not JSON "event_id""#, EntryKind::Event),
            ("", EntryKind::Event),
        ] {
            let entry = record(0, None, json).into_entry();
            assert_eq!((entry.kind, entry.offset), (kind, 7), "{json}");
            assert_eq!(entry.payload, json.as_bytes());
        }
    }
}
