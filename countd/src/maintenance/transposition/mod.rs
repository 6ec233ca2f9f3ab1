//! Verifies that the facts kept for users are the facts of entities, and the counters of users their number.
//!
//! A sweep compares all facts with the timelines of the users, and all timelines with the facts, by plain reads. For facts that differ the step
//! that reads the fact appends its state to the log of the entity (`repair`). The commit that reaches the entry corrects the timeline. All
//! changes of the fact before the entry precede it, and all later ones follow, so the correction is exact under any load.
//!
//! Counters of users are compared with their timelines in one script. A difference is corrected only if a sweep that began later has not
//! changed it, so a lost fact of a timeline does not lower a right counter.

mod compare;
mod keys;
mod state;
mod sweep;
mod users;

pub use state::{SavedTransposition, saved_transposition};
pub use sweep::Transposition;
pub use users::UsersReport;

use crate::domain::config::Config;
use crate::domain::error::StoreError;
use crate::domain::event::{CheckMode, now_ms};
use crate::domain::ids::Name;
use crate::domain::progress::Update;
use crate::domain::sweep_ages::{Sweep, SweepAges};
use crate::maintenance::sums::{Lock, WAVE_PERMISSIONS, wave};
use crate::maintenance::visits::{self, Observer};
use crate::redis::permissions::Permissions;
use crate::redis::run_id;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use crate::repair::{check_users_permissions, verify_permissions};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The permissions that the verification requires, without those to read facts and timelines.
pub fn required_permissions() -> Permissions {
    Permissions::of_commands(
        &[
            WAVE_PERMISSIONS,
            keys::PERMISSIONS,
            run_id::PERMISSIONS,
            state::PERMISSIONS,
            users::PERMISSIONS,
            visits::PERMISSIONS,
        ]
        .concat(),
    )
}

/// The permissions to compare the counters of users.
pub fn user_permissions(backend: CounterBackend) -> Permissions {
    let permissions = check_users_permissions(backend);
    match backend.has_tables() {
        true => permissions
            .and(Permissions::of_commands(users::TABLE_PERMISSIONS))
            .and(Permissions::of_commands(visits::TABLE_PERMISSIONS)),
        false => permissions,
    }
}

/// The permissions to compare the facts and the timelines of a metric.
pub fn fact_permissions(backend: CounterBackend) -> Permissions {
    Permissions::of_commands(compare::permissions(backend)).and(verify_permissions(backend))
}

/// Verifies as often as every entity is sampled, until `stop` turns true. Records the age of the last sweep of all processes in `ages`.
pub async fn run(config: Arc<Config>, store: Store, ages: SweepAges, stop: watch::Receiver<bool>) {
    let settings = config.reconcile;
    if !settings.enabled {
        return;
    }
    let interval = Duration::from_secs(settings.interval_seconds);
    let lock = Lock::new(store.clone(), store.keys().transposition_lock());
    let transposition = Transposition::new(store, config);
    let mut stopping = stop.clone();
    let rounds = async {
        loop {
            // The processes do not begin at the same time.
            tokio::time::sleep(interval.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            match lock.run(transposition.round(&stop)).await {
                Ok(Some(Some(reason))) => {
                    tracing::info!(reason, "the verification of the facts of users waits");
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "the verification of the facts of users failed; will retry");
                }
            }
            match transposition.state().await {
                Ok(state) => ages.set(Sweep::Facts, state.ended_at),
                Err(error) => tracing::debug!(%error, "the age of the sweep is unknown"),
            }
        }
    };
    tokio::select! {
        () = rounds => {}
        _ = stopping.wait_for(|stop| *stop) => {}
    }
}

impl Transposition {
    /// What is due. Returns why it cannot go on, if it cannot.
    async fn round(&self, stop: &watch::Receiver<bool>) -> Result<Option<String>, StoreError> {
        if let Some(reason) = self.refusal().await? {
            return Ok(Some(reason));
        }
        let settings = self.config.reconcile;
        let pause = 1_000 * settings.interval_seconds * settings.sample;
        let state = self.state().await?;
        let is_due = |last: Option<u64>| last.is_none_or(|last| now_ms() >= last + pause);
        let report = match is_due(state.passed_at) {
            true => self.check_all_users(CheckMode::Correct, stop, None).await?,
            false => self.check_noted_users(CheckMode::Correct).await?,
        };
        let is_running = state.sweeps.begun > state.sweeps.ended;
        if !is_running && !is_due(state.ended_at) && report.waiting == 0 {
            return Ok(None);
        }
        let waits = self.sweep(stop, None).await?;
        if waits.is_none() {
            self.check_noted_users(CheckMode::Correct).await?;
        }
        Ok(waits)
    }

    /// Why nothing can be compared now, if it cannot.
    async fn refusal(&self) -> Result<Option<String>, StoreError> {
        let layout = self.store.refresh_layout().await;
        layout.map_err(|error| StoreError::Unexpected(error.to_string()))?;
        if self.store.backend().is_mixed() {
            return Ok(Some("an adoption converts the data".to_owned()));
        }
        // Otherwise processes may change counters of facts in different steps.
        let is_settled = self.store.layout().counting == self.config.counting();
        Ok((!is_settled).then(|| "processes have other settings".to_owned()))
    }

    /// The metrics whose facts are kept for users.
    fn metrics(&self) -> BTreeSet<Name> {
        let layout = self.store.layout();
        let metrics = self.config.metrics.iter();
        let kept = metrics
            .filter(|(name, metric)| metric.fact_kind().is_some() && layout.has_reverse(name));
        kept.map(|(name, _)| name.clone()).collect()
    }

    /// Continues the current sweep, or begins one. Returns why it cannot go on; `None` at its end.
    ///
    /// # Errors
    /// Redis failed. The sweep can be continued.
    pub async fn sweep(
        &self,
        stop: &watch::Receiver<bool>,
        observer: Observer<'_>,
    ) -> Result<Option<String>, StoreError> {
        let state = self.begin().await?;
        if !self.visit_all(&state, stop, observer).await? {
            return Ok(Some("the process stops".to_owned()));
        }
        if let Some(progress) = observer {
            progress.update(&Update::waiting("waiting for the consumers"));
        }
        if let Some(reason) = wave(&self.store, &self.log, stop).await? {
            return Ok(Some(reason));
        }
        if self.state().await?.nodes != self.nodes() {
            self.restart(state.sweeps.begun).await?;
            return Ok(Some("keys have moved to other nodes".to_owned()));
        }
        self.end(state.sweeps.begun).await?;
        metrics::counter!("countd_fact_sweeps_total").increment(1);
        tracing::debug!(
            sweep = state.sweeps.begun,
            "facts and timelines were compared"
        );
        Ok(None)
    }
}
