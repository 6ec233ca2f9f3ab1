//! Waits until what was written cannot be lost any more, before a step that relies on it.
//!
//! A server that loses its last second (`appendfsync everysec`) must not lose a step of a split or a merge whose next step is on another
//! server: that one would keep its part. So everything is first confirmed (`redis.ack`): replicas then have it, at least in memory. What
//! servers and replicas have is on their disks when they have not failed for as long as a server may lose. A server that was restarted or
//! replaced meanwhile may have lost it, so the steps are repeated.

use super::splitter::Splitter;
use crate::log::published::confirm_all;
use crate::maintenance::storage::{Lease, MigrationError};
use crate::redis::run_id::run_ids;
use std::time::{Duration, Instant};

/// What a server may lose when it crashes: up to two seconds with `appendfsync everysec`.
pub const LOSS: Duration = Duration::from_secs(3);
/// The delay between two checks of the lock.
const POLL: Duration = Duration::from_millis(250);

/// The servers at the beginning of some steps.
pub(super) struct Servers(Vec<String>);

impl Splitter<'_> {
    /// The servers now. What is written from here on can be made durable.
    pub(super) async fn servers(&self) -> Result<Servers, MigrationError> {
        Ok(Servers(run_ids(&self.store).await?))
    }

    /// Confirms everything that was written before, and waits until it is on the disks of all servers and, with `redis.ack`, of their replicas.
    /// Returns false if a server was restarted or replaced since `servers`: what was written has to be written again.
    pub(super) async fn are_durable(
        &self,
        lease: &Lease,
        servers: &Servers,
    ) -> Result<bool, MigrationError> {
        self.confirm().await?;
        let begun = Instant::now();
        while begun.elapsed() < LOSS {
            lease.check()?;
            tokio::time::sleep(POLL).await;
        }
        self.are_same(servers).await
    }

    /// Confirms everything that was written before. [`LOSS`] later, it is durable unless the servers are others.
    pub(super) async fn confirm(&self) -> Result<(), MigrationError> {
        self.step("waiting for disks and replicas");
        Ok(confirm_all(&self.store).await?)
    }

    /// Whether no server was restarted or replaced since `servers`.
    pub(super) async fn are_same(&self, servers: &Servers) -> Result<bool, MigrationError> {
        Ok(run_ids(&self.store).await? == servers.0)
    }
}
