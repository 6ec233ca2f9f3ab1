//! The event log: partitions, each a sequence of entries with the offsets 1, 2, 3 ...
//!
//! The position of a partition is not part of the log: it is stored with the counters and changes with them in one transaction (see
//! [`consumer`](crate::consumer)). The log is told the position only to trim entries.

pub mod archive;
mod chunks;
pub mod dead_letters;
mod decode;
mod entry;
mod foreign_ids;
mod holds;
pub mod inspect;
pub mod kafka;
mod offset;
mod partition_reads;
mod permissions;
pub mod published;
mod read_schedule;
mod read_size;
mod reader;
pub mod reset;
mod retention;
mod stream_log;

pub use entry::{Acknowledgement, EntryKind, EventLog, LogEntry, PartitionEntries};
pub use foreign_ids::{renumber, renumber_each};
pub use holds::{hold_for_sink, of_sinks as sink_holds};
pub(crate) use offset::{MAX_OFFSET, offset};
pub use permissions::{
    archive_permissions, consumer_permissions, dead_letter_permissions, lag_permissions,
    operator_permissions, producer_permissions, sink_permissions,
};
pub(crate) use read_size::INITIAL as INITIAL_READ;
pub use retention::{CountedLog, trim_counted};
pub use stream_log::Streams;
