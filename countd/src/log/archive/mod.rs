//! The event archive: counted entries in compressed files, in the order in which they were counted.
//!
//! Each process appends chunks to a segment file of its own. A chunk is part of the archive once the index, which all processes share, has
//! a line about it. Bytes of a segment that no line covers are ignored: a process was killed while it wrote them.
//!
//! A line covers a range of offsets of some partitions. If it begins before the end of earlier ranges of a partition, it replaces them from
//! there on: the process that wrote them was killed before it could record how far it was, or Redis lost its last writes and used the
//! offsets again.

mod baseline;
mod chunk;
mod codec;
mod error;
mod guard;
mod index;
mod marks;
mod offsets;
mod prune;
mod reader;
mod record;
mod segment;

pub use baseline::{Baseline, BaselinePage, BaselineWriter, TopicPositions, baselines};
pub use chunk::{Chunk, OffsetRange};
pub use error::ArchiveError;
pub use guard::{ArchiveGuard, accept_loss, adopt_for_restore, check_owner, guard_permissions};
pub use index::{Index, IndexLine};
pub use offsets::{ArchivedRange, PERMISSIONS, advance, advance_permissions, holds, load};
pub use prune::{Before, PruneReport, prune};
pub use reader::{Archive, Coverage};
pub use record::{Outcome, Record, of_topic_outcome, topic_outcome};
pub use segment::Segment;

#[cfg(test)]
mod tests;
