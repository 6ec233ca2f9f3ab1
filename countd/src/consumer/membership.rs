//! Membership of the consumer group, and the assignment of partitions to members.
//!
//! Each member sends heartbeats and computes its own assignment from the list of live members, by rendezvous hashing. While the lists
//! of two members differ, a partition can have two owners, or none. Both are harmless: a commit fails unless the stored position is
//! the one from which the batch was read.

use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::redis::processes::send_heartbeat;
use crate::redis::store::Store;
use std::time::Duration;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["ZREM {consumers} m"];

/// A member of the consumer group.
pub struct GroupMember {
    store: Store,
    name: String,
    session_timeout: Duration,
    /// The number of partitions of the topic, if the log is in Kafka.
    topic_partitions: Option<u16>,
}

impl GroupMember {
    /// A new member, which joins the group with its first heartbeat. It is removed when it sends none for `session_timeout`. The
    /// timeout is part of its name, so that other members can tell when Redis's clock was set back. Partitions that share one of the topic's
    /// `topic_partitions` have the same owner.
    pub fn new(
        store: Store,
        session_timeout: Duration,
        topic_partitions: Option<u16>,
    ) -> GroupMember {
        let (process, timeout_ms) = (std::process::id(), session_timeout.as_millis());
        let name = format!("{process}-{:016x}/{timeout_ms}", fastrand::u64(..));
        GroupMember {
            store,
            name,
            session_timeout,
            topic_partitions,
        }
    }

    /// Its name in the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interval between heartbeats.
    pub fn heartbeat_interval(&self) -> Duration {
        self.session_timeout / 4
    }

    /// Sends a heartbeat and returns the partitions assigned to this member.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn heartbeat(&self) -> Result<Vec<Partition>, StoreError> {
        let (store, key) = (&self.store, self.store.keys().consumers());
        let members = send_heartbeat(store, key, &self.name, self.session_timeout).await?;
        let partitions = 0..self.store.keys().partitions();
        let unit = |partition| unit_of(partition, self.topic_partitions);
        Ok(partitions
            .filter(|partition| owner(&members, unit(*partition)) == Some(&self.name))
            .collect())
    }

    /// Leaves the group, so that its partitions are reassigned before the session timeout.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn leave(&self) -> Result<(), StoreError> {
        redis::cmd("ZREM")
            .arg(self.store.keys().consumers())
            .arg(&self.name)
            .exec_async(&mut self.store.commands())
            .await?;
        Ok(())
    }
}

/// The number by which a partition is assigned: that of its partition of the topic, or its own.
pub fn unit_of(partition: Partition, topic_partitions: Option<u16>) -> u16 {
    topic_partitions.map_or(partition, |count| partition % count.max(1))
}

/// The owner of a partition by rendezvous hashing: a member that joins or leaves moves only its own partitions.
fn owner(members: &[String], partition: Partition) -> Option<&String> {
    members
        .iter()
        .max_by_key(|name| (hash_weight(name, partition), *name))
}

/// FNV-1a of the name and the partition, with the finalizer of MurmurHash3.
fn hash_weight(name: &str, partition: Partition) -> u64 {
    let bytes = name.bytes().chain(partition.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member_names(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("{i}-00ff")).collect()
    }

    #[test]
    fn partitions_are_spread_evenly_and_each_has_one_owner() {
        for count in 1..=5 {
            let members = member_names(count);
            let mut assigned = vec![0; count];
            for partition in 0..1024 {
                let owner = owner(&members, partition).expect("an owner");
                let member = members.iter().position(|name| name == owner);
                assigned[member.expect("the owner is a member")] += 1;
            }
            let fair = 1024 / count;
            assert!(
                assigned.iter().all(|partitions| *partitions > fair * 3 / 4),
                "{assigned:?}"
            );
        }
        assert_eq!(owner(&[], 3), None);
    }

    #[test]
    fn a_member_that_leaves_moves_only_its_own_partitions() {
        let members = member_names(4);
        for partition in 0..1024 {
            let before = owner(&members, partition).expect("an owner");
            let after = owner(&members[..3], partition).expect("an owner");
            assert!(before == after || *before == members[3], "{partition}");
        }
    }
}
