//! The event log: partitions, each a sequence of entries with the offsets 1, 2, 3 ...
//!
//! How far a partition has been counted is not the log's business: that position lies beside the counters and changes with
//! them in one transaction (see [`consumer`](crate::consumer)). The log is only told, so that it can forget.

mod chunks;
pub mod dead_letters;
mod entries;
pub mod inspect;
mod pace;
mod reader;
mod renumber;
pub mod reset;
mod retained;
mod streams;

pub(crate) use pace::FIRST as FIRST_READ;
pub(crate) use renumber::MAX_OFFSET;
pub use renumber::{renumber, renumber_each};
pub use streams::Streams;

use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// An [`Event`](crate::domain::event::Event).
    Event,
    /// An [`Envelope`](crate::domain::event::Envelope) around an event.
    Envelope,
    /// A [`Derived`](crate::domain::event::Derived) event.
    Derived,
    /// Something that countd did not write.
    Unknown,
}

impl EntryKind {
    /// What an entry with this one field holds.
    pub fn of(field: &[u8]) -> EntryKind {
        let known = [EntryKind::Event, EntryKind::Envelope, EntryKind::Derived];
        let found = known
            .into_iter()
            .find(|kind| kind.field().as_bytes() == field);
        found.unwrap_or(EntryKind::Unknown)
    }

    /// Its name in streams.
    pub fn field(self) -> &'static str {
        match self {
            EntryKind::Event => "e",
            EntryKind::Envelope => "o",
            EntryKind::Derived => "d",
            EntryKind::Unknown => "?",
        }
    }
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Where it is: 1 for the first of a partition.
    pub offset: u64,
    /// What it holds.
    pub kind: EntryKind,
    /// JSON, if all is well. Only the start of it where the entry is longer than is read.
    pub payload: Vec<u8>,
    /// How many bytes the entry has in the log.
    pub size: usize,
    /// Whether `payload` is all of it.
    pub is_whole: bool,
}

/// So much is read of the payload of an entry that is too long.
pub use crate::domain::config::LONG_ENTRY_PREFIX as START_OF_LONG;

/// How far a partition is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The partition.
    pub partition: Partition,
    /// The offset of the first entry that is not counted.
    pub next: u64,
    /// Those that are counted may be longer than what is kept of them.
    pub may_be_long: bool,
}

/// What was read of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionEntries {
    /// The partition.
    pub partition: Partition,
    /// Its entries, from where it was asked for on.
    pub entries: Vec<LogEntry>,
    /// What follows has a foreign ID: none that is an offset, or one far beyond the offset before it. It cannot be read before it
    /// is [renumbered](EventLog::renumber).
    pub ends_at_foreign_id: bool,
}

/// A log with partitions.
pub trait EventLog: Send {
    /// Appends entries to partitions: to each in its order, up to the first that fails.
    ///
    /// # Errors
    /// The log is not there, or refuses. Some of the entries may have been appended, of each partition the first ones.
    fn append(
        &self,
        entries: &BTreeMap<Partition, Vec<(EntryKind, Vec<u8>)>>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Reads up to `limit` entries of each partition, from the offset given with it on, and waits up to `wait` while there is
    /// none in any. Partitions without entries are left out, and so are others where all of them together are long.
    ///
    /// # Errors
    /// The log is not there, or a partition is none.
    fn read(
        &mut self,
        from: &[(Partition, u64)],
        limit: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<PartitionEntries>, StoreError>> + Send;

    /// Gives entries that others appended to a partition under ids that are no offsets the next ones. Returns how many.
    ///
    /// # Errors
    /// The log is not there, or refuses.
    fn renumber(
        &self,
        partition: Partition,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Tells that the counted entries of partitions are not read again. The log may forget them.
    ///
    /// # Errors
    /// The log is not there.
    fn acknowledge(
        &self,
        counted: &[Counted],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}
