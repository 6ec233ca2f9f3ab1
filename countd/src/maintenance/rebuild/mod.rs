//! `countd rebuild`: computes counters again from the event archive or the topic, and the log, while clients act.
//!
//! The rebuild adds up what the archive or the topic has in shadows of the counters, with offsets of its own. Shadows and offsets change in one step, so
//! it continues where it was interrupted. Logs keep what is not archived (a *hold*) while it reads the rest from them.
//!
//! It then observes pages of counters. The script that reads a page also reads the position of the partition and the last offset of its log.
//! At that moment a counter includes all events before the position, and all changes up to the last offset that were made by the step which
//! appended their entry. The shadow and the entries up to there give what it has to include. The difference between both stays the same
//! while events are counted, so a later script may add it. That script verifies that nothing else has changed counters since the page was
//! read: corrections are in the audit, and all other changes without an event are journal entries.
//!
//! Counters that count facts are left alone: facts decide about them (`countd reconcile`).

mod apply;
mod baseline;
mod baseline_page;
mod changes;
mod cleanup;
mod copied;
mod erased;
mod error;
mod keys;
mod observe;
mod observe_log;
mod pages;
mod replay;
mod report;
mod run;
mod shadow;
mod since;
mod state;
mod topic;
mod topic_replay;
mod topic_tail;

pub use baseline::{BaselineReport, take_baseline};
pub use error::RebuildError;
pub use report::{MetricReport, Report};

use crate::consumer::server_history;
use crate::domain::config::{Config, LogKind};
use crate::domain::progress::{Progress, Silent};
use crate::domain::split::{SplitPhase, SplitState};
use crate::log::Streams;
use crate::log::archive::check_owner;
use crate::log::kafka::{Topic, TopicHistory};
use crate::maintenance::storage::Lease;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use changes::{Changes, rebuilt_metrics};
use observe::Observer;
use pages::{Mode, Pages};
use run::Run;
use shadow::Shadows;
use state::State;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The delay before a rebuild at the start is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How often a lost hold is set again.
const ATTEMPTS: usize = 5;

/// The permissions that rebuilds and baselines require.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    let commands = [
        state::PERMISSIONS,
        shadow::PERMISSIONS,
        since::PERMISSIONS,
        apply::PERMISSIONS,
        observe_log::PERMISSIONS,
        topic_tail::PERMISSIONS,
        cleanup::PERMISSIONS,
        keys::PERMISSIONS,
    ];
    let mut permissions = Permissions::of_commands(&commands.concat())
        .and(crate::maintenance::storage::LEASE.required_permissions())
        .and(state::HOLD.required_permissions())
        .and(state::CUT.required_permissions())
        .and(server_history::required_permissions())
        .and(shadow::SHADOW.required_permissions(backend))
        .and(observe::OBSERVE.required_permissions(backend))
        .and(apply::APPLY.required_permissions(backend));
    if backend.has_tables() {
        permissions = permissions.and(Permissions::of_commands(pages::ROW_PERMISSIONS));
    }
    permissions
}

/// What a rebuild does.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the archive. With a topic: that of the baseline.
    pub dir: PathBuf,
    /// The name of the baseline from which it starts; `None` for the first entry.
    pub baseline: Option<String>,
    /// Whether differences are only reported.
    pub dry_run: bool,
    /// Whether an earlier rebuild that was interrupted is discarded.
    pub restart: bool,
}

/// Computes counters again, and corrects those that differ. It continues an earlier run that was interrupted.
///
/// # Errors
/// Nothing is lost: what was corrected is right, and the rebuild can be repeated.
pub async fn rebuild(
    store: &Store,
    config: &Arc<Config>,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Report, RebuildError> {
    let report = rebuild_unless_ended(store, config, (options, None), progress).await?;
    Ok(report.unwrap_or_default())
}

/// Like [`rebuild`]. Does nothing, and returns `None`, if another number of rebuilds has ended by now than `ended`.
async fn rebuild_unless_ended(
    store: &Store,
    config: &Arc<Config>,
    (options, ended): (&Options, Option<u64>),
    progress: &dyn Progress,
) -> Result<Option<Report>, RebuildError> {
    store.refresh_layout().await?;
    let lease = Lease::acquire(store, || ()).await?;
    keys::refuse_mixed(store)?;
    let is_moving = |state: &Arc<SplitState>| state.phase != SplitPhase::Split;
    if store.layout().splits().values().any(is_moving) {
        return Err(RebuildError::Refused(
            "an entity is being split or merged: wait until countd hot list shows none".to_owned(),
        ));
    }
    if let Some(ended) = ended
        && state::ended_rebuilds(store).await? != ended
    {
        lease.release().await;
        return Ok(None);
    }
    let result = run(store, config, options, lease, progress).await;
    // A rebuild that continues sets holds again.
    if result.is_err() {
        let _ = state::release_holds(store).await;
    }
    result.map(Some)
}

async fn run(
    store: &Store,
    config: &Arc<Config>,
    options: &Options,
    lease: Lease,
    progress: &dyn Progress,
) -> Result<Report, RebuildError> {
    let topic = Topic::open(config, store).await?;
    match &topic {
        Some(_) => check_history(store, options).await?,
        None if !store.layout().archives => {
            return Err(RebuildError::Refused(
                "counted entries are not archived: set log.archive.dir and start a consumer"
                    .to_owned(),
            ));
        }
        None => check_owner(store, &options.dir).await?,
    }
    if options.restart {
        State::discard(store).await?;
    }
    cleanup::clean_up(store, config).await?;
    let from = options.baseline.as_deref().unwrap_or("earliest");
    let mut state = State::begin(store, from, &rebuilt_metrics(store, config)).await?;
    let mut shadows = Shadows::load(store).await?;
    if shadows.are_incomplete() {
        State::discard(store).await?;
        cleanup::clean_up(store, config).await?;
        state = State::begin(store, from, &rebuilt_metrics(store, config)).await?;
        shadows = Shadows::load(store).await?;
    }
    let catalog = Catalog::new(Arc::clone(config), store.clone());
    let changes = Changes::new(store.clone(), catalog.clone(), state.metrics.clone());
    let mut run = Run {
        shadows,
        observer: Observer::new(store.clone(), Streams::new(store.clone(), config), changes),
        store: store.clone(),
        catalog,
        lease,
        state,
        renewed: Instant::now(),
        progress,
        report: Report::default(),
    };
    if let Some(name) = &options.baseline {
        run.load_baseline(&options.dir, name).await?;
    }
    if topic.is_none() {
        run.replay_archive(&options.dir, options.baseline.is_some())
            .await?;
    }
    let mut attempts = 0;
    loop {
        match run.correct(options, topic.as_ref()).await {
            Err(RebuildError::HoldLost) if attempts < ATTEMPTS => attempts += 1,
            result => break result?,
        }
    }
    State::discard(store).await?;
    cleanup::clean_up(store, config).await?;
    if !options.dry_run {
        state::record_end(store).await?;
    }
    let Run { lease, report, .. } = run;
    lease.release().await;
    Ok(report)
}

impl Run<'_> {
    /// Corrects all counters that have not been compared yet.
    async fn correct(
        &mut self,
        options: &Options,
        topic: Option<&Topic>,
    ) -> Result<(), RebuildError> {
        self.shadows.load_histories().await?;
        match topic {
            Some(topic) => self.replay_topic(topic).await?,
            None => self.hold(&options.dir, options.baseline.is_some()).await?,
        }
        // A repeated dry run reports all again.
        if options.dry_run {
            self.report.metrics.clear();
        }
        let mode = match options.dry_run {
            true => Mode::Report,
            false => Mode::Correct,
        };
        self.state.begin_to_compare().await?;
        Pages::of(self, mode).await?.visit_all().await?;
        match self.state.has_same_histories().await? {
            true => Ok(()),
            false => Err(RebuildError::HoldLost),
        }
    }
}

/// Checks that the topic has all changes of counters since the beginning of the data, if the rebuild starts there.
async fn check_history(store: &Store, options: &Options) -> Result<(), RebuildError> {
    let history = TopicHistory::stored(store).await?;
    match options.baseline.is_some() || history.is_some_and(|history| history.is_complete) {
        true => Ok(()),
        false => Err(RebuildError::Refused(
            "the topic does not have all changes of the counters since the beginning of the data: --from BASELINE is needed"
                .to_owned(),
        )),
    }
}

/// Rebuilds counters from the first entry on, if the configuration says so. Retries until it is done, by this process or another one, or
/// `stopping` turns true.
pub async fn run_at_start(config: Arc<Config>, store: Store, mut stopping: watch::Receiver<bool>) {
    let dir = config.log.archive.dir().map(Path::to_owned);
    let dir = match config.log.kind {
        LogKind::Kafka => Some(PathBuf::new()),
        LogKind::Streams => dir,
    };
    let (true, Some(dir)) = (config.counter.rebuild.enabled, dir) else {
        return;
    };
    let options = Options {
        dir,
        baseline: None,
        dry_run: false,
        restart: false,
    };
    let mut ended = None;
    loop {
        let attempt = async {
            let ended = match ended {
                Some(ended) => ended,
                None => *ended.insert(state::ended_rebuilds(&store).await?),
            };
            rebuild_unless_ended(&store, &config, (&options, Some(ended)), &Silent).await
        };
        let result = tokio::select! {
            result = attempt => result,
            _ = stopping.wait_for(|stop| *stop) => return,
        };
        match result {
            Ok(None) => {
                tracing::info!("counters were rebuilt by another process");
                return;
            }
            Ok(Some(report)) => {
                let corrected: u64 = report.metrics.values().map(|of| of.corrected).sum();
                tracing::info!(corrected, entries = report.replayed, "counters are rebuilt");
                return;
            }
            Err(error) => tracing::warn!(%error, "counters are not rebuilt yet"),
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            _ = stopping.wait_for(|stop| *stop) => return,
        }
    }
}
