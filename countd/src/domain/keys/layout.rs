//! The key layout.
//!
//! An entity's partition is the hash of `etype:eid` modulo the number of partitions, a user's that of the user's ID. In cluster mode
//! every key ends with its partition as a hash tag. All keys of a partition then share a slot, and one command, script or
//! transaction can use them together. The keys themselves are in the other files of this module, by topic.

use super::hash::crc16;
use super::murmur2;
use super::partition::{MAX_PARTITIONS, Partition, PartitionHash};
use crate::domain::ids::{Entity, Id};

/// Keys that differ in one part. Scripts build them from the prefix and the suffix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTemplate {
    /// The part before the variable part.
    pub prefix: String,
    /// The part after the variable part.
    pub suffix: String,
}

impl KeyTemplate {
    /// The key with this variable part.
    pub fn key(&self, part: impl std::fmt::Display) -> String {
        let KeyTemplate { prefix, suffix } = self;
        format!("{prefix}{part}{suffix}")
    }
}

/// The key layout. It is immutable after the data has been created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    pub(super) partitions: u16,
    pub(super) tagged: bool,
    hash: PartitionHash,
}

impl Keys {
    /// Creates a layout. `partitions` is clamped to 1 ..= [`MAX_PARTITIONS`]; `tagged` adds hash tags, for cluster mode.
    pub fn new(partitions: u16, tagged: bool, hash: PartitionHash) -> Keys {
        Keys {
            partitions: partitions.clamp(1, MAX_PARTITIONS),
            tagged,
            hash,
        }
    }

    /// The number of partitions.
    pub fn partitions(&self) -> u16 {
        self.partitions
    }

    /// Whether keys have hash tags, so that one command must not use keys of several partitions.
    pub fn tagged(&self) -> bool {
        self.tagged
    }

    /// The number of partitions whose state is in the same Hashes: all without hash tags, one with them.
    pub fn partitions_per_hash(&self) -> usize {
        if self.tagged { 1 } else { usize::MAX }
    }

    /// Whether one script or transaction can use keys of both partitions.
    pub fn can_combine(&self, one: Partition, other: Partition) -> bool {
        !self.tagged || one == other
    }

    /// The partition of an entity's counters, facts and events.
    pub fn of_entity(&self, entity: &Entity) -> Partition {
        self.hash.of_entity(entity, self.partitions)
    }

    /// The partition of a record with this key, as Kafka's default partitioner chooses it among as many partitions as the data has.
    pub fn of_record(&self, key: &[u8]) -> Partition {
        murmur2::partition(key, self.partitions)
    }

    /// Whether the data has the partitions that Kafka's default partitioner would choose.
    pub fn is_murmur2(&self) -> bool {
        self.hash == PartitionHash::Murmur2
    }

    /// The partition of a user's counters.
    pub fn of_user(&self, uid: &Id) -> Partition {
        self.hash.of_user(uid, self.partitions)
    }

    /// The shard of a user ID.
    pub fn shard(uid: &Id, shards: u16) -> u16 {
        crc16(0, uid.as_str().as_bytes()) % shards.max(1)
    }

    /// Appends the hash tag of a partition, in cluster mode.
    pub(super) fn append_tag(&self, key: &mut String, partition: Partition) {
        if self.tagged {
            key.push_str(&format!(":{{{partition}}}"));
        }
    }

    /// The key with the hash tag of a partition, in cluster mode.
    pub(super) fn tag(&self, mut key: String, partition: Partition) -> String {
        self.append_tag(&mut key, partition);
        key
    }

    /// The key of which each partition has one.
    pub(super) fn numbered(&self, prefix: &str, partition: Partition, suffix: &str) -> String {
        if self.tagged {
            format!("{prefix}:{{{partition}}}{suffix}")
        } else {
            format!("{prefix}:{partition}{suffix}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PartitionHash::{Crc16, Murmur2};
    use super::*;
    use crate::domain::keys::testing::entity;

    #[test]
    fn partitions_never_change() {
        // A change here would orphan all existing keys.
        let partitions = |hash| {
            let keys = Keys::new(1024, false, hash);
            let note = |eid| keys.of_entity(&entity("note", eid));
            let user = keys.of_user(&Id::new("42").expect("an ID"));
            [
                note("1"),
                note("123456"),
                note("18446744073709551615"),
                user,
            ]
        };
        // As computed by Python: binascii.crc_hqx(b"note:1", 0) % 1024.
        assert_eq!(partitions(Crc16), [941, 102, 883, 832]);
        // As computed by Kafka: Utils.toPositive(Utils.murmur2("note:1".getBytes())) % 1024.
        assert_eq!(partitions(Murmur2), [382, 988, 857, 108]);
    }

    #[test]
    fn partitions_are_used_evenly() {
        for hash in [Crc16, Murmur2] {
            let keys = Keys::new(1024, false, hash);
            let mut entities = vec![0_u32; 1024];
            for eid in 0..102_400 {
                entities[usize::from(keys.of_entity(&entity("note", &eid.to_string())))] += 1;
            }
            let (min, max) = (entities.iter().min(), entities.iter().max());
            assert!(
                min >= Some(&50) && max <= Some(&200),
                "{hash:?} {min:?} {max:?}"
            );
        }
    }
}
