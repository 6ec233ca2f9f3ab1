//! Waits until the consumers have committed the entries of a backfill.

use super::{Backfill, BackfillError, POLL};
use crate::domain::keys::Partition;
use crate::maintenance::drain::{OutboxEnd, UncountedLogs};
use crate::redis::processes::ProcessMember;

impl Backfill<'_> {
    /// Waits until the consumers have committed the current entries of these logs.
    pub(super) async fn wait_until_committed(
        &mut self,
        partitions: &[Partition],
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
        let mut logs = UncountedLogs::of(partitions);
        while !logs.are_counted(&self.store).await? {
            self.step("waiting for the consumers");
            self.wait(member).await?;
        }
        Ok(())
    }

    /// Checks that no server was restarted, since it may have lost entries of the backfill, and waits.
    async fn wait(&mut self, member: &mut ProcessMember) -> Result<(), BackfillError> {
        self.check_servers().await?;
        // The heartbeat also keeps the layout current.
        member.heartbeat().await?;
        tokio::time::sleep(POLL).await;
        Ok(())
    }

    /// Waits until everything that was appended is committed, in a cluster also by the partitions of the users.
    pub(super) async fn drain(&mut self, member: &mut ProcessMember) -> Result<(), BackfillError> {
        let waiting: Vec<Partition> = std::mem::take(&mut self.waiting).into_iter().collect();
        self.wait_until_committed(&waiting, member).await?;
        let keys = self.store.keys();
        if !keys.tagged() {
            return Ok(());
        }
        for partition in waiting {
            self.wait_until_forwarded(partition, member).await?;
        }
        let all: Vec<Partition> = (0..keys.partitions()).collect();
        self.wait_until_committed(&all, member).await
    }

    /// Waits until the current entries of an outbox are in the logs of other partitions.
    async fn wait_until_forwarded(
        &mut self,
        partition: Partition,
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
        let Some(end) = OutboxEnd::of(&self.store, partition).await? else {
            return Ok(());
        };
        while !end.is_forwarded(&self.store).await? {
            self.step("waiting for the outboxes");
            self.wait(member).await?;
        }
        Ok(())
    }
}
