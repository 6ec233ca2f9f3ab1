//! The steps of a migration.

use super::error::MigrationError;
use super::lease::{Lease, WAITING_FOR_LOCK};
use super::pass::{MOVING, MigrationPass, phases};
use super::passes::{PassResult, pass_until_clean};
use super::processes::Processes;
use super::progress::{Counts, Report};
use super::retry::retried;
use super::slots::slots;
use super::splits::refuse_while_split;
use super::target::Target;
use crate::domain::keys::StoragePhase;
use crate::domain::progress::Progress;
use crate::redis::layout::StoredLayout;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::storage::schema::Schemas;
use std::time::Duration;

/// The options of a migration.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long to wait after all processes follow the layout, for commands that are under way.
    pub grace: Duration,
    /// Whether damaged objects are left as they are.
    pub skip_damaged: bool,
}

/// A migration.
pub struct Migration<'a> {
    store: Store,
    schemas: Schemas,
    target: Target,
    options: Options,
    processes: Processes<'a>,
    counts: Counts,
    progress: &'a dyn Progress,
}

impl<'a> Migration<'a> {
    /// A migration that reports its progress to `progress`.
    pub fn new(
        store: Store,
        target: Target,
        options: Options,
        progress: &'a dyn Progress,
    ) -> Migration<'a> {
        Migration {
            schemas: Schemas::new(store.clone()),
            processes: Processes::new(&store, progress),
            store,
            target,
            options,
            counts: Counts::default(),
            progress,
        }
    }

    /// Moves all counters of the target, or finishes an earlier migration.
    ///
    /// # Errors
    /// The data has no tables, a process is too old, objects are damaged, another migration is running, or Redis failed.
    pub async fn run(mut self) -> Result<Report, MigrationError> {
        if self.store.backend() != CounterBackend::Module {
            let problem = "this data was created without the module: its counters are Strings, and there are no tables; `countd storage adopt` converts it";
            return Err(MigrationError::Refused(problem.to_owned()));
        }
        let lease = Lease::acquire(&self.store, || {
            self.step(WAITING_FOR_LOCK);
        })
        .await?;
        let result = self.run_locked(&lease).await;
        lease.release().await;
        self.processes.leave().await;
        result
    }

    async fn run_locked(&mut self, lease: &Lease) -> Result<Report, MigrationError> {
        let (counts, progress) = (self.counts, self.progress);
        let step = |step: &str| counts.show(step, progress);
        self.processes.refuse_older_consumers(step).await?;
        let mut passes = 0;
        self.store.refresh_layout().await?;
        refuse_while_split(&self.store.layout())?;
        let stored = self.store.layout().storage_of_type(self.target.name());
        if stored != StoragePhase::Table {
            if stored == StoragePhase::Object {
                self.record(StoragePhase::Moving).await?;
            }
            let phases = self.phases().await?;
            if phases.iter().any(Option::is_none) {
                self.wait_for_processes(lease).await?;
                self.set_phases("HSETNX", StoragePhase::Moving).await?;
            }
        } else if self.phases().await?.iter().any(Option::is_none) {
            // The counters were rows from the beginning, or slots have lost their phases: scripts that are under way must find them.
            self.set_phases("HSETNX", StoragePhase::Table).await?;
        }
        self.move_until_clean(lease, &mut passes).await?;
        self.set_phases("HSET", StoragePhase::Table).await?;
        if stored != StoragePhase::Table {
            self.record(StoragePhase::Table).await?;
        }
        self.wait_for_processes(lease).await?;
        let last = self.move_until_clean(lease, &mut passes).await?;
        self.step("done");
        Ok(Report {
            target: self.target.name().to_owned(),
            moved: self.counts.moved,
            merged: self.counts.merged,
            passes,
            damaged: last.damaged,
        })
    }

    /// Waits until all live processes follow the current layout.
    async fn wait_for_processes(&mut self, lease: &Lease) -> Result<(), MigrationError> {
        let (counts, progress) = (self.counts, self.progress);
        let step = |step: &str| counts.show(step, progress);
        self.processes.wait(lease, self.options.grace, step).await
    }

    fn step(&self, step: &str) {
        self.counts.show(step, self.progress);
    }

    /// Records the storage of the target in the layout.
    async fn record(&mut self, phase: StoragePhase) -> Result<(), MigrationError> {
        self.step(&format!("layout: {}", phase.name()));
        let (keys, name) = (self.store.keys(), self.target.name());
        // Another epoch does no harm.
        retried(async || {
            let mut connection = self.store.commands();
            StoredLayout::record_storage(&mut connection, &keys, (name, phase)).await?;
            Ok(())
        })
        .await
    }

    async fn phases(&self) -> Result<Vec<Option<String>>, MigrationError> {
        retried(async || phases(&self.store, &self.target).await).await
    }

    /// Sets the phase of all slots.
    async fn set_phases(
        &mut self,
        command: &str,
        phase: StoragePhase,
    ) -> Result<(), MigrationError> {
        self.step(&format!("slots: {}", phase.name()));
        let mut pipeline = redis::pipe();
        for partition in slots(&self.store) {
            pipeline
                .cmd(command)
                .arg(self.store.keys().storage_phases(partition))
                .arg(self.target.name())
                .arg(phase.name());
        }
        retried(async || {
            let _: Vec<u64> = pipeline.query_async(&mut self.store.commands()).await?;
            Ok(())
        })
        .await
    }

    /// Repeats passes until one finds no object that could be a row.
    async fn move_until_clean(
        &mut self,
        lease: &Lease,
        passes: &mut u64,
    ) -> Result<PassResult, MigrationError> {
        self.step(MOVING);
        let mut pass = MigrationPass {
            store: &self.store,
            schemas: &self.schemas,
            target: &self.target,
            lease,
            counts: &mut self.counts,
            progress: self.progress,
        };
        pass_until_clean(&mut pass, lease, self.options.skip_damaged, passes).await
    }
}
