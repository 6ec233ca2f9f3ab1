//! Compares all counters with their shadows, page by page.

use super::apply::Differences;
use super::baseline_page::page;
use super::error::RebuildError;
use super::keys::{scan, table_names};
use super::report::Report;
use super::run::Run;
use crate::domain::error::StoreError;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{CounterLocation, Partition};
use crate::domain::progress::Update;
use crate::log::archive::BaselineWriter;
use crate::storage::locator::Locator;
use std::collections::BTreeMap;
use std::time::Duration;

/// Commands that this file sends to data with tables.
pub(super) const ROW_PERMISSIONS: &[&str] = &["CTAB.SCAN {tables} 0 COUNT 1", "CTAB.CARD {tables}"];

/// The number of entities that are observed together.
const PAGE: usize = 200;
/// How often a page is observed again.
const ATTEMPTS: usize = 200;
/// The delay before a page is observed again.
const DELAY: Duration = Duration::from_millis(5);

/// What is done with the counters of a page.
pub(super) enum Mode {
    /// Differences are corrected.
    Correct,
    /// Differences are reported.
    Report,
    /// The counters are written to a baseline.
    Baseline(Box<BaselineWriter>),
}

/// Visits all counters.
pub(super) struct Pages<'r, 'a> {
    run: &'r mut Run<'a>,
    tables: Vec<(Name, Name)>,
    pub mode: Mode,
    /// The number of entities so far.
    pub entities: u64,
    /// The number of rows when it began.
    rows: u64,
}

impl<'r, 'a> Pages<'r, 'a> {
    pub async fn of(run: &'r mut Run<'a>, mode: Mode) -> Result<Self, RebuildError> {
        let tables = table_names(&run.store, &run.catalog.config).await?;
        Ok(Pages {
            run,
            tables,
            mode,
            entities: 0,
            rows: 0,
        })
    }

    /// Visits all counters that have not been compared yet.
    pub async fn visit_all(&mut self) -> Result<(), RebuildError> {
        let is_baseline = matches!(self.mode, Mode::Baseline(_));
        let corrects = matches!(self.mode, Mode::Correct);
        let passes: &[bool] = if is_baseline {
            &[false]
        } else {
            &[true, false]
        };
        self.count_rows(passes).await?;
        for partition in 0..self.run.store.keys().partitions() {
            if !is_baseline {
                let catching_up = self.run.observer.catch_up(&mut self.run.shadows, partition);
                catching_up.await?;
            }
            // A dry run reports all, and leaves all to do.
            if corrects && self.run.state.is_done(partition) {
                continue;
            }
            for (schema, etype) in self.tables.clone() {
                let table = self.run.store.keys().table(&schema, &etype, partition);
                let shadow = self.run.store.keys().shadow(&table);
                for is_shadow in passes {
                    let key = if *is_shadow { &shadow } else { &table };
                    self.visit_rows(partition, (&schema, &etype), (key, *is_shadow))
                        .await?;
                }
            }
            self.run.beat().await?;
            if corrects {
                self.run.state.finish(partition).await?;
            }
        }
        for is_shadow in passes {
            self.visit_objects(*is_shadow).await?;
        }
        Ok(())
    }

    /// Counts the rows of tables and shadows that have not been compared yet.
    async fn count_rows(&mut self, passes: &[bool]) -> Result<(), RebuildError> {
        let keys = self.run.store.keys();
        for partition in 0..keys.partitions() {
            if self.run.state.is_done(partition) {
                continue;
            }
            for (schema, etype) in &self.tables {
                let table = keys.table(schema, etype, partition);
                for is_shadow in passes {
                    let key = match is_shadow {
                        true => keys.shadow(&table),
                        false => table.clone(),
                    };
                    let mut cmd = redis::cmd("CTAB.CARD");
                    cmd.arg(key);
                    let rows: Result<u64, _> = cmd.query_async(&mut self.run.store.reads()).await;
                    match rows.map_err(StoreError::from) {
                        Err(StoreError::WrongType(_)) => {}
                        rows => self.rows += rows?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Visits the rows of a table, or those that a shadow has.
    async fn visit_rows(
        &mut self,
        partition: Partition,
        (schema, etype): (&Name, &Name),
        (key, is_shadow): (&str, bool),
    ) -> Result<(), RebuildError> {
        let mut cursor = "0".to_owned();
        loop {
            let mut cmd = redis::cmd("CTAB.SCAN");
            cmd.arg(key).arg(&cursor).arg("COUNT").arg(PAGE);
            let page = cmd.query_async(&mut self.run.store.reads()).await;
            let (next, ids): (String, Vec<String>) = match page.map_err(StoreError::from) {
                // The key is replaced when its rows are corrected.
                Err(StoreError::WrongType(_)) => return Ok(()),
                page => page?,
            };
            let ids = ids.into_iter().filter_map(|id| Id::new(id).ok());
            let entities: Vec<Entity> = ids
                .map(|eid| Entity {
                    etype: etype.clone(),
                    eid,
                })
                .collect();
            for some in entities.chunks(PAGE) {
                self.visit(partition, (schema, some), is_shadow).await?;
            }
            cursor = next;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// Visits all objects, or those that have a shadow.
    async fn visit_objects(&mut self, is_shadow: bool) -> Result<(), RebuildError> {
        let keys = self.run.store.keys();
        let objects = "cnt:*".to_owned();
        let pattern = if is_shadow {
            keys.shadow(&objects)
        } else {
            objects
        };
        for mut server in self.run.store.servers()? {
            let mut cursor = 0;
            loop {
                let (next, found) = scan(&mut server, cursor, &pattern).await?;
                let mut pages: BTreeMap<(Partition, Name), Vec<Entity>> = BTreeMap::new();
                for key in found {
                    if let Some((schema, entity)) = self.parse_object(&key) {
                        let page = pages.entry((keys.of_entity(&entity), schema)).or_default();
                        page.push(entity);
                    }
                }
                for ((partition, schema), entities) in pages {
                    for some in entities.chunks(PAGE) {
                        self.visit(partition, (&schema, some), is_shadow).await?;
                    }
                }
                self.run.beat().await?;
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The schema and the entity of an object or its shadow, if that is where the counters of the entity are.
    fn parse_object(&self, key: &str) -> Option<(Name, Entity)> {
        let keys = self.run.store.keys();
        let prefix = keys.shadow("");
        let key = key.strip_prefix(prefix.as_str()).unwrap_or(key);
        let mut parts = key.strip_prefix("cnt:")?.split(':');
        let schema = Name::new(parts.next()?).ok()?;
        let entity = Entity {
            etype: Name::new(parts.next()?).ok()?,
            eid: Id::new(parts.next()?).ok()?,
        };
        let is_known = self.run.catalog.config.entities.contains_key(&entity.etype);
        let at = Locator::of(&self.run.store).entity(&schema, &entity);
        let is_object = matches!(&at, CounterLocation::Object { key: object } if object == key);
        (is_known && is_object).then_some((schema, entity))
    }

    /// Visits counters of entities of a partition. Entities with a shadow are compared once: when the shadows are
    /// visited.
    async fn visit(
        &mut self,
        partition: Partition,
        (schema_id, entities): (&Name, &[Entity]),
        is_shadow: bool,
    ) -> Result<(), RebuildError> {
        let Run {
            store,
            catalog,
            shadows,
            observer,
            state,
            ..
        } = &mut *self.run;
        let schema = catalog.schemas.get(schema_id).await?;
        let (mut attempts, mut earlier) = (0, Report::default());
        let report = loop {
            let observed = observer.observe(shadows, partition, (schema_id, entities));
            let mut observed = observed.await?;
            if let Mode::Baseline(writer) = &mut self.mode {
                let page = page(
                    &observed,
                    partition,
                    (schema_id, schema.names(), &state.metrics),
                );
                if let Some(page) = page {
                    writer.add(page)?;
                }
                break Report::default();
            }
            if !is_shadow {
                observed.rows.retain(|row| row.shadow.is_empty());
            }
            let mut report = Report::default();
            let differences = Differences::of(&observed, &schema, &state.metrics, &mut report);
            if matches!(self.mode, Mode::Report) || differences.is_empty() {
                break report;
            }
            let place = (schema_id, &*schema);
            let applied = differences.apply((store, catalog), observer, partition, place);
            let (applied, is_all) = applied.await?;
            if is_all {
                applied
                    .iter()
                    .for_each(|(metric, _)| report.correct(metric));
                break report;
            }
            for (metric, difference) in &applied {
                earlier.correct_before(metric, *difference);
            }
            attempts += 1;
            if attempts == ATTEMPTS {
                return Err(RebuildError::Busy(partition));
            }
            tokio::time::sleep(DELAY).await;
        };
        self.run.report.merge(earlier);
        self.run.report.merge(report);
        self.entities += entities.len() as u64;
        // Objects are not counted before.
        let all = (self.entities <= self.rows).then_some(self.rows);
        let update = Update::new("reading counters", self.entities, "entities");
        self.run.progress.update(&update.of(all));
        self.run.beat().await
    }
}
