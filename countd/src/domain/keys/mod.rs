//! The keys of all data in Redis, and the partition of each key.

mod actions;
mod adoption;
mod archive;
mod counters;
mod days;
mod facts;
mod hash;
mod layout;
mod location;
mod log;
mod migration;
mod murmur2;
mod operations;
mod parse;
mod partition;
mod ranks;
mod rebuild;
mod reconcile;
mod split;
mod sums;
mod users;

pub use adoption::{Adoption, MemberKind};
pub use days::DaysKey;
pub use facts::TimelineKeys;
pub(crate) use hash::{slot, tag};
pub use layout::{KeyTemplate, Keys};
pub use location::{CounterLocation, MovingCounters, StoragePhase};
pub use migration::ADOPTION_STEP;
pub(crate) use operations::{ACK, ack_key};
pub use parse::KeyName;
pub(in crate::domain) use partition::spread;
pub use partition::{MAX_PARTITIONS, Partition, PartitionHash, percentile};
pub use split::BaseKeys;
pub use users::ReverseKey;

#[cfg(test)]
pub(crate) mod testing {
    use crate::domain::ids::{Entity, Id, Name};

    /// An entity with a valid type and ID.
    pub fn entity(etype: &str, eid: &str) -> Entity {
        Entity {
            etype: name(etype),
            eid: Id::new(eid).expect("an ID"),
        }
    }

    /// A valid name.
    pub fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }
}
