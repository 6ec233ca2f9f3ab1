//! The stages of a migration.

use super::error::SchemaMigrationError;
use super::plan::{self, Pair};
use crate::domain::config::USER;
use crate::domain::event::CheckMode;
use crate::domain::ids::Name;
use crate::domain::progress::{Progress, Update};
use crate::domain::schema_views::{MigrationState, Stage, View};
use crate::maintenance::reconcile::{Context, Scope};
use crate::maintenance::storage::{Lease, Processes};
use crate::redis::layout::NextStage;
use crate::storage::schema::Schema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often a step is repeated while Redis is unavailable.
const RETRIES: u32 = 120;
const RETRY_DELAY: Duration = Duration::from_millis(500);

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
    /// The stage is reported only.
    Status,
}

/// The stage after a run.
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
}

/// A migration of a schema.
pub struct SchemaMigration<'a> {
    pub(super) context: Context,
    pub(super) pair: Pair,
    /// The old name of each renamed counter, by its new one.
    map: BTreeMap<Name, Name>,
    /// The number of entities of which counters are compared before more reads switch.
    pub(super) sample: usize,
    processes: Processes,
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
            processes: Processes::new(&context.store),
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
        let Pair { from, to } = &self.pair;
        if from == to || [from, to].iter().any(|id| id.as_str() == USER) {
            let problem = "a migration has two schemas of entities".to_owned();
            return Err(SchemaMigrationError::Refused(problem));
        }
        self.context.store.refresh_layout().await?;
        if goal == Goal::Status {
            return Ok(self.outcomes());
        }
        let store = self.context.store.clone();
        let waiting = || self.step("waiting for the lock of another migration");
        let lease = Lease::acquire(&store, waiting).await?;
        let result = self.run_locked(goal, &lease).await;
        lease.release().await;
        self.processes.leave().await;
        result.map(|()| self.outcomes())
    }

    async fn run_locked(&mut self, goal: Goal, lease: &Lease) -> Result<(), SchemaMigrationError> {
        let progress = self.progress;
        let step = |step: &str| show(progress, step);
        self.processes.refuse_older_consumers(step).await?;
        self.context.store.refresh_layout().await?;
        let layout = self.context.store.layout();
        let columns = plan::columns(&layout, &self.context.catalog.config, &self.pair);
        if columns.is_empty() {
            let from = &self.pair.from;
            let problem = format!("the schema {from} was migrated: no type has it any more");
            return Err(SchemaMigrationError::Refused(problem));
        }
        for columns in columns {
            match goal {
                Goal::Rollback => self.roll_back(&columns, lease).await?,
                Goal::Status => {}
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
    fn outcomes(&self) -> Vec<Outcome> {
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
    fn state(&self, columns: &Name) -> Option<MigrationState> {
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

    /// Begins the first stage: from now on the new schema is a view of the columns.
    async fn begin(&mut self, columns: &Name, lease: &Lease) -> Result<(), SchemaMigrationError> {
        let store = &self.context.store;
        let (layout, config) = (store.layout(), Arc::clone(&self.context.catalog.config));
        if let Some(views) = layout.schema_views(columns)
            && views.state.stage.has_both()
        {
            let (from, to) = (&views.state.from, &views.state.to);
            let problem = format!("the migration of schema {from} to {to} is under way");
            return Err(SchemaMigrationError::Refused(problem));
        }
        let types = plan::types_of(&config, columns);
        if types.is_empty() {
            let from = &self.pair.from;
            let problem = format!("no entity type of the configuration has schema {from}");
            return Err(SchemaMigrationError::Refused(problem));
        }
        let view = self.plan(columns).await?;
        plan::check_metrics(&config, &types, &view)?;
        let new_types: Vec<Name> = types
            .iter()
            .filter(|etype| !layout.has_columns(etype))
            .cloned()
            .collect();
        if let Some(key) = self.key_of_new_schema(columns, &new_types).await? {
            return Err(self.has_counters(&key));
        }
        let state = MigrationState {
            from: self.pair.from.clone(),
            to: self.pair.to.clone(),
            stage: Stage::Dual,
            percent: 0,
            since: 0,
        };
        let next = NextStage {
            columns: columns.clone(),
            state,
            schema: self.pair.to.clone(),
            view,
            etypes: types,
        };
        self.record(&next, lease).await
    }

    /// The view of the columns that the new schema is.
    async fn plan(&self, columns: &Name) -> Result<View, SchemaMigrationError> {
        let (schemas, layout) = (&self.context.catalog.schemas, self.context.store.layout());
        let Pair { from, to } = &self.pair;
        let stored = schemas.refresh(columns).await?;
        let names: Arc<Schema> = schemas.refresh(to).await?;
        let views = layout.schema_views(columns).map(|views| &views.views);
        let none = View::default();
        let recorded = views.and_then(|views| views.get(to));
        let of_from = match from == columns {
            true => None,
            false => Some(schemas.refresh(from).await?),
        };
        let from_view = views.and_then(|views| views.get(from)).unwrap_or(&none);
        let plan = plan::Schemas::new(
            (columns, &*stored),
            (from_view, of_from.as_ref().map(|schema| schema.own_names())),
            names.own_names(),
        );
        plan::view(&self.pair, &plan, &self.map, recorded)
    }

    /// Appends the columns of added counters, unless they exist.
    async fn append_columns(&mut self, columns: &Name) -> Result<(), SchemaMigrationError> {
        self.step("columns");
        let schemas = self.context.catalog.schemas.clone();
        let mut attempt = 0;
        loop {
            let appended = schemas.append_to_columns(&self.pair.to).await;
            match appended.map_err(SchemaMigrationError::from) {
                Err(error) if error.is_transient() && attempt < RETRIES => attempt += 1,
                Err(error) => return Err(error),
                Ok(()) => {
                    schemas.refresh(columns).await?;
                    return Ok(());
                }
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
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
        if plan::computed(config, &types, &added).is_empty() {
            return Ok(());
        }
        self.step("backfill");
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

    /// Begins the next stage of the migration.
    async fn advance(
        &mut self,
        columns: &Name,
        (stage, percent): (Stage, u8),
        lease: &Lease,
    ) -> Result<(), SchemaMigrationError> {
        let layout = self.context.store.layout();
        let changed = || SchemaMigrationError::Changed(columns.clone());
        let views = layout.schema_views(columns).ok_or_else(changed)?;
        let next = NextStage {
            columns: columns.clone(),
            state: MigrationState {
                stage,
                percent,
                ..self.state(columns).ok_or_else(changed)?
            },
            schema: self.pair.to.clone(),
            view: views.views.get(&self.pair.to).cloned().unwrap_or_default(),
            etypes: Vec::new(),
        };
        self.record(&next, lease).await
    }

    /// Records a stage, unless another run has changed it since this one has read it.
    async fn record(
        &mut self,
        next: &NextStage,
        lease: &Lease,
    ) -> Result<(), SchemaMigrationError> {
        lease.check()?;
        let state = &next.state;
        self.step(&format!("stage: {} {}", state.stage.name(), state.percent));
        let (store, mut attempt) = (self.context.store.clone(), 0);
        let layout = store.layout();
        loop {
            let recorded = async {
                let (mut connection, keys) = (store.commands(), store.keys());
                let begun = layout.begin_stage(&mut connection, &keys, next).await?;
                store.refresh_layout().await?;
                Ok::<_, SchemaMigrationError>(begun > 0)
            };
            match recorded.await {
                Ok(true) => return Ok(()),
                // An attempt whose reply was lost may have recorded it.
                Ok(false) => {
                    let now = self.state(&next.columns);
                    let is_next = |now: MigrationState| {
                        (now.stage, now.percent) == (state.stage, state.percent)
                    };
                    return match attempt > 0 && now.is_some_and(is_next) {
                        true => Ok(()),
                        false => Err(SchemaMigrationError::Changed(next.columns.clone())),
                    };
                }
                Err(error) if error.is_transient() && attempt < RETRIES => attempt += 1,
                Err(error) => return Err(error),
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}
