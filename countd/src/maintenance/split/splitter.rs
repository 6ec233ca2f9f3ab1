//! Splits and merges an entity under the lock of migrations.

use crate::domain::config::{Config, USER};
use crate::domain::error::Problem;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::StoragePhase;
use crate::domain::progress::{Progress, Update};
use crate::domain::split::{SHARDS, SplitPhase, SplitState};
use crate::facts::{FactStores, SplitFacts};
use crate::maintenance::storage::{Lease, MigrationError, Processes};
use crate::redis::layout::StoredLayout;
use crate::redis::permissions::Permissions;
use crate::redis::store::Store;
use crate::storage::authors::Authors;
use crate::storage::catalog::Catalog;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["EXISTS {replay}"];

/// The permission to see that a rebuild runs.
pub fn refusal_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
}

/// The result of a split or a merge.
#[derive(Debug, Serialize)]
pub struct SplitReport {
    /// The type of the entity.
    pub etype: Name,
    /// The ID of the entity.
    pub eid: String,
    /// The phase; `None` if it is whole.
    pub phase: Option<&'static str>,
    /// The number of shards.
    pub shards: u16,
    /// The metrics whose facts are split.
    pub metrics: Vec<Name>,
    /// Other metrics, and why they stay whole.
    pub whole: Vec<(Name, String)>,
}

impl SplitReport {
    /// The report of an entity.
    pub fn new(entity: &Entity, state: Option<&SplitState>) -> SplitReport {
        SplitReport {
            etype: entity.etype.clone(),
            eid: entity.eid.to_string(),
            phase: state.map(|state| state.phase.name()),
            shards: state.map_or(0, |state| state.shards),
            metrics: state.map(|state| state.metrics.clone()).unwrap_or_default(),
            whole: Vec::new(),
        }
    }
}

/// Splits and merges entities.
pub struct Splitter<'a> {
    pub(super) store: Store,
    pub(super) catalog: Catalog,
    pub(super) facts: SplitFacts,
    pub(super) authors: Authors,
    /// How long to wait for commands that are under way, before shards get facts.
    pub(super) grace: Duration,
    pub(super) processes: Processes<'a>,
    pub(super) progress: &'a dyn Progress,
}

impl From<Problem> for MigrationError {
    fn from(problem: Problem) -> MigrationError {
        match problem {
            Problem::Store(error) => MigrationError::Store(error),
            problem => MigrationError::Refused(problem.to_string()),
        }
    }
}

impl<'a> Splitter<'a> {
    /// Splits and merges entities of a store.
    pub fn new(
        config: &Arc<Config>,
        store: Store,
        grace: Duration,
        progress: &'a dyn Progress,
    ) -> Splitter<'a> {
        let stores = FactStores::new(store.keys(), store.current_backend(), config.facts.shards);
        Splitter {
            catalog: Catalog::new(Arc::clone(config), store.clone()),
            facts: SplitFacts::new(store.keys(), stores),
            authors: Authors::new(store.clone()),
            processes: Processes::new(&store, progress),
            store,
            grace,
            progress,
        }
    }

    /// Splits an entity, or finishes an earlier attempt.
    ///
    /// # Errors
    /// The entity or the data does not allow it, another command is running, Redis failed, or it has lost the state of the split.
    pub async fn split(
        mut self,
        entity: &Entity,
        shards: u16,
    ) -> Result<SplitReport, MigrationError> {
        let lease = self.lease().await?;
        let result = self.split_locked(&lease, entity, shards).await;
        self.end(lease).await;
        result
    }

    /// Merges an entity, or finishes an earlier attempt.
    ///
    /// # Errors
    /// Another command is running, or Redis failed.
    pub async fn merge(mut self, entity: &Entity) -> Result<SplitReport, MigrationError> {
        let lease = self.lease().await?;
        let result = self.merge_locked(&lease, entity).await;
        self.end(lease).await;
        result
    }

    pub(super) async fn lease(&self) -> Result<Lease, MigrationError> {
        Lease::acquire(&self.store, || {
            self.step("waiting for the lock of a migration")
        })
        .await
    }

    pub(super) async fn end(&mut self, lease: Lease) {
        lease.release().await;
        self.processes.leave().await;
    }

    pub(super) fn step(&self, step: &str) {
        self.progress.update(&Update::new(step, 0, "facts"));
    }

    pub(super) fn state(&self, entity: &Entity) -> Option<Arc<SplitState>> {
        self.store.layout().split_of(entity).cloned()
    }

    async fn split_locked(
        &mut self,
        lease: &Lease,
        entity: &Entity,
        shards: u16,
    ) -> Result<SplitReport, MigrationError> {
        let refused = |problem: String| Err(MigrationError::Refused(problem));
        if !SHARDS.contains(&shards) {
            return refused(format!(
                "shards must be {} to {}",
                SHARDS.start(),
                SHARDS.end()
            ));
        }
        self.store.refresh_layout().await?;
        let mut whole = Vec::new();
        match self.state(entity) {
            Some(state) if state.phase == SplitPhase::Merging => {
                return refused("the entity is being merged: finish the merge first".to_owned());
            }
            Some(state) if state.shards != shards => {
                return refused(format!(
                    "the entity has {} shards: merge it first",
                    state.shards
                ));
            }
            Some(_) => {}
            None => {
                self.refuse(entity).await?;
                let metrics;
                (metrics, whole) = self.metrics(entity).await?;
                if metrics.is_empty() {
                    let reasons: Vec<String> = whole
                        .iter()
                        .map(|(name, reason)| format!("{name} {reason}"))
                        .collect();
                    let reasons = reasons.join("; ");
                    return refused(format!("no metric of the entity can be split: {reasons}"));
                }
                let (store, progress) = (&self.store, self.progress);
                let step = |step: &str| progress.update(&Update::new(step, 0, "facts"));
                self.processes.refuse_older_consumers(step).await?;
                // Each time, because it starts an epoch: no split has had the generation that follows it, not even one that the server
                // of the layout has lost.
                let mut connection = store.commands();
                let epoch = StoredLayout::record_can_split(&mut connection, &store.keys()).await?;
                store.refresh_layout().await?;
                let state = SplitState {
                    phase: SplitPhase::Splitting,
                    generation: epoch + 1,
                    shards,
                    metrics,
                };
                self.record(entity, (None, Some(&state))).await?;
            }
        }
        self.advance(lease, entity).await?;
        let Some(state) = self.state(entity) else {
            return refused("Redis has lost the state of the split: run this again".to_owned());
        };
        let report = SplitReport::new(entity, Some(&state));
        Ok(SplitReport { whole, ..report })
    }

    async fn merge_locked(
        &mut self,
        lease: &Lease,
        entity: &Entity,
    ) -> Result<SplitReport, MigrationError> {
        self.store.refresh_layout().await?;
        // A split that was interrupted is finished first: its facts may be frozen.
        self.advance(lease, entity).await?;
        if let Some(state) = self.state(entity) {
            let merging = SplitState {
                phase: SplitPhase::Merging,
                ..(*state).clone()
            };
            self.record(entity, (Some(&state), Some(&merging))).await?;
            self.advance(lease, entity).await?;
        }
        Ok(SplitReport::new(entity, self.state(entity).as_deref()))
    }

    /// Replaces the state of an entity in the layout.
    pub(super) async fn record(
        &self,
        entity: &Entity,
        change: (Option<&SplitState>, Option<&SplitState>),
    ) -> Result<(), MigrationError> {
        let keys = self.store.keys();
        let mut connection = self.store.commands();
        let is_recorded =
            StoredLayout::record_split(&mut connection, &keys, entity, change).await?;
        self.store.refresh_layout().await?;
        match is_recorded {
            true => Ok(()),
            false => Err(MigrationError::LockLost),
        }
    }

    /// Refuses what the data or the type of the entity does not allow.
    async fn refuse(&self, entity: &Entity) -> Result<(), MigrationError> {
        let layout = self.store.layout();
        let reason = if entity.etype.as_str() == USER {
            "users cannot be split: their counters count facts on them".to_owned()
        } else if !self.catalog.config.entities.contains_key(&entity.etype) {
            format!(
                "there is no entity type {} in the configuration",
                entity.etype
            )
        } else if layout.backend.is_mixed() {
            "an adoption converts the data: finish `countd storage adopt` first".to_owned()
        } else if layout.storage_of(&entity.etype) == StoragePhase::Moving {
            "a migration moves the counters: finish `countd storage migrate` first".to_owned()
        } else if layout
            .all_schema_views()
            .values()
            .any(|of| of.state.stage.has_both())
        {
            "a schema is being migrated: finish `countd schema migrate` first".to_owned()
        } else if layout.sinks {
            "a sink follows the log, and has no rows for shards: end it with `countd sink --end`"
                .to_owned()
        } else if self.is_rebuilding().await? {
            "a rebuild runs: let `countd rebuild` finish first".to_owned()
        } else {
            return Ok(());
        };
        Err(MigrationError::Refused(reason))
    }

    async fn is_rebuilding(&self) -> Result<bool, MigrationError> {
        let mut cmd = redis::cmd("EXISTS");
        cmd.arg(self.store.keys().rebuild_state());
        let exists: u64 = cmd.query_async(&mut self.store.commands()).await?;
        Ok(exists > 0)
    }
}
