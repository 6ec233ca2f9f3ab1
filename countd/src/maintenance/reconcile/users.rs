//! Compares the counters of users: of one, or of all.
//!
//! - Counters of facts on the user (followers): the commit that reaches a check compares.
//! - Counters of facts that are kept for the user (followings, posts): a script compares. A difference is corrected after a sweep over the
//!   facts, which takes as long as reading all of them.
//! - Received counters: a sweep over the authors of all entities.

use super::command::{MAX_WAITING, POLL, ReconcileError, Run};
use crate::domain::error::StoreError;
use crate::domain::event::CheckMode;
use crate::domain::ids::{Id, Name};
use crate::domain::progress::Update;
use crate::log::Streams;
use crate::maintenance::report::Report;
use crate::maintenance::sums::{
    FollowersCheck, FollowersPass, Lock, Progress, SumCheck, SumSweep, wave,
};
use crate::maintenance::transposition::{Transposition, UsersReport};
use std::sync::Arc;
use tokio::sync::watch;

/// How often a sweep is run until no difference waits for one. One that was running does not count.
const MAX_SWEEPS: usize = 3;
/// How often a sweep is continued that waits for consumers: for a minute each time.
const MAX_WAITS: usize = 10;

/// What the comparisons of users use.
pub(super) struct Users {
    transposition: Transposition,
    transposition_lock: Lock,
    sums: SumSweep,
    sums_lock: Lock,
    log: Streams,
    stop: watch::Receiver<bool>,
}

impl Run<'_> {
    /// Compares the counters of a user; `None`: of all users.
    pub(super) async fn check_users(&mut self, uid: Option<&Id>) -> Result<(), ReconcileError> {
        let store = &self.context.store;
        let config = &self.context.catalog.config;
        // The command ends with its process.
        let (_running, stop) = watch::channel(false);
        let users = Users {
            transposition: Transposition::new(store.clone(), Arc::clone(config)),
            transposition_lock: Lock::new(store.clone(), store.keys().transposition_lock()),
            sums: SumSweep::new(store.clone(), Arc::clone(config)),
            sums_lock: Lock::new(store.clone(), store.keys().sums_lock()),
            log: Streams::new(store.clone(), config),
            stop,
        };
        self.check_followers(&users, uid).await?;
        self.check_followings(&users, uid).await?;
        self.check_received(&users, uid).await
    }

    async fn check_followers(
        &mut self,
        users: &Users,
        uid: Option<&Id>,
    ) -> Result<(), ReconcileError> {
        let how = FollowersCheck {
            mode: self.mode,
            round: 0,
            report: Some(self.report.clone()),
        };
        let observer = uid.is_none().then_some(self.progress);
        let Some(mut pass) = users.sums.followers_pass(how, observer).await? else {
            return Ok(());
        };
        match uid {
            Some(uid) => users.sums.check_followers_of(&mut pass, uid).await?,
            None => {
                while users.sums.next_followers(&mut pass).await? {
                    if pass.suspects >= MAX_WAITING {
                        self.collect_followers(users, &mut pass).await?;
                    }
                }
            }
        }
        self.collect_followers(users, &mut pass).await?;
        if uid.is_some() {
            // Facts or counters that are damaged are not reported.
            let found = &self.comparer.report.metrics;
            let unchecked = pass.counters().filter(|name| !found.contains_key(*name));
            let unchecked: Vec<Name> = unchecked.cloned().collect();
            unchecked
                .iter()
                .for_each(|name| pass.report.add_unchecked(name));
        }
        self.comparer.report.merge(pass.report);
        Ok(())
    }

    /// Waits until the consumers have reached the checks of a pass, and collects what they have found.
    async fn collect_followers(
        &mut self,
        users: &Users,
        pass: &mut FollowersPass<'_>,
    ) -> Result<(), ReconcileError> {
        if pass.appended.is_empty() {
            return Ok(());
        }
        let appended = std::mem::take(&mut pass.appended);
        self.comparer.appended.extend(appended);
        self.wait().await?;
        // In a cluster the check passes through an outbox.
        if self.context.store.keys().tagged()
            && let Some(reason) = wave(&self.context.store, &users.log, &users.stop).await?
        {
            return Err(ReconcileError::Refused(reason));
        }
        for home in std::mem::take(&mut pass.homes) {
            self.collect(home).await?;
        }
        pass.suspects = 0;
        Ok(())
    }

    async fn check_followings(
        &mut self,
        users: &Users,
        uid: Option<&Id>,
    ) -> Result<(), ReconcileError> {
        let mut found = self.compare_followings(users, uid, self.mode).await?;
        let mut report = Report::default();
        loop {
            let unnoted = found.unnoted;
            report.merge(self.correct_noted(users, uid, found).await?);
            if unnoted == 0 {
                break;
            }
            // There was no room for a note of each difference. Now there is.
            found = self.compare_followings(users, uid, self.mode).await?;
            if found.unnoted >= unnoted {
                let mode = CheckMode::Report;
                found = self.compare_followings(users, uid, mode).await?;
                report.merge(found.report.only_differing());
                break;
            }
            found.report = found.report.only_differing();
        }
        self.comparer.report.merge(report);
        Ok(())
    }

    /// Compares the counters of one user, or of all.
    async fn compare_followings(
        &mut self,
        users: &Users,
        uid: Option<&Id>,
        mode: CheckMode,
    ) -> Result<UsersReport, ReconcileError> {
        let of = &users.transposition;
        let observer = Some(self.progress);
        Ok(match uid {
            Some(uid) => of.check_user(uid, mode).await?,
            None => of.check_all_users(mode, &users.stop, observer).await?,
        })
    }

    /// Runs sweeps until the noted differences of a pass are corrected.
    async fn correct_noted(
        &mut self,
        users: &Users,
        uid: Option<&Id>,
        mut found: UsersReport,
    ) -> Result<Report, ReconcileError> {
        let of = &users.transposition;
        for sweep in 0..=MAX_SWEEPS {
            if found.waiting == 0 {
                break;
            }
            // After the last sweep what differs still is only reported.
            let mode = match sweep {
                MAX_SWEEPS => CheckMode::Report,
                _ => {
                    self.sweep(users).await?;
                    self.mode
                }
            };
            let before = std::mem::take(&mut found.report);
            found = match uid {
                Some(uid) => of.check_user(uid, mode).await?,
                None => of.check_noted_users(mode).await?,
            };
            if uid.is_none() {
                found.report = found.report.only_differing();
                found.report.merge(before);
            }
        }
        Ok(found.report)
    }

    /// Runs a sweep over the facts of users.
    async fn sweep(&mut self, users: &Users) -> Result<(), ReconcileError> {
        let observer = Some(self.progress);
        let sweep = || users.transposition.sweep(&users.stop, observer);
        let mut waits = 0;
        loop {
            match self.locked(&users.transposition_lock, sweep).await? {
                None => return Ok(()),
                Some(_) if waits < MAX_WAITS => waits += 1,
                Some(reason) => return Err(ReconcileError::Refused(reason)),
            }
        }
    }

    async fn check_received(
        &mut self,
        users: &Users,
        uid: Option<&Id>,
    ) -> Result<(), ReconcileError> {
        let how = SumCheck {
            mode: self.mode,
            only: uid.cloned(),
        };
        let mut report = Report::default();
        let (mut waits, mut is_continued) = (0, true);
        loop {
            let observer = Some(self.progress);
            let run = || users.sums.run(&how, &users.stop, observer);
            match self.locked(&users.sums_lock, run).await? {
                // A sweep of another process may be continued after it has compared.
                Progress::Done(found) if found.metrics.is_empty() && is_continued => {
                    is_continued = false;
                }
                Progress::Done(found) => {
                    report = found;
                    break;
                }
                Progress::Waiting(_) if waits < MAX_WAITS => waits += 1,
                Progress::Waiting(reason) => return Err(ReconcileError::Refused(reason)),
                Progress::Nothing(_) => break,
            }
        }
        self.comparer.report.merge(report);
        Ok(())
    }

    /// Works under a lock that another process may have for a while.
    async fn locked<T, F>(&mut self, lock: &Lock, work: impl Fn() -> F) -> Result<T, ReconcileError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        loop {
            if let Some(result) = lock.run(work()).await? {
                return Ok(result);
            }
            let update = Update::waiting("waiting for the sweep of another process");
            self.progress.update(&update);
            tokio::time::sleep(POLL).await;
        }
    }
}
