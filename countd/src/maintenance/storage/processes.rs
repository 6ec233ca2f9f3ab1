//! Waits for the other processes.

use super::error::MigrationError;
use super::lease::Lease;
use super::retry::retried;
use crate::domain::progress::Progress;
use crate::redis::processes::{
    LiveProcess, ProcessMember, consumer_without_heartbeat, live_consumers, processes_behind,
};
use crate::redis::store::Store;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The delay between two looks at the live processes.
const POLL: Duration = Duration::from_millis(250);
/// How long a consumer without a process of this version is tolerated: the heartbeats of a dead consumer expire.
const PATIENCE: Duration = Duration::from_secs(15);

/// After this time a wait names the processes that it is for. A process that runs follows a change within a second.
const NAMED_AFTER: Duration = Duration::from_secs(2);

/// The processes that use the data. This one is a member.
pub(in crate::maintenance) struct Processes<'a> {
    store: Store,
    member: ProcessMember,
    progress: &'a dyn Progress,
}

impl<'a> Processes<'a> {
    /// The processes of a store. `progress` is told which ones a wait is for.
    pub fn new(store: &Store, progress: &'a dyn Progress) -> Processes<'a> {
        Processes {
            member: ProcessMember::new(store.clone()),
            store: store.clone(),
            progress,
        }
    }

    /// Refuses if a consumer runs whose process sends no heartbeat: its version does not know that the layout changes.
    pub async fn refuse_older_consumers(
        &mut self,
        step: impl Fn(&str),
    ) -> Result<(), MigrationError> {
        let started = Instant::now();
        loop {
            let live = self.live().await?;
            let consumers = live_consumers(&self.store).await?;
            let Some(pid) = consumer_without_heartbeat(&live, &consumers) else {
                return Ok(());
            };
            if started.elapsed() > PATIENCE {
                let problem = format!(
                    "the consumer with the process ID {pid} is of an older version: all processes must be of this version first"
                );
                return Err(MigrationError::Refused(problem));
            }
            step("waiting for consumers of an older version to end");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn live(&mut self) -> Result<Vec<LiveProcess>, MigrationError> {
        let member = &mut self.member;
        retried(async || member.heartbeat().await.map_err(MigrationError::from)).await
    }

    /// Waits until all live processes follow the current layout.
    pub async fn wait_until_followed(
        &mut self,
        lease: &Lease,
        step: impl Fn(&str),
    ) -> Result<(), MigrationError> {
        step("waiting for all processes");
        let (started, mut named) = (Instant::now(), BTreeSet::new());
        loop {
            lease.check()?;
            let live = self.live().await?;
            let epoch = self.store.layout().epoch;
            let behind = processes_behind(&live, epoch);
            if behind.is_empty() {
                return Ok(());
            }
            if started.elapsed() >= NAMED_AFTER {
                for LiveProcess {
                    id,
                    epoch: followed,
                } in behind
                {
                    let note = format!(
                        "waiting for process {id}, which follows epoch {followed} of countd:layout, not {epoch}"
                    );
                    if named.insert(id) {
                        self.progress.note(&note);
                    }
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until all live processes follow the current layout, and then for the grace period.
    pub async fn wait(
        &mut self,
        lease: &Lease,
        grace: Duration,
        step: impl Fn(&str),
    ) -> Result<(), MigrationError> {
        self.wait_until_followed(lease, &step).await?;
        step("grace period");
        let end = Instant::now() + grace;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            lease.check()?;
            tokio::time::sleep(left.min(Duration::from_secs(1))).await;
        }
        Ok(())
    }

    /// Leaves the group. A heartbeat would expire soon.
    pub async fn leave(&mut self) {
        let _ = self.member.leave().await;
    }
}
