//! Waits for the other processes.

use super::error::SchemaMigrationError;
use super::migration::{RETRIES, RETRY_DELAY, SchemaMigration};
use crate::maintenance::storage::Lease;
use crate::redis::processes::{
    LiveProcess, consumer_without_heartbeat, is_anyone_behind, live_consumers,
};
use std::time::{Duration, Instant};

/// The delay between two looks at the live processes.
const POLL: Duration = Duration::from_millis(250);
/// How long a consumer without a process of this version is tolerated: the heartbeats of a dead consumer expire.
const PATIENCE: Duration = Duration::from_secs(15);

impl SchemaMigration<'_> {
    /// Waits until all live processes follow the stage.
    pub(super) async fn wait_for_processes(
        &mut self,
        lease: &Lease,
    ) -> Result<(), SchemaMigrationError> {
        self.step("waiting for all processes");
        loop {
            lease.check()?;
            let live = self.live_processes().await?;
            if !is_anyone_behind(&live, self.context.store.layout().epoch) {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn live_processes(&mut self) -> Result<Vec<LiveProcess>, SchemaMigrationError> {
        let mut attempt = 0;
        loop {
            let live = self.member.heartbeat().await;
            match live.map_err(SchemaMigrationError::from) {
                Err(error) if error.is_transient() && attempt < RETRIES => attempt += 1,
                result => return result,
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Refuses if a consumer runs whose process sends no heartbeat: its version does not know views.
    pub(super) async fn refuse_older_consumers(&mut self) -> Result<(), SchemaMigrationError> {
        let started = Instant::now();
        loop {
            let live = self.live_processes().await?;
            let consumers = live_consumers(&self.context.store).await?;
            let Some(pid) = consumer_without_heartbeat(&live, &consumers) else {
                return Ok(());
            };
            if started.elapsed() > PATIENCE {
                let problem = format!(
                    "the consumer with the process ID {pid} is of an older version: all processes must be of this version first"
                );
                return Err(SchemaMigrationError::Refused(problem));
            }
            self.step("waiting for consumers of an older version to end");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}
