//! Waits until the events of partitions have reached the timelines of users.

use super::splitter::Splitter;
use crate::domain::keys::Partition;
use crate::maintenance::drain::{OutboxEnd, UncountedLogs};
use crate::maintenance::storage::{Lease, MigrationError};
use std::time::Duration;

/// The polling interval.
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
        let mut logs = UncountedLogs::of(partitions);
        while !logs.are_counted(&self.store).await? {
            self.step("waiting for the consumers");
            lease.check()?;
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Waits until the current entries of an outbox are in the logs of other partitions.
    async fn wait_until_forwarded(
        &mut self,
        lease: &Lease,
        partition: Partition,
    ) -> Result<(), MigrationError> {
        let Some(end) = OutboxEnd::of(&self.store, partition).await? else {
            return Ok(());
        };
        while !end.is_forwarded(&self.store).await? {
            self.step("waiting for the outboxes");
            lease.check()?;
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}
