//! Converts data that was created without the module to the module's types, while clients use it.
//!
//! The stored layout tells processes which scripts to send. From `plain` it goes to `plain-or-module`, `module-or-plain` and `module`. In the
//! two in between, scripts look at the type of a key and use the value in the form that it has. They differ in the form of what is new, so that
//! at any time all processes can read what the others write: those of `plain-or-module` still write what processes of `plain` can read, and
//! those of `module-or-plain` only what processes of `module` can read. Between these two steps every value is converted, each in one step.
//!
//! A process that was suspended, or whose call is late, can send a script of a step that is over. Before a slot gets values that such a
//! script cannot read, or must not get what it would write, the slot gets a fence: a field that these scripts look at first
//! (`adoption_fence.lua`).
//!
//! Each step can be repeated. An adoption that was killed at any point is finished by running the command again.

use super::adoption_pass::{ADOPTING, Adopted, AdoptionPass};
use super::error::MigrationError;
use super::lease::{Lease, WAITING_FOR_LOCK};
use super::passes::pass_until_clean;
use super::processes::Processes;
use super::progress::Damage;
use super::retry::retried;
use super::slots::slots;
use super::splits::refuse_while_split;
use super::sums::{give_up, give_up_permissions};
use crate::domain::keys::ADOPTION_STEP;
use crate::domain::progress::{Progress, Update};
use crate::redis::layout::StoredLayout;
use crate::redis::module::servers_without_module;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use serde::Serialize;
use std::time::Duration;

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["HSET {phases} f v"];

/// The result of an adoption.
#[derive(Clone, Debug, Serialize)]
pub struct AdoptionReport {
    /// The number of counters and sets of IDs that this run converted.
    pub converted: u64,
    /// The number of members of timelines, totals and authors that this run moved. Requests and consumers move some, too.
    pub moved: u64,
    /// The number of passes over the keys.
    pub passes: u64,
    /// Keys that were left because they are damaged.
    pub damaged: Vec<Damage>,
}

/// The options of an adoption.
#[derive(Clone, Copy, Debug)]
pub struct AdoptionOptions {
    /// How long to wait after all processes follow the layout, for commands that are under way.
    pub grace: Duration,
    /// Whether damaged keys are left as they are.
    pub skip_damaged: bool,
    /// Whether replicas are not asked whether they have the module.
    pub skip_replicas: bool,
}

/// An adoption.
pub struct AdoptionRun<'a> {
    store: Store,
    options: AdoptionOptions,
    processes: Processes<'a>,
    adopted: Adopted,
    progress: &'a dyn Progress,
}

/// The permissions that adoptions require.
pub(super) fn required_permissions() -> Permissions {
    super::adoption_pass::required_permissions()
        .and(give_up_permissions())
        .and(Permissions::of_commands(PERMISSIONS))
}

impl<'a> AdoptionRun<'a> {
    /// An adoption that reports its progress to `progress`.
    pub fn new(
        store: Store,
        options: AdoptionOptions,
        progress: &'a dyn Progress,
    ) -> AdoptionRun<'a> {
        AdoptionRun {
            processes: Processes::new(&store, progress),
            store,
            options,
            adopted: Adopted::default(),
            progress,
        }
    }

    /// Converts all data, or finishes an earlier adoption.
    ///
    /// # Errors
    /// A server does not have the module, a process is too old, keys are damaged, a migration is running, or Redis failed.
    pub async fn run(mut self) -> Result<AdoptionReport, MigrationError> {
        let without = servers_without_module(&self.store, self.options.skip_replicas).await?;
        if !without.is_empty() {
            return Err(MigrationError::Refused(format!(
                "servers without the module: {}. Load it on every server, also on replicas, and run the command again",
                without.join(", ")
            )));
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

    async fn run_locked(&mut self, lease: &Lease) -> Result<AdoptionReport, MigrationError> {
        let (adopted, progress) = (self.adopted, self.progress);
        let step = |step: &str| adopted.show(step, progress);
        self.processes.refuse_older_consumers(step).await?;
        self.store.refresh_layout().await?;
        refuse_while_split(&self.store.layout())?;
        let mut passes = 0;
        let mut damaged = Vec::new();
        loop {
            let backend = self.store.backend();
            match backend {
                CounterBackend::Strings => self.record(CounterBackend::StringsOrModule).await?,
                CounterBackend::StringsOrModule => {
                    self.wait(lease).await?;
                    self.fence(CounterBackend::ModuleOrStrings).await?;
                    self.record(CounterBackend::ModuleOrStrings).await?;
                }
                CounterBackend::ModuleOrStrings => {
                    self.wait(lease).await?;
                    self.fence(CounterBackend::Module).await?;
                    self.give_up_sums().await?;
                    // A failover can lose conversions that were not replicated. They must be found before processes expect the module's types,
                    // and so must the fence.
                    loop {
                        self.convert_until_clean(lease, &mut passes).await?;
                        let before = (self.adopted.converted, self.adopted.moved);
                        self.wait(lease).await?;
                        self.fence(CounterBackend::Module).await?;
                        self.convert_until_clean(lease, &mut passes).await?;
                        if before == (self.adopted.converted, self.adopted.moved) {
                            break;
                        }
                    }
                    self.record(CounterBackend::Module).await?;
                }
                CounterBackend::Module => {
                    self.wait(lease).await?;
                    self.fence(CounterBackend::Module).await?;
                    damaged.extend(self.convert_until_clean(lease, &mut passes).await?);
                    break;
                }
            }
        }
        self.step("done");
        Ok(AdoptionReport {
            converted: self.adopted.converted,
            moved: self.adopted.moved,
            passes,
            damaged,
        })
    }

    fn step(&self, step: &str) {
        self.adopted.show(step, self.progress);
    }

    async fn wait(&mut self, lease: &Lease) -> Result<(), MigrationError> {
        let (adopted, progress) = (self.adopted, self.progress);
        let step = |step: &str| adopted.show(step, progress);
        self.processes.wait(lease, self.options.grace, step).await
    }

    /// Records how the data is stored in the layout, and follows that.
    async fn record(&mut self, backend: CounterBackend) -> Result<(), MigrationError> {
        self.step(&format!("layout: {}", backend.name()));
        let keys = self.store.keys();
        // Another epoch does no harm.
        retried(async || {
            let mut connection = self.store.commands();
            StoredLayout::record_backend(&mut connection, &keys, backend).await?;
            self.store.refresh_layout().await?;
            Ok(())
        })
        .await
    }

    /// Lets all slots refuse scripts that cannot read what a slot has from this step on, or that write what it must not have.
    async fn fence(&self, step: CounterBackend) -> Result<(), MigrationError> {
        retried(async || {
            for partition in slots(&self.store) {
                let mut cmd = redis::cmd("HSET");
                cmd.arg(self.store.keys().storage_phases(partition));
                cmd.arg(ADOPTION_STEP).arg(step.name());
                cmd.exec_async(&mut self.store.commands()).await?;
            }
            Ok(())
        })
        .await
    }

    /// Gives up the sweep over authors that is under way: its sums are partly in Hashes, and partly in tables.
    async fn give_up_sums(&self) -> Result<(), MigrationError> {
        retried(async || Ok(give_up(&self.store).await?)).await
    }

    /// Repeats passes until one finds nothing to convert. Returns the damaged keys.
    async fn convert_until_clean(
        &mut self,
        lease: &Lease,
        passes: &mut u64,
    ) -> Result<Vec<Damage>, MigrationError> {
        self.step(ADOPTING);
        let mut pass = AdoptionPass {
            store: &self.store,
            lease,
            adopted: &mut self.adopted,
            progress: self.progress,
        };
        let clean = pass_until_clean(&mut pass, lease, self.options.skip_damaged, passes).await?;
        Ok(clean.damaged)
    }
}

impl Adopted {
    /// Shows what was done so far, with the current step.
    pub(super) fn show(self, step: &str, progress: &dyn Progress) {
        let counts = [("converted", self.converted), ("moved", self.moved)];
        // Keys may appear meanwhile.
        let all = (self.all > 0).then(|| self.all.max(self.visited));
        let update = Update::new(step, self.visited, "keys").of(all);
        progress.update(&update.with(&counts));
    }
}
