//! Waits until the consumers have committed the entries of a backfill.

use super::{Backfill, BackfillError, POLL};
use crate::domain::keys::Partition;
use crate::log::inspect::inspect;
use crate::redis::processes::ProcessMember;
use std::collections::BTreeMap;

/// The commands that read outboxes.
pub(super) const PERMISSIONS: &[&str] =
    &["XREVRANGE {out} + - COUNT 1", "XRANGE {out} - + COUNT 1"];

impl Backfill<'_> {
    /// Waits until the consumers have committed the current entries of these logs.
    pub(super) async fn wait_until_committed(
        &mut self,
        partitions: &[Partition],
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
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
                let end = match &state.end {
                    Ok(end) if end.entry.0 == 0 => end.entry.1,
                    // A consumer renumbers the log, or an operator has to repair it.
                    _ => return true,
                };
                let end = *ends.entry(*partition).or_insert(end);
                !matches!(state.position, Ok(next) if next > end)
            });
            if left.is_empty() {
                return Ok(());
            }
            self.step("waiting for the consumers");
            // Entries that a restarted server has lost are never committed.
            self.check_servers().await?;
            // The heartbeat also keeps the layout current.
            member.heartbeat().await?;
            tokio::time::sleep(POLL).await;
        }
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
            self.check_servers().await?;
            member.heartbeat().await?;
            tokio::time::sleep(POLL).await;
        }
    }
}
