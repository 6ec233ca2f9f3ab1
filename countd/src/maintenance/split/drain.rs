//! Waits until the events of partitions have reached the timelines of users.

use super::splitter::Splitter;
use crate::domain::keys::Partition;
use crate::log::inspect::inspect;
use crate::maintenance::storage::{Lease, MigrationError};
use crate::redis::permissions::Permissions;
use std::collections::BTreeMap;
use std::time::Duration;

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["XREVRANGE {out} + - COUNT 1", "XRANGE {out} - + COUNT 1"];

pub(super) fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
}

/// The delay between two looks at the consumers.
const POLL: Duration = Duration::from_millis(100);

impl Splitter<'_> {
    /// Waits until the current entries of these logs are counted, in a cluster also by the partitions of the users.
    pub(super) async fn drain(
        &mut self,
        lease: &Lease,
        partitions: &[Partition],
    ) -> Result<(), MigrationError> {
        self.wait_until_counted(lease, partitions).await?;
        let keys = self.store.keys();
        if !keys.tagged() {
            return Ok(());
        }
        for partition in partitions {
            self.wait_until_forwarded(lease, *partition).await?;
        }
        let all: Vec<Partition> = (0..keys.partitions()).collect();
        self.wait_until_counted(lease, &all).await
    }

    async fn wait_until_counted(
        &mut self,
        lease: &Lease,
        partitions: &[Partition],
    ) -> Result<(), MigrationError> {
        let mut ends: BTreeMap<Partition, u64> = BTreeMap::new();
        let mut left = partitions.to_vec();
        loop {
            let inspection = inspect(&self.store, &left).await;
            if let Some(error) = inspection.error {
                return Err(error.into());
            }
            left.retain(|partition| {
                let Some(state) = inspection.states.get(partition) else {
                    return true;
                };
                let now = match &state.end {
                    Ok(end) if end.entry.0 == 0 => end.entry.1,
                    // A consumer renumbers the log, or an operator has to repair it.
                    _ => return true,
                };
                // Entries that a restarted server has lost are never counted.
                let end = ends.entry(*partition).or_insert(now);
                *end = now.min(*end);
                !matches!(state.position, Ok(next) if next > *end)
            });
            if left.is_empty() {
                return Ok(());
            }
            self.step("waiting for the consumers");
            lease.check()?;
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the current entries of an outbox are in the logs of other partitions.
    async fn wait_until_forwarded(
        &mut self,
        lease: &Lease,
        partition: Partition,
    ) -> Result<(), MigrationError> {
        type Entries = Vec<(String, Vec<String>)>;
        let outbox = self.store.keys().outbox(partition);
        let mut cmd = redis::cmd("XREVRANGE");
        cmd.arg(&outbox).arg(&["+", "-", "COUNT", "1"]);
        let last: Entries = cmd.query_async(&mut self.store.commands()).await?;
        let Some((last, _)) = last.into_iter().next() else {
            return Ok(());
        };
        loop {
            let mut cmd = redis::cmd("XRANGE");
            cmd.arg(&outbox).arg(&["-", &last, "COUNT", "1"]);
            let first: Entries = cmd.query_async(&mut self.store.commands()).await?;
            if first.is_empty() {
                return Ok(());
            }
            self.step("waiting for the outboxes");
            lease.check()?;
            tokio::time::sleep(POLL).await;
        }
    }
}
