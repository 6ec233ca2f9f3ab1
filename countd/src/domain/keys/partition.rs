//! The partition of an entity or a user.

use super::hash::{SLOTS, crc16};
use super::murmur2;
use crate::domain::ids::{Entity, Id, MAX_ID, MAX_NAME, MAX_SHARD_SUFFIX};

/// The number of a partition.
pub type Partition = u16;

/// The maximum number of partitions: the number of hash slots.
pub const MAX_PARTITIONS: u16 = SLOTS;

/// 2^32 divided by the golden ratio: the higher bits of a product with it depend on all bits of the factor.
const FIBONACCI: u32 = 0x9e37_79b1;

/// The part of all entities, 0 to 99, that an ID belongs to.
pub fn percentile(eid: &Id) -> u8 {
    // Less than 100.
    murmur2::partition(eid.as_str().as_bytes(), 100) as u8
}

/// The part of all users, of `parts`, that an ID belongs to. It does not depend on the user's partition, which is the lower bits of the
/// same hash.
pub(in crate::domain) fn spread(uid: &Id, parts: u16) -> u16 {
    let hash = u64::from(murmur2::murmur2(uid.as_str().as_bytes()).wrapping_mul(FIBONACCI));
    // Less than `parts`.
    ((hash * u64::from(parts)) >> 32) as u16
}

/// The hash that determines partitions. It is part of the stored layout, since another hash would not find existing keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionHash {
    /// CRC-16/XMODEM, the key hash of Redis Cluster. Data that countd created before it stored the hash.
    Crc16,
    /// MurmurHash2 as in Kafka's default partitioner.
    Murmur2,
}

impl PartitionHash {
    /// Its name in the stored layout.
    pub fn name(self) -> &'static str {
        match self {
            PartitionHash::Crc16 => "crc16",
            PartitionHash::Murmur2 => "murmur2",
        }
    }

    /// The hash with this name.
    pub fn from_name(name: &str) -> Option<PartitionHash> {
        [PartitionHash::Crc16, PartitionHash::Murmur2]
            .into_iter()
            .find(|hash| hash.name() == name)
    }

    /// The partition of an entity: the hash of `etype:eid` modulo the number of partitions.
    pub(super) fn of_entity(self, entity: &Entity, partitions: u16) -> Partition {
        let (etype, eid) = (entity.etype.as_str(), entity.eid.as_str());
        match self {
            PartitionHash::Crc16 => {
                let crc = crc16(crc16(crc16(0, etype.as_bytes()), b":"), eid.as_bytes());
                crc % partitions
            }
            PartitionHash::Murmur2 => {
                let mut key = [0; MAX_NAME + 1 + MAX_ID + MAX_SHARD_SUFFIX];
                let (name_end, len) = (etype.len(), etype.len() + 1 + eid.len());
                key[..name_end].copy_from_slice(etype.as_bytes());
                key[name_end] = b':';
                key[name_end + 1..len].copy_from_slice(eid.as_bytes());
                murmur2::partition(&key[..len], partitions)
            }
        }
    }

    /// The partition of a user: the hash of the id modulo the number of partitions.
    pub(super) fn of_user(self, uid: &Id, partitions: u16) -> Partition {
        let bytes = uid.as_str().as_bytes();
        match self {
            PartitionHash::Crc16 => crc16(0, bytes) % partitions,
            PartitionHash::Murmur2 => murmur2::partition(bytes, partitions),
        }
    }
}
