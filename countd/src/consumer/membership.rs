//! Who is there, and who counts which partitions.
//!
//! Consumers say now and then that they live; each computes from the list of the living who has which partition (the one with
//! the highest hash of both). While their lists differ, two may count one partition, or nobody does for a moment. Neither does
//! harm: a batch counts only if the position is where its consumer believes it to be.

use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use std::sync::LazyLock;
use std::time::Duration;

pub(super) static HEARTBEAT: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::new(include_str!("../lua/heartbeat.lua")));
/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["ZREM {consumers} m"];

/// One consumer among others.
pub struct GroupMember {
    store: Store,
    name: String,
    dead_after: Duration,
}

impl GroupMember {
    /// A new one. It is not in the list before its first heartbeat. Its name says how long a heartbeat is good for, by which others
    /// find out that Redis's clock was set back.
    pub fn new(store: Store, dead_after: Duration) -> GroupMember {
        let (process, lifetime) = (std::process::id(), dead_after.as_millis());
        let name = format!("{process}-{:016x}/{lifetime}", fastrand::u64(..));
        GroupMember {
            store,
            name,
            dead_after,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How often it says that it lives.
    pub fn interval(&self) -> Duration {
        self.dead_after / 4
    }

    /// Says that it lives, and returns its partitions.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn heartbeat(&self) -> Result<Vec<Partition>, StoreError> {
        let living: Vec<String> = HEARTBEAT
            .script
            .key(self.store.keys().consumers())
            .arg(&self.name)
            .arg(self.dead_after.as_millis() as u64)
            .invoke_async(&mut self.store.commands())
            .await?;
        let all = 0..self.store.keys().partitions();
        Ok(all
            .filter(|p| owner(&living, *p) == Some(&self.name))
            .collect())
    }

    /// Leaves: the others need not wait until it counts as dead.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn leave(&self) -> Result<(), StoreError> {
        redis::cmd("ZREM")
            .arg(self.store.keys().consumers())
            .arg(&self.name)
            .exec_async(&mut self.store.commands())
            .await?;
        Ok(())
    }
}

/// Who has a partition: rendezvous hashing, so that one who leaves or joins moves only its own.
fn owner(living: &[String], partition: Partition) -> Option<&String> {
    living
        .iter()
        .max_by_key(|name| (weight(name, partition), *name))
}

/// FNV-1a over the name and the partition, stirred by the finisher of MurmurHash3.
fn weight(name: &str, partition: Partition) -> u64 {
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

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("{i}-00ff")).collect()
    }

    #[test]
    fn everyone_has_a_fair_share_and_every_partition_one_owner() {
        for count in 1..=5 {
            let living = names(count);
            let mut shares = vec![0; count];
            for partition in 0..1024 {
                let owner = owner(&living, partition).expect("somebody lives");
                shares[living
                    .iter()
                    .position(|name| name == owner)
                    .expect("one of them")] += 1;
            }
            let fair = 1024 / count;
            assert!(
                shares.iter().all(|share| *share > fair * 3 / 4),
                "{shares:?}"
            );
        }
        assert_eq!(owner(&[], 3), None);
    }

    #[test]
    fn one_who_leaves_moves_only_its_own() {
        let all = names(4);
        for partition in 0..1024 {
            let before = owner(&all, partition).expect("somebody lives");
            let after = owner(&all[..3], partition).expect("somebody lives");
            assert!(before == after || *before == all[3], "{partition}");
        }
    }
}
