//! The stages of a migration.

use super::error::SchemaMigrationError;
use super::plan::{self, Pair};
use crate::domain::config::USER;
use crate::domain::event::CheckMode;
use crate::domain::ids::Name;
use crate::domain::progress::{Progress, Update};
use crate::domain::schema_views::{MigrationState, Stage, View};
use crate::maintenance::reconcile::{Context, Scope};
use crate::maintenance::storage::refuse_while_split;
use crate::maintenance::storage::{Lease, Processes};
use serde::Serialize;
use std::collections::BTreeMap;

/// Shows the current step.
fn show(progress: &dyn Progress, step: &str) {
    progress.update(&Update::waiting(step));
}

/// How far a run takes the migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Both schemas are complete.
    Complete,
    /// Reads of this percentage of the entities return the new schema.
    Percent(u8),
    /// The migration has ended.
    Done,
    /// Clients have the old schema.
    Rollback,
}

/// The stage of a migration.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The schema that has the columns.
    pub columns: Name,
    /// The types whose counters are in these columns.
    pub types: Vec<Name>,
    /// The stage.
    pub stage: &'static str,
    /// Of how many percent of the entities reads return the new schema.
    pub percent: u8,
    /// How the new schema differs from the columns: `{column}>{counter}`, and `+{counter}` for an added one.
    pub view: String,
    /// The command that takes the migration to its next stage; `None` if it has ended.
    pub next: Option<String>,
}

/// A migration of a schema.
pub struct SchemaMigration<'a> {
    pub(super) context: Context,
    pub(super) pair: Pair,
    /// The old name of each renamed counter, by its new one.
    pub(super) map: BTreeMap<Name, Name>,
    /// The number of entities of which counters are compared before more reads switch.
    pub(super) sample: usize,
    processes: Processes<'a>,
    pub(super) progress: &'a dyn Progress,
}

impl<'a> SchemaMigration<'a> {
    /// A migration that reports its progress to `progress`.
    pub fn new(
        context: Context,
        pair: Pair,
        map: BTreeMap<Name, Name>,
        sample: usize,
        progress: &'a dyn Progress,
    ) -> SchemaMigration<'a> {
        SchemaMigration {
            processes: Processes::new(&context.store, progress),
            context,
            pair,
            map,
            sample,
            progress,
        }
    }

    /// Takes the migration to a goal, or continues an earlier run. Returns the stage of each schema that has columns.
    ///
    /// # Errors
    /// The schemas do not fit, counters differ, a process is too old, another migration is running, or Redis failed.
    pub async fn run(mut self, goal: Goal) -> Result<Vec<Outcome>, SchemaMigrationError> {
        self.check_pair()?;
        self.context.store.refresh_layout().await?;
        let store = self.context.store.clone();
        let waiting = || self.step("waiting for the lock of another migration");
        let lease = Lease::acquire(&store, waiting).await?;
        let result = self.run_locked(goal, &lease).await;
        lease.release().await;
        self.processes.leave().await;
        result.map(|()| self.outcomes())
    }

    pub(super) fn check_pair(&self) -> Result<(), SchemaMigrationError> {
        let Pair { from, to } = &self.pair;
        if from == to || [from, to].iter().any(|id| id.as_str() == USER) {
            let problem = "a migration has two schemas of entities".to_owned();
            return Err(SchemaMigrationError::Refused(problem));
        }
        Ok(())
    }

    async fn run_locked(&mut self, goal: Goal, lease: &Lease) -> Result<(), SchemaMigrationError> {
        let progress = self.progress;
        let step = |step: &str| show(progress, step);
        self.processes.refuse_older_consumers(step).await?;
        self.context.store.refresh_layout().await?;
        let layout = self.context.store.layout();
        refuse_while_split(&layout)
            .map_err(|error| SchemaMigrationError::Refused(error.to_string()))?;
        let columns = plan::columns(&layout, &self.context.catalog.config, &self.pair);
        if columns.is_empty() {
            let from = &self.pair.from;
            let problem = format!("the schema {from} was migrated: no type has it any more");
            return Err(SchemaMigrationError::Refused(problem));
        }
        for columns in columns {
            match goal {
                Goal::Rollback => self.roll_back(&columns, lease).await?,
                Goal::Complete => self.complete(&columns, lease).await?,
                Goal::Percent(percent) => {
                    self.complete(&columns, lease).await?;
                    self.switch_reads(&columns, percent, lease).await?;
                }
                Goal::Done => {
                    self.complete(&columns, lease).await?;
                    self.finish(&columns, lease).await?;
                }
            }
        }
        self.step("done");
        Ok(())
    }

    /// The stages of the migration as of the layout.
    pub(super) fn outcomes(&self) -> Vec<Outcome> {
        let layout = self.context.store.layout();
        let config = &self.context.catalog.config;
        let all = layout.all_schema_views().iter();
        let of_pair = all.filter(|(_, views)| self.is_of_pair(&views.state));
        let outcomes = of_pair.map(|(columns, views)| Outcome {
            columns: columns.clone(),
            types: plan::types_of(config, columns),
            stage: views.state.stage.name(),
            percent: views.state.percent_of_reads(),
            view: views
                .views
                .get(&self.pair.to)
                .map_or(String::new(), View::to_string),
            next: views.state.next_command(),
        });
        outcomes.collect()
    }

    fn is_of_pair(&self, state: &MigrationState) -> bool {
        (&state.from, &state.to) == (&self.pair.from, &self.pair.to)
    }

    pub(super) fn step(&self, step: &str) {
        show(self.progress, step);
    }

    /// Waits until all live processes follow the stage.
    async fn wait_for_processes(&mut self, lease: &Lease) -> Result<(), SchemaMigrationError> {
        let progress = self.progress;
        let step = |step: &str| show(progress, step);
        Ok(self.processes.wait_until_followed(lease, step).await?)
    }

    /// The latest migration of these columns, if it is this one.
    pub(super) fn state(&self, columns: &Name) -> Option<MigrationState> {
        let layout = self.context.store.layout();
        let state = &layout.schema_views(columns)?.state;
        self.is_of_pair(state).then(|| state.clone())
    }

    /// Begins the migration unless it has begun, and takes it to the stage in which reads can switch.
    async fn complete(
        &mut self,
        columns: &Name,
        lease: &Lease,
    ) -> Result<(), SchemaMigrationError> {
        let stage = self.state(columns).map(|state| state.stage);
        if stage == Some(Stage::Done) {
            return Ok(());
        }
        if stage.is_none_or(|stage| stage == Stage::RolledBack) {
            self.begin(columns, lease).await?;
        }
        if self.stage(columns) == Some(Stage::Dual) {
            self.append_columns(columns).await?;
            self.wait_for_processes(lease).await?;
            let types = plan::types_of(&self.context.catalog.config, columns);
            if let Some(key) = self.key_of_new_schema(columns, &types).await? {
                self.roll_back(columns, lease).await?;
                return Err(self.has_counters(&key));
            }
            self.advance(columns, (Stage::Backfill, 0), lease).await?;
        }
        if self.stage(columns) == Some(Stage::Backfill) {
            self.wait_for_processes(lease).await?;
            self.backfill(columns).await?;
            self.advance(columns, (Stage::ReadNew, 0), lease).await?;
            self.wait_for_processes(lease).await?;
        }
        Ok(())
    }

    fn stage(&self, columns: &Name) -> Option<Stage> {
        self.state(columns).map(|state| state.stage)
    }

    /// Computes the added counters of metrics that had facts or counts by day before. Counters that are right do not change, so each run
    /// may begin again.
    async fn backfill(&mut self, columns: &Name) -> Result<(), SchemaMigrationError> {
        let config = &self.context.catalog.config;
        let types = plan::types_of(config, columns);
        let layout = self.context.store.layout();
        let view = layout
            .schema_views(columns)
            .and_then(|views| views.views.get(&self.pair.to));
        let added = view.map(|view| view.added.clone()).unwrap_or_default();
        let mut computed = plan::computed(config, &types, &added);
        if computed.is_empty() {
            return Ok(());
        }
        computed.retain(|name| config.metrics.daily().any(|(daily, _)| daily == name));
        self.step("backfill");
        self.wait_for_days(&computed).await?;
        self.compare(&Scope::Types(types), CheckMode::Exact).await?;
        Ok(())
    }

    /// Switches reads of a percentage of the entities to the new schema. Before more reads switch, a sample is compared.
    async fn switch_reads(
        &mut self,
        columns: &Name,
        percent: u8,
        lease: &Lease,
    ) -> Result<(), SchemaMigrationError> {
        let Some(state) = self.state(columns) else {
            return Err(SchemaMigrationError::Changed(columns.clone()));
        };
        if state.stage != Stage::ReadNew {
            let problem = format!(
                "the migration is {}: use --rollback to return to schema {}",
                state.stage.name(),
                self.pair.from
            );
            return Err(SchemaMigrationError::Refused(problem));
        }
        if percent > state.percent {
            self.compare_sample(columns).await?;
        }
        if percent != state.percent {
            self.advance(columns, (Stage::ReadNew, percent), lease)
                .await?;
            self.wait_for_processes(lease).await?;
        }
        Ok(())
    }

    /// Ends the migration: the counters that the new schema does not have exist no more for clients.
    async fn finish(&mut self, columns: &Name, lease: &Lease) -> Result<(), SchemaMigrationError> {
        let Some(state) = self.state(columns) else {
            return Err(SchemaMigrationError::Changed(columns.clone()));
        };
        if state.stage == Stage::Done {
            return Ok(());
        }
        if (state.stage, state.percent) != (Stage::ReadNew, 100) {
            let problem = format!(
                "reads of {} % of the entities return schema {}: use --percent 100 first",
                state.percent_of_reads(),
                self.pair.to
            );
            return Err(SchemaMigrationError::Refused(problem));
        }
        self.compare_sample(columns).await?;
        self.advance(columns, (Stage::Done, 100), lease).await?;
        self.wait_for_processes(lease).await
    }

    /// Returns to the old schema, from any stage.
    async fn roll_back(
        &mut self,
        columns: &Name,
        lease: &Lease,
    ) -> Result<(), SchemaMigrationError> {
        match self.stage(columns) {
            Some(Stage::RolledBack) => Ok(()),
            Some(_) => {
                self.advance(columns, (Stage::RolledBack, 0), lease).await?;
                self.wait_for_processes(lease).await
            }
            None => {
                let Pair { from, to } = &self.pair;
                let problem = format!("schema {from} is not being migrated to {to}");
                Err(SchemaMigrationError::Refused(problem))
            }
        }
    }
}
