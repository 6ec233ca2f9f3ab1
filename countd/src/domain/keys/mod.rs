//! The keys of all data in Redis, and the partition of each key.

mod hash;
mod layout;

pub(crate) use hash::slot;
pub use layout::{KeyTemplate, Keys, MAX_PARTITIONS, Partition};
