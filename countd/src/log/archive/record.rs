//! The records of the archive.

use super::super::entry::{EntryKind, LogEntry};
use super::codec::{put_integer, take_bytes, take_integer};
use crate::domain::keys::Partition;

/// What precedes the offset in the field of the outcome of a record of the topic.
const TOPIC: &str = "t";

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was counted. Parts of a derived event may have become dead letters.
    Counted = 1,
    /// It was counted before.
    Duplicate = 2,
    /// It became a dead letter.
    Dead = 3,
}

/// The field of the outcome of a record of the topic, beside those of the entries of a stream, whose fields are their offsets.
pub fn topic_outcome(offset: u64) -> String {
    format!("{TOPIC}{offset}")
}

/// The offset in the topic of such a field. `None` if it is that of an entry.
pub fn of_topic_outcome(field: &str) -> Option<u64> {
    field.strip_prefix(TOPIC)?.parse().ok()
}

impl Outcome {
    /// The outcome with this number.
    pub fn from_number(number: u64) -> Option<Outcome> {
        [Outcome::Counted, Outcome::Duplicate, Outcome::Dead]
            .into_iter()
            .find(|outcome| *outcome as u64 == number)
    }

    /// Its name, for people and headers of the topic.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Counted => "counted",
            Outcome::Duplicate => "duplicate",
            Outcome::Dead => "dead",
        }
    }

    /// The outcome with this name.
    pub fn from_name(name: &str) -> Option<Outcome> {
        [Outcome::Counted, Outcome::Duplicate, Outcome::Dead]
            .into_iter()
            .find(|outcome| outcome.name() == name)
    }
}

/// An entry of a partition's log, with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The partition.
    pub partition: Partition,
    /// What became of it.
    pub outcome: Outcome,
    /// The entry.
    pub entry: LogEntry,
}

impl Record {
    /// Appends the record to the content of a frame.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        put_integer(to, self.partition.into());
        put_integer(to, self.entry.offset);
        to.push(self.entry.kind.field().as_bytes()[0]);
        put_integer(to, self.outcome as u64);
        put_integer(to, self.entry.size as u64);
        put_integer(to, self.entry.is_whole.into());
        put_integer(to, self.entry.payload.len() as u64);
        to.extend(&self.entry.payload);
    }

    /// Takes a record from the front of the content of a frame.
    pub(super) fn read(from: &mut &[u8]) -> Option<Record> {
        let partition = take_integer(from)?.try_into().ok()?;
        let offset = take_integer(from)?;
        let kind = EntryKind::of(take_bytes(from, 1)?);
        let outcome = Outcome::from_number(take_integer(from)?)?;
        let size = take_integer(from)?.try_into().ok()?;
        let is_whole = take_integer(from)? == 1;
        let length = take_integer(from)?;
        let entry = LogEntry {
            offset,
            kind,
            payload: take_bytes(from, length)?.to_vec(),
            size,
            is_whole,
        };
        Some(Record {
            partition,
            outcome,
            entry,
        })
    }
}
