//! The keys of all data in Redis, and the partition of each key.

mod archive;
mod hash;
mod layout;
mod location;
mod migration;
mod murmur2;
mod parse;
mod partition;

pub(crate) use hash::slot;
pub use layout::{KeyTemplate, Keys, TimelineKeys};
pub use location::{CounterLocation, MovingCounters, StoragePhase};
pub use parse::KeyName;
pub use partition::{MAX_PARTITIONS, Partition, PartitionHash};
