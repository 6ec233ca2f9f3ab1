//! Waits until what was written cannot be lost any more, before a step that relies on it.
//!
//! A server that loses its last second (`appendfsync everysec`) must not lose a step of a split or a merge whose next step is on another
//! server: that one would keep its part. A server that was restarted or replaced meanwhile may have lost it, so the steps are repeated.

use super::splitter::Splitter;
use crate::log::published::confirm_all;
use crate::maintenance::storage::{Lease, MigrationError};
use crate::redis::run_id::run_ids;
use std::time::{Duration, Instant};

/// What a server may lose when it crashes: up to two seconds with `appendfsync everysec`.
pub(super) const LOSS: Duration = Duration::from_secs(3);
/// The delay between two checks of the lock.
const POLL: Duration = Duration::from_millis(250);

/// The servers at the beginning of some steps.
pub(super) struct Servers(Vec<String>);

impl Splitter<'_> {
    /// The servers now. What is written from here on can be made durable.
    pub(super) async fn servers(&self) -> Result<Servers, MigrationError> {
        Ok(Servers(run_ids(&self.store).await?))
    }

    /// Waits until everything that was written since `servers` is on the disks and, with `redis.ack`, on the replicas of all servers. Returns
    /// false if a server was restarted or replaced since then: what was written has to be written again.
    pub(super) async fn are_durable(
        &self,
        lease: &Lease,
        servers: &Servers,
    ) -> Result<bool, MigrationError> {
        self.step("waiting for disks and replicas");
        let begun = Instant::now();
        while begun.elapsed() < LOSS {
            lease.check()?;
            tokio::time::sleep(POLL).await;
        }
        self.are_confirmed(servers).await
    }

    /// [`are_durable`](Self::are_durable) for what was written longer ago than a server may lose.
    pub(super) async fn are_confirmed(&self, servers: &Servers) -> Result<bool, MigrationError> {
        confirm_all(&self.store).await?;
        Ok(run_ids(&self.store).await? == servers.0)
    }
}
