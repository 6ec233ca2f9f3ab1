//! Baselines: counters as of an offset of each partition, from which a rebuild starts if the archive lacks older entries.

use super::changes::{Changes, rebuilt_metrics};
use super::error::{RebuildError, panicked};
use super::observe::Observer;
use super::pages::{Mode, Pages};
use super::report::Report;
use super::run::Run;
use super::shadow::{Additions, Shadows, Sums};
use super::state::{self, State};
use crate::domain::config::Config;
use crate::domain::ids::Entity;
use crate::domain::keys::Partition;
use crate::domain::progress::Progress;
use crate::log::Streams;
use crate::log::archive::{Baseline, BaselinePage, BaselineWriter, check_owner};
use crate::maintenance::storage::Lease;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::spawn_blocking;

/// A new baseline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BaselineReport {
    /// Its name.
    pub name: String,
    /// The number of entities.
    pub entities: u64,
}

/// Writes a baseline to the directory of the archive, while clients act.
///
/// # Errors
/// The archive cannot be written, or the store is unavailable.
pub async fn take_baseline(
    store: &Store,
    config: &Arc<Config>,
    dir: &Path,
    progress: &dyn Progress,
) -> Result<BaselineReport, RebuildError> {
    store.refresh_layout().await?;
    if !store.layout().archives {
        return Err(RebuildError::Refused(
            "counted entries are not archived: set log.archive.dir and start a consumer".to_owned(),
        ));
    }
    check_owner(store, dir).await?;
    let lease = Lease::acquire(store, || ()).await?;
    store.refresh_layout().await?;
    super::keys::refuse_mixed(store)?;
    let catalog = Catalog::new(Arc::clone(config), store.clone());
    let metrics = rebuilt_metrics(store, config);
    let changes = Changes::new(store.clone(), catalog.clone(), metrics.clone());
    let log = Streams::new(store.clone(), config);
    let mut observer = Observer::new(store.clone(), log, changes);
    observer.catches_up = false;
    let mut run = Run {
        shadows: Shadows::empty(store),
        observer,
        store: store.clone(),
        catalog,
        lease,
        state: State::unrecorded(store, metrics),
        renewed: Instant::now(),
        progress,
        report: Report::default(),
    };
    run.set_holds().await?;
    let result = write(&mut run, dir, config.log.archive.level).await;
    let _ = state::release_holds(store).await;
    let Run { lease, .. } = run;
    lease.release().await;
    result
}

async fn write(run: &mut Run<'_>, dir: &Path, level: i32) -> Result<BaselineReport, RebuildError> {
    for partition in 0..run.store.keys().partitions() {
        let position = run.observer.position(partition).await?;
        run.shadows.start_at(partition, position);
    }
    let dir = dir.to_owned();
    let writer = spawn_blocking(move || BaselineWriter::create(&dir, level));
    let mode = Mode::Baseline(Box::new(writer.await.map_err(panicked)??));
    let mut pages = Pages::of(run, mode).await?;
    pages.visit_all().await?;
    let entities = pages.entities;
    let Mode::Baseline(writer) = pages.mode else {
        unreachable!("the mode of the pages")
    };
    let offsets = run.shadows.offsets().clone();
    let name = spawn_blocking(move || writer.finish(offsets));
    Ok(BaselineReport {
        name: name.await.map_err(panicked)??,
        entities,
    })
}

impl Run<'_> {
    /// Lets the shadows begin with a baseline, unless they did.
    pub(super) async fn load_baseline(
        &mut self,
        dir: &Path,
        name: &str,
    ) -> Result<(), RebuildError> {
        let partitions = 0..self.store.keys().partitions();
        let missing: BTreeSet<Partition> = partitions
            .filter(|partition| self.shadows.recorded(*partition).is_none())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let (path, file) = (dir.to_owned(), name.to_owned());
        let opened = spawn_blocking(move || Baseline::open(&path, &file));
        let mut baseline = opened.await.map_err(panicked)??;
        let mut entities = 0;
        let offsets = loop {
            let read = spawn_blocking(move || {
                let page = baseline.next_page();
                (baseline, page)
            });
            let page;
            (baseline, page) = read.await.map_err(panicked)?;
            let page = page?;
            let is_end = page.is_none();
            if let Some(page) = page.filter(|page| missing.contains(&page.partition)) {
                entities += page.rows.len() as u64;
                self.shadows.add(additions(page)).await?;
                self.beat().await?;
            }
            let update = baseline.progress("reading the baseline");
            self.progress
                .update(&update.with(&[("entities", entities)]));
            if is_end {
                break baseline.offsets.take().unwrap_or_default();
            }
        };
        if offsets.len() != usize::from(self.store.keys().partitions()) {
            return Err(RebuildError::Refused(format!(
                "{name} has {} partitions: it is a baseline of other data",
                offsets.len()
            )));
        }
        let additions = Additions {
            next: offsets
                .into_iter()
                .filter(|(partition, _)| missing.contains(partition))
                .collect(),
            ..Additions::default()
        };
        self.shadows.add(additions).await
    }
}

/// The counters of a page replace what an interrupted attempt has added.
fn additions(page: BaselinePage) -> Additions {
    let mut additions = Additions::default();
    for (eid, values) in page.rows {
        let entity = Entity {
            etype: page.etype.clone(),
            eid,
        };
        let sums = Sums {
            is_new: true,
            fields: values
                .into_iter()
                .map(|(idx, value)| (usize::from(idx), (value, 0)))
                .collect(),
        };
        additions
            .entities
            .insert((page.schema.clone(), entity), sums);
    }
    additions
}
