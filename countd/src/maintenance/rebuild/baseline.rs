//! Baselines: counters as of an offset of each partition, from which a rebuild starts if the archive lacks older entries.

use super::changes::{Changes, rebuilt_metrics};
use super::error::{RebuildError, panicked};
use super::observe::Observer;
use super::pages::{Mode, Pages};
use super::report::Report;
use super::run::Run;
use super::shadow::{Additions, Shadows, Sums};
use super::state::{self, State};
use super::topic::TopicSource;
use crate::domain::config::{Config, LogKind};
use crate::domain::ids::Entity;
use crate::domain::keys::Partition;
use crate::domain::progress::Progress;
use crate::log::Streams;
use crate::log::archive::{Baseline, BaselinePage, BaselineWriter, TopicPositions, check_owner};
use crate::log::kafka::{Ends, Topic, TopicHistory, offsets_of};
use crate::maintenance::storage::Lease;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
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
    let topic = Topic::open(config, store).await?;
    if topic.is_none() && !store.layout().archives {
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
    let target = (dir, config.log.archive.level);
    let result = begin_and_write(&mut run, topic.as_ref(), target).await;
    let _ = state::release_holds(store).await;
    let Run { lease, .. } = run;
    lease.release().await;
    result
}

async fn begin_and_write(
    run: &mut Run<'_>,
    topic: Option<&Topic>,
    (dir, level): (&Path, i32),
) -> Result<BaselineReport, RebuildError> {
    run.state.begin_to_compare().await?;
    let Some(topic) = topic else {
        run.set_holds().await?;
        for partition in 0..run.store.keys().partitions() {
            let position = run.observer.position(&run.shadows, partition).await?;
            run.shadows.start_at(partition, position);
        }
        return write(run, (dir, level), None).await;
    };
    let history = TopicHistory::stored(&run.store).await?;
    let history = match history {
        Some(history) => history,
        // An earlier version has begun to use the topic.
        None => {
            TopicHistory::restart(&run.store).await?;
            TopicHistory::stored(&run.store)
                .await?
                .ok_or(RebuildError::HoldLost)?
        }
    };
    let mark = format!("{:08x}", fastrand::u32(..));
    let cuts = state::cut(&run.store, Some(&mark)).await?;
    run.observer.begin_after(&cuts);
    let mut source = TopicSource::new(topic)?;
    let mut from: BTreeMap<u16, u64> = BTreeMap::new();
    for (partition, cut) in &cuts {
        run.shadows.start_at(*partition, cut.position);
        run.shadows.start_topic_at(*partition, cut.topic);
        let first = from
            .entry(source.partition_of(*partition))
            .or_insert(cut.topic);
        *first = (*first).min(cut.topic);
    }
    let identity = topic.identity();
    let config = &run.catalog.config;
    let firsts = offsets_of(config, &identity.name, identity.partitions, Ends::First).await?;
    for (of_topic, first) in (0..).zip(firsts) {
        from.entry(of_topic)
            .and_modify(|from| *from = (*from).max(first));
    }
    source.begin(from)?;
    run.observer.topic = Some(source);
    write(run, (dir, level), Some((history.id, mark))).await
}

/// Writes a baseline as of the offsets of the shadows. `topic` is the history of the topic, and the mark of the baseline.
async fn write(
    run: &mut Run<'_>,
    (dir, level): (&Path, i32),
    topic: Option<(String, String)>,
) -> Result<BaselineReport, RebuildError> {
    let dir = dir.to_owned();
    let writer = spawn_blocking(move || BaselineWriter::create(&dir, level));
    let mode = Mode::Baseline(Box::new(writer.await.map_err(panicked)??));
    let mut pages = Pages::of(run, mode).await?;
    pages.visit_all().await?;
    let entities = pages.entities;
    let Mode::Baseline(writer) = pages.mode else {
        unreachable!("the mode of the pages")
    };
    // A page may have been read in part before a server lost its last writes, and in part afterwards.
    if !run.state.has_same_histories().await? {
        return Err(RebuildError::Elsewhere);
    }
    let offsets = run.shadows.offsets().clone();
    let topic = topic.map(|(history, mark)| TopicPositions {
        history,
        mark,
        offsets: run.shadows.topic_offsets().clone(),
    });
    let name = spawn_blocking(move || writer.finish(offsets, topic));
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
        let (offsets, topic) = loop {
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
                break (
                    baseline.offsets.take().unwrap_or_default(),
                    baseline.topic.take(),
                );
            }
        };
        if offsets.len() != usize::from(self.store.keys().partitions()) {
            return Err(RebuildError::Refused(format!(
                "{name} has {} partitions: it is a baseline of other data",
                offsets.len()
            )));
        }
        let of_topic = self.of_topic(name, topic).await?;
        let additions = Additions {
            topic: of_topic
                .into_iter()
                .filter(|(partition, _)| missing.contains(partition))
                .collect(),
            next: offsets
                .into_iter()
                .filter(|(partition, _)| missing.contains(partition))
                .collect(),
            ..Additions::default()
        };
        self.shadows.add(additions).await
    }

    /// The offsets of a baseline in the topic. There are none for data without a topic.
    async fn of_topic(
        &self,
        name: &str,
        found: Option<TopicPositions>,
    ) -> Result<BTreeMap<Partition, u64>, RebuildError> {
        if self.catalog.config.log.kind != LogKind::Kafka {
            return Ok(BTreeMap::new());
        }
        let history = TopicHistory::stored(&self.store).await?;
        let history = history.map(|history| history.id);
        let Some(found) = found.filter(|found| Some(&found.history) == history.as_ref()) else {
            return Err(RebuildError::Refused(format!(
                "{name} is no baseline of this topic, or changes of counters since then are missing in it: take a new one"
            )));
        };
        match state::have_mark(&self.store, &found.mark).await? {
            true => Ok(found.offsets),
            false => Err(RebuildError::Refused(format!(
                "{name} is older than the last 100 baselines, or Redis has lost writes from before it was taken: take a new one"
            ))),
        }
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
