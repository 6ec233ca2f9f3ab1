//! Begins the stages of a migration: records them in the layout, with the view and its columns.

use super::error::SchemaMigrationError;
use super::migration::SchemaMigration;
use super::plan::{self, Pair};
use crate::domain::ids::Name;
use crate::domain::schema_views::{MigrationState, Stage, View};
use crate::maintenance::storage::Lease;
use crate::redis::layout::NextStage;
use crate::storage::schema::Schema;
use std::sync::Arc;
use std::time::Duration;

/// How often a step is repeated while Redis is unavailable.
const RETRIES: u32 = 120;
const RETRY_DELAY: Duration = Duration::from_millis(500);

impl SchemaMigration<'_> {
    /// Begins the first stage: from now on the new schema is a view of the columns.
    pub(super) async fn begin(
        &mut self,
        columns: &Name,
        lease: &Lease,
    ) -> Result<(), SchemaMigrationError> {
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
    pub(super) async fn append_columns(
        &mut self,
        columns: &Name,
    ) -> Result<(), SchemaMigrationError> {
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

    /// Begins the next stage of the migration.
    pub(super) async fn advance(
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
