//! Verifies received counters of users: a sweep adds up what authors were credited with, and compares the sums with the counters.
//!
//! The sums are complete when every registered author was visited and all that was under way is counted. From then on sums and counters
//! change in the same steps, so they are equal in every step, under any load (lua/sums.lua). The state of a sweep is in Redis: any process
//! can continue it.

mod compare;
mod followers;
mod lock;
mod state;
mod sweep;
mod visit;
mod wave;

pub use compare::SumCheck;
pub use followers::{FollowersCheck, FollowersPass};
pub(super) use lock::Lock;
pub use state::{SavedSums, saved_sums};
pub use sweep::SumSweep;
pub(super) use wave::{PERMISSIONS as WAVE_PERMISSIONS, wave};

use crate::domain::author_feed::AuthorFeed;
use crate::domain::config::{Config, UserCounter};
use crate::domain::error::StoreError;
use crate::domain::event::{CheckMode, now_ms};
use crate::domain::keys::StoragePhase;
use crate::domain::progress::Update;
use crate::domain::sweep_ages::{Sweep, SweepAges};
use crate::maintenance::report::Report;
use crate::maintenance::visits::{self, Observer};
use crate::redis::layout::Authors;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::repair::{Sources, UserSource};
use compare::Comparison;
use state::Stage;
use std::sync::Arc;
use std::time::Duration;
use sweep::{COLOURING, COMPARED, COMPARING, SUMS_ARE_NEW, UNCOLOURING};
use tokio::sync::watch;

/// The permissions that the sweep requires.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    let mut commands = [
        visit::PERMISSIONS,
        wave::PERMISSIONS,
        compare::PERMISSIONS,
        followers::PERMISSIONS,
        visits::PERMISSIONS,
        visits::HASH_PERMISSIONS,
    ]
    .concat();
    if backend.has_tables() {
        commands.extend(compare::TABLE_PERMISSIONS);
        commands.extend(followers::TABLE_PERMISSIONS);
        commands.extend(visits::TABLE_PERMISSIONS);
    }
    Permissions::of_commands(&commands)
        .and(state::required_permissions(backend))
        .and(visit::COLOUR.required_permissions(backend))
        .and(compare::COMPARE.required_permissions(backend))
}

/// Why a sweep cannot run on this data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSweep {
    /// No received counter is the sum of the counters of entities.
    NoCounters,
    /// The data does not register authors.
    NoAuthors,
    /// A metric that has credited authors is not configured any more, and the data does not tell which counter it fed.
    UnknownCounter,
}

/// The result of an attempt to go on with a sweep.
#[derive(Debug)]
pub enum Progress {
    /// The sweep has ended.
    Done(Report),
    /// It cannot go on now, for this reason.
    Waiting(String),
    /// There is nothing to verify.
    Nothing(NoSweep),
}

/// Runs a sweep as often as every entity is sampled, until `stop` turns true. Records the `ages` of the sweeps of all processes.
pub async fn run(config: Arc<Config>, store: Store, ages: SweepAges, stop: watch::Receiver<bool>) {
    let settings = config.reconcile;
    if !settings.enabled {
        return;
    }
    let interval = Duration::from_secs(settings.interval_seconds);
    let pause = interval.as_millis() as u64 * settings.sample;
    let lock = Lock::new(store.clone(), store.keys().sums_lock());
    let sweep = SumSweep::new(store, config);
    let mut stopping = stop.clone();
    let rounds = async {
        loop {
            // The processes do not begin at the same time.
            tokio::time::sleep(interval.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            match lock.run(sweep.round(pause, &stop)).await {
                Ok(Some(Some(reason))) => tracing::info!(reason, "the verification of users waits"),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "the verification of users failed; will retry")
                }
            }
            if let Err(error) = sweep.record_ages(&ages).await {
                tracing::debug!(%error, "the ages of sweeps are unknown");
            }
        }
    };
    tokio::select! {
        () = rounds => {}
        _ = stopping.wait_for(|stop| *stop) => {}
    }
}

impl SumSweep {
    /// What is due of the verification of users. Returns why the sweep over authors cannot go on, if it cannot.
    async fn round(
        &self,
        pause: u64,
        stop: &watch::Receiver<bool>,
    ) -> Result<Option<String>, StoreError> {
        let progress = self.run_if_due(pause, stop).await?;
        if let Some(round) = self.next_followers_round(pause).await? {
            let suspects = self.check_followers(round, stop).await?;
            tracing::debug!(round, suspects, "the facts on users were compared");
            if !*stop.borrow() {
                self.end_followers_round(round).await?;
            }
        }
        Ok(match progress {
            Some(Progress::Waiting(reason)) => Some(reason),
            _ => None,
        })
    }

    /// Records when the last sweeps ended.
    async fn record_ages(&self, ages: &SweepAges) -> Result<(), StoreError> {
        let (authors, followers) = self.ends().await?;
        match self.counters() {
            Ok(_) => ages.set(Sweep::Authors, authors),
            Err(_) => ages.remove(Sweep::Authors),
        }
        ages.set(Sweep::Followers, followers);
        Ok(())
    }

    /// Continues the current sweep. Begins one if the last one ended at least `pause` milliseconds ago.
    async fn run_if_due(
        &self,
        pause: u64,
        stop: &watch::Receiver<bool>,
    ) -> Result<Option<Progress>, StoreError> {
        let ended = self.last_end().await?;
        if ended.is_some_and(|ended| now_ms() < ended.saturating_add(pause)) {
            return Ok(None);
        }
        let how = SumCheck {
            mode: CheckMode::Correct,
            only: None,
        };
        let progress = self.run(&how, stop, None).await?;
        if let Progress::Done(report) = &progress {
            metrics::counter!("countd_author_sweeps_total").increment(1);
            tracing::debug!(?report, "the sweep over authors has ended");
        }
        Ok(Some(progress))
    }

    /// Runs a sweep, or continues the current one.
    ///
    /// # Errors
    /// Redis failed. The sweep can be continued.
    pub async fn run(
        &self,
        how: &SumCheck,
        stop: &watch::Receiver<bool>,
        observer: Observer<'_>,
    ) -> Result<Progress, StoreError> {
        let counters = match self.counters() {
            Ok(counters) => counters,
            Err(none) => return Ok(Progress::Nothing(none)),
        };
        if self.store.layout().storage_of_users() == StoragePhase::Moving {
            let reason = "a migration moves the counters of users";
            return Ok(Progress::Waiting(reason.to_owned()));
        }
        let users = self.user_schema().await?;
        let mut report = Report::default();
        let mut has_begun = false;
        loop {
            if *stop.borrow() {
                return Ok(Progress::Waiting("the process stops".to_owned()));
            }
            let Stage { sweep, stage } = self.current_stage().await?;
            let waits = match stage {
                SUMS_ARE_NEW => None,
                COLOURING => match self.visit_all(sweep, &users, stop, observer).await? {
                    true => self.wait(stop, observer).await?,
                    false => Some("the entities of a slot cannot be visited".to_owned()),
                },
                COMPARING => {
                    let comparison = Comparison {
                        sweep,
                        counters: &counters,
                        users: &users,
                        how,
                        report: &mut report,
                    };
                    self.compare_all(comparison, stop, observer).await?
                }
                COMPARED => None,
                UNCOLOURING => self.wait(stop, observer).await?,
                _ if has_begun => {
                    if how.mode == CheckMode::Report {
                        self.forget_end().await?;
                    }
                    return Ok(Progress::Done(report));
                }
                _ => {
                    self.advance(sweep + 1, SUMS_ARE_NEW).await?;
                    has_begun = true;
                    continue;
                }
            };
            if let Some(reason) = waits {
                return Ok(Progress::Waiting(reason));
            }
            has_begun = true;
            self.advance(sweep, stage + 1).await?;
        }
    }

    /// Waits until all that is under way is counted. Returns why that does not happen, if it does not.
    async fn wait(
        &self,
        stop: &watch::Receiver<bool>,
        observer: Observer<'_>,
    ) -> Result<Option<String>, StoreError> {
        if let Some(progress) = observer {
            progress.update(&Update::waiting("waiting for the consumers"));
        }
        wave(&self.store, &self.log, stop).await
    }

    /// The received counters that sums verify.
    fn counters(&self) -> Result<Vec<UserCounter>, NoSweep> {
        let layout = self.store.layout();
        let Authors::Registry { feeds } = &layout.authors else {
            return Err(NoSweep::NoAuthors);
        };
        let is_unknown = |feed: &AuthorFeed| self.config.metrics.author_counter(feed).is_none();
        if feeds.iter().any(is_unknown) {
            return Err(NoSweep::UnknownCounter);
        }
        let sources = Sources::new(&self.config, &layout);
        let users = &self.config.users;
        let names = users.names();
        let counters: Vec<UserCounter> = names
            .iter()
            .filter_map(|name| users.counter(name))
            .filter(|counter| sources.of_user(counter) == UserSource::Credits)
            .collect();
        match counters.is_empty() {
            true => Err(NoSweep::NoCounters),
            false => Ok(counters),
        }
    }
}
