//! The steps of a split.

use super::durable::LOSS;
use super::splitter::Splitter;
use crate::domain::ids::Entity;
use crate::domain::progress::Update;
use crate::domain::split::{SplitPhase, SplitState};
use crate::maintenance::storage::{Lease, MigrationError};
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, ScriptTemplate};
use std::sync::Arc;

static FREEZE: ScriptTemplate =
    ScriptTemplate::writing(&[include_str!("../../lua/split_freeze.lua")]);

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["HSET {split} f v"];

pub(super) fn required_permissions(backend: CounterBackend) -> Permissions {
    Permissions::of_commands(PERMISSIONS).and(FREEZE.required_permissions(backend))
}

impl Splitter<'_> {
    /// Performs the steps of an entity until it is split, or whole.
    pub(super) async fn advance(
        &mut self,
        lease: &Lease,
        entity: &Entity,
    ) -> Result<(), MigrationError> {
        loop {
            lease.check()?;
            self.store.refresh_layout().await?;
            match self.state(entity) {
                None => return Ok(()),
                Some(state) => match state.phase {
                    SplitPhase::Split => return Ok(()),
                    SplitPhase::Splitting => self.finish_split(lease, entity, &state).await?,
                    SplitPhase::Merging => self.finish_merge(lease, entity, &state).await?,
                },
            }
        }
    }

    /// Waits until all live processes follow the layout; with the grace period, also for as long as a server may lose what it has written.
    pub(super) async fn follow(
        &mut self,
        lease: &Lease,
        with_grace: bool,
    ) -> Result<(), MigrationError> {
        let progress = self.progress;
        let step = |step: &str| progress.update(&Update::new(step, 0, "facts"));
        match with_grace {
            true => {
                let grace = self.grace.max(LOSS);
                self.processes.wait(lease, grace, step).await
            }
            false => self.processes.wait_until_followed(lease, step).await,
        }
    }

    async fn finish_split(
        &mut self,
        lease: &Lease,
        entity: &Entity,
        state: &Arc<SplitState>,
    ) -> Result<(), MigrationError> {
        let servers = self.servers().await?;
        // Processes find frozen facts by the state in the layout, which its server must not lose any more.
        self.confirm().await?;
        self.follow(lease, true).await?;
        let is_durable = self.are_same(&servers).await?;
        self.store.refresh_layout().await?;
        if !is_durable || self.state(entity).as_ref() != Some(state) {
            return Ok(());
        }
        self.step("authors of the shards");
        self.authors.put_shards(entity, state).await?;
        self.freeze(lease, entity, state).await?;
        let partition = self.store.keys().of_entity(entity);
        self.drain(lease, &[partition]).await?;
        lease.check()?;
        self.set(entity, state, "open").await?;
        // Shards get facts from then on. A base that lost that its facts are frozen or open would take the same users.
        if !self.are_durable(lease, &servers).await? {
            return Ok(());
        }
        let split = SplitState {
            phase: SplitPhase::Split,
            ..(**state).clone()
        };
        self.record(entity, (Some(state), Some(&split))).await
    }

    /// Moves the facts of the base to the key that they have while the entity is split, unless they are there.
    pub(super) async fn freeze(
        &self,
        lease: &Lease,
        entity: &Entity,
        state: &SplitState,
    ) -> Result<(), MigrationError> {
        for metric in &state.metrics {
            lease.check()?;
            self.step("freezing facts");
            let keys = self.store.keys();
            let base = keys.base_of_split(metric, entity, state.generation);
            let script = FREEZE.on(self.store.backend());
            let mut call = RedisCall::script(script, &[base.whole, base.frozen, base.state]);
            call.cmd.arg(metric.as_str());
            call.send(&self.store).await?;
        }
        Ok(())
    }

    /// Sets a flag of the base.
    pub(super) async fn set(
        &self,
        entity: &Entity,
        state: &SplitState,
        flag: &str,
    ) -> Result<(), MigrationError> {
        let key = self.store.keys().split_state(entity, state.generation);
        let mut cmd = redis::cmd("HSET");
        cmd.arg(key).arg(flag).arg(1);
        Ok(cmd.exec_async(&mut self.store.commands()).await?)
    }
}
