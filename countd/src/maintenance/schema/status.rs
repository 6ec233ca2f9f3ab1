//! The stage of a migration, and what it waits for.

use super::error::SchemaMigrationError;
use super::migration::{Outcome, SchemaMigration};
use crate::maintenance::storage::Lease;
use crate::redis::processes::{LiveProcess, live_processes, processes_behind};
use serde::Serialize;

/// What `countd schema migrate --status` reports.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The stage of each schema that has columns.
    pub migrations: Vec<Outcome>,
    /// The PID of the holder of the migration lock, which migrations of the storage and adoptions take, too; `None` if the lock is free.
    pub running: Option<String>,
    /// The epoch of the layout that the processes are to follow.
    pub epoch: u64,
    /// The live processes that follow an earlier one.
    pub behind: Vec<Behind>,
}

/// A live process that does not follow the layout.
#[derive(Clone, Debug, Serialize)]
pub struct Behind {
    /// Its ID, as in its log and in `countd:processes`.
    pub process: String,
    /// The epoch of the layout that it follows.
    pub epoch: u64,
}

impl SchemaMigration<'_> {
    /// The stage of the migration, and what it waits for. Changes nothing.
    ///
    /// # Errors
    /// The schemas cannot be migrated, or Redis failed.
    pub async fn status(self) -> Result<Status, SchemaMigrationError> {
        self.check_pair()?;
        let store = &self.context.store;
        let epoch = store.refresh_layout().await?;
        let behind = processes_behind(&live_processes(store).await?, epoch).into_iter();
        Ok(Status {
            migrations: self.outcomes(),
            running: Lease::holder(store).await?,
            epoch,
            behind: behind
                .map(|LiveProcess { id, epoch }| Behind { process: id, epoch })
                .collect(),
        })
    }
}
