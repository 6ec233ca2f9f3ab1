//! Entries of the log, and the trait of a log.

use crate::domain::error::StoreError;
use crate::domain::event::{GroupEvent, MEMBERS};
use crate::domain::keys::Partition;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// What an entry contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// An [`Event`](crate::domain::event::Event).
    Event,
    /// A [`GroupEvent`] with its users.
    Group,
    /// An [`Envelope`](crate::domain::event::Envelope) with an event.
    Envelope,
    /// A [`Derived`](crate::domain::event::Derived) event.
    Derived,
    /// A [`NewAuthor`](crate::domain::event::NewAuthor) of an entity.
    Author,
    /// A [`Reread`](crate::domain::event::Reread) of facts.
    Reread,
    /// A [`Check`](crate::domain::event::Check) of counters.
    Check,
    /// A [`Journal`](crate::domain::event::Journal) of changes without an event.
    Journal,
    /// Anything that countd did not write.
    Unknown,
}

impl EntryKind {
    /// The kind of an entry that has only this field.
    pub fn of(field: &[u8]) -> EntryKind {
        let kinds = [
            EntryKind::Event,
            EntryKind::Group,
            EntryKind::Envelope,
            EntryKind::Derived,
            EntryKind::Author,
            EntryKind::Reread,
            EntryKind::Check,
            EntryKind::Journal,
        ];
        let kind = kinds
            .into_iter()
            .find(|kind| kind.field().as_bytes() == field);
        kind.unwrap_or(EntryKind::Unknown)
    }

    /// The name of its field.
    pub fn field(self) -> &'static str {
        match self {
            EntryKind::Event => "e",
            EntryKind::Group => "g",
            EntryKind::Envelope => "o",
            EntryKind::Derived => "d",
            EntryKind::Author => "a",
            EntryKind::Reread => "b",
            EntryKind::Check => "c",
            EntryKind::Journal => "j",
            EntryKind::Unknown => "?",
        }
    }
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its offset: 1 for the first entry of a partition.
    pub offset: u64,
    /// What it contains.
    pub kind: EntryKind,
    /// The JSON text; of a group, with its users. It is truncated if the entry is larger than the maximum read size, and left out if the event
    /// was read from a record of the topic.
    pub payload: Vec<u8>,
    /// The size of the entry in bytes.
    pub size: usize,
    /// False if `payload` is truncated or left out.
    pub is_whole: bool,
}

/// The fields and values of a stream entry.
#[derive(Default)]
pub(super) struct EntryStrings<'a> {
    /// The number of all of them.
    pub count: usize,
    /// The first field.
    pub field: &'a [u8],
    /// Its value.
    pub payload: Vec<u8>,
    /// The second field, and its value.
    pub second: (&'a [u8], &'a [u8]),
}

impl LogEntry {
    /// Creates an entry from the strings of a stream entry.
    pub(super) fn from_strings(offset: u64, strings: EntryStrings<'_>, size: usize) -> LogEntry {
        let EntryStrings {
            count,
            field,
            mut payload,
            second: (name, members),
        } = strings;
        let kind = match (count, EntryKind::of(field)) {
            (2, kind) => kind,
            (4, EntryKind::Group)
                if name == MEMBERS && GroupEvent::add_users(&mut payload, members) =>
            {
                EntryKind::Group
            }
            _ => EntryKind::Unknown,
        };
        LogEntry {
            offset,
            kind,
            payload,
            size,
            is_whole: true,
        }
    }
}

/// The committed position of a partition. The log may trim the entries before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The partition.
    pub partition: Partition,
    /// The offset of the first entry that has not been counted.
    pub next: u64,
    /// Whether the counted entries may be larger than the retained bytes.
    pub may_be_long: bool,
}

/// Entries read from a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionEntries {
    /// The partition.
    pub partition: Partition,
    /// The entries, from the requested offset on.
    pub entries: Vec<LogEntry>,
    /// Whether the next entry has a foreign ID: one that is not an offset, or is far beyond the offset before it. It cannot be read
    /// until it is [renumbered](EventLog::renumber).
    pub ends_at_foreign_id: bool,
}

/// A partitioned log.
pub trait EventLog: Send {
    /// Appends entries to partitions, in order. Stops at the first failure.
    ///
    /// # Errors
    /// The log is unavailable, or rejects an entry. A prefix of each partition's entries may have been appended.
    fn append(
        &self,
        entries: &BTreeMap<Partition, Vec<(EntryKind, Vec<u8>)>>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Reads up to `limit` entries of each partition, from the given offset on. Waits up to `wait` if all partitions are at their
    /// end. A partition is left out if it has no entries, or if the entries of all partitions exceed the size of a read.
    ///
    /// # Errors
    /// The log is unavailable, or a key is not a log.
    fn read(
        &mut self,
        from: &[(Partition, u64)],
        limit: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<PartitionEntries>, StoreError>> + Send;

    /// Renumbers the entries of a partition that have foreign IDs. Returns their number.
    ///
    /// # Errors
    /// The log is unavailable, or rejects the command.
    fn renumber(
        &self,
        partition: Partition,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Trims counted entries, except those to retain.
    ///
    /// # Errors
    /// The log is unavailable.
    fn acknowledge(
        &self,
        counted: &[Acknowledgement],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}
