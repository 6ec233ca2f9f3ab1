//! Compares the counters of users with the facts that are kept for them.

use super::sweep::Transposition;
use crate::domain::error::{SchemaError, StoreError};
use crate::domain::event::CheckMode;
use crate::domain::ids::Id;
use crate::maintenance::report::Report;
use crate::maintenance::visits::{Observer, Visits, user_sizes};
use crate::repair::{
    CheckUsers, FoundOfUser, Outcome, Rebuilder, ReverseCounter, Sweeps, check_users,
    reverse_counters,
};
use crate::storage::schema::user_schema_id;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::watch;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0 MATCH x COUNT 1", "HSCAN {user_notes} 0 COUNT 1"];
/// Commands that this file sends on data with tables.
pub(super) const TABLE_PERMISSIONS: &[&str] = &["CTAB.SCAN {tables} 0 COUNT 1"];

/// The number of keys that a step of `SCAN` looks at.
const SCAN_COUNT: usize = 1_000;
/// The number of users that a step looks at.
const PAGE: usize = 500;
/// Objects with counters of users, and timelines.
const PATTERN: &str = "[ru]*";

/// What was found of the counters of users.
#[derive(Clone, Debug, Default)]
pub struct UsersReport {
    /// What was found, by counter.
    pub report: Report,
    /// The number of differences that are corrected after the next sweep, if they are still there. They are not in the report.
    pub waiting: u64,
    /// Those of them that are not noted, for lack of room. They are noted by a pass over all users after others are corrected.
    pub unnoted: u64,
}

/// What a pass compares.
struct Pass {
    counters: Vec<ReverseCounter>,
    mode: CheckMode,
    sweeps: Sweeps,
    user_len: usize,
    report: UsersReport,
}

impl Transposition {
    async fn pass(&self, mode: CheckMode) -> Result<Pass, StoreError> {
        let state = self.state().await?;
        let schema = self.schemas.get(user_schema_id()).await;
        let schema = schema.map_err(|error| match error {
            SchemaError::Store(error) => error,
            error => StoreError::Unexpected(error.to_string()),
        })?;
        Ok(Pass {
            counters: reverse_counters(&self.store, &self.config, &state.types),
            mode,
            sweeps: state.sweeps,
            user_len: schema.len(),
            report: UsersReport::default(),
        })
    }

    async fn check(&self, pass: &mut Pass, uids: BTreeSet<Id>) -> Result<(), StoreError> {
        let settings = CheckUsers {
            mode: pass.mode,
            round: pass.sweeps.begun,
            trace_id: "-",
            sweeps: pass.sweeps,
            user_len: pass.user_len,
        };
        let found = check_users(&self.store, &self.config, settings, &pass.counters, &uids);
        let mut damaged = BTreeSet::new();
        for FoundOfUser {
            uid,
            counter,
            found,
            waits,
            lacks_room,
        } in found.await?
        {
            if found.outcome == Outcome::Unchecked {
                damaged.insert(uid);
            }
            if waits && pass.mode != CheckMode::Report {
                pass.report.waiting += 1;
                pass.report.unnoted += u64::from(lacks_room);
            } else {
                pass.report.report.add(&counter, found);
            }
        }
        // A key of another type cannot be compared. The rebuild deletes it, and later passes correct what it does not restore.
        if pass.mode != CheckMode::Report && !damaged.is_empty() {
            Rebuilder::of(&self.config, &self.store)
                .users(damaged)
                .await;
        }
        let rate = self.config.reconcile.entities_per_second.max(1);
        tokio::time::sleep(Duration::from_secs_f64(uids.len() as f64 / rate as f64)).await;
        Ok(())
    }

    /// Compares the counters of one user.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn check_user(&self, uid: &Id, mode: CheckMode) -> Result<UsersReport, StoreError> {
        let mut pass = self.pass(mode).await?;
        self.check(&mut pass, BTreeSet::from([uid.clone()])).await?;
        Ok(pass.report)
    }

    /// Compares the counters of all users.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn check_all_users(
        &self,
        mode: CheckMode,
        stop: &watch::Receiver<bool>,
        observer: Observer<'_>,
    ) -> Result<UsersReport, StoreError> {
        let mut pass = self.pass(mode).await?;
        if pass.counters.is_empty() {
            return Ok(pass.report);
        }
        let step = ("comparing users with their facts", "users");
        let mut visits = Visits::begin(observer, step, user_sizes(&self.store)).await?;
        let is_complete = self
            .check_users_of_keys(&mut pass, &mut visits, stop)
            .await?
            && self
                .check_users_of_tables(&mut pass, &mut visits, stop)
                .await?;
        // Otherwise the next round compares all users again.
        if is_complete && mode != CheckMode::Report && pass.report.unnoted == 0 {
            self.end_pass().await?;
        }
        Ok(pass.report)
    }

    /// Compares the counters of the users of all timelines and objects. Returns false if `stop` turns true first.
    async fn check_users_of_keys(
        &self,
        pass: &mut Pass,
        visits: &mut Visits<'_>,
        stop: &watch::Receiver<bool>,
    ) -> Result<bool, StoreError> {
        let keys = self.store.keys();
        for mut server in self.store.servers()? {
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(PATTERN);
                scan.arg("COUNT").arg(SCAN_COUNT);
                let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(&mut server).await?;
                let uids = found.iter().filter_map(|key| {
                    let key = std::str::from_utf8(key).ok()?;
                    let timeline = || Some(keys.reverse_of(key)?.uid);
                    keys.user_of_counters(key).or_else(timeline)
                });
                let uids: BTreeSet<Id> = uids.collect();
                // A step looks at about so many keys, of which it returns those of the pattern.
                visits.add(SCAN_COUNT as u64, uids.len() as u64);
                self.check(pass, uids).await?;
                cursor = next;
                if *stop.borrow() {
                    return Ok(false);
                }
                if cursor == 0 {
                    visits.end_part();
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Compares the counters of the users of all rows. Returns false if `stop` turns true first.
    async fn check_users_of_tables(
        &self,
        pass: &mut Pass,
        visits: &mut Visits<'_>,
        stop: &watch::Receiver<bool>,
    ) -> Result<bool, StoreError> {
        let keys = self.store.keys();
        let has_tables = self.store.backend().has_tables();
        for partition in (0..keys.partitions()).filter(|_| has_tables) {
            let mut cursor = "0".to_owned();
            loop {
                let mut scan = redis::cmd("CTAB.SCAN");
                scan.arg(keys.user_table(partition)).arg(&cursor);
                scan.arg("COUNT").arg(PAGE);
                let page = scan.query_async(&mut self.store.reads()).await;
                let (next, ids): (String, Vec<String>) = match page.map_err(StoreError::from) {
                    // Its users are rebuilt when they are compared, as users with timelines.
                    Err(StoreError::WrongType(_)) => ("0".to_owned(), Vec::new()),
                    page => page?,
                };
                let uids = ids.iter().filter_map(|id| Id::new(id.as_str()).ok());
                visits.add(ids.len() as u64, ids.len() as u64);
                self.check(pass, uids.collect()).await?;
                cursor = next;
                if *stop.borrow() {
                    return Ok(false);
                }
                if cursor == "0" {
                    visits.end_part();
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Compares the counters whose differences wait for a sweep.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn check_noted_users(&self, mode: CheckMode) -> Result<UsersReport, StoreError> {
        let mut pass = self.pass(mode).await?;
        let keys = self.store.keys();
        let partitions = if keys.tagged() { keys.partitions() } else { 1 };
        for partition in 0..partitions {
            let mut cursor = "0".to_owned();
            loop {
                let mut scan = redis::cmd("HSCAN");
                scan.arg(keys.user_notes(partition)).arg(&cursor);
                scan.arg("COUNT").arg(PAGE);
                let (next, notes): (String, Vec<(String, String)>) =
                    scan.query_async(&mut self.store.reads()).await?;
                let uids = notes.iter().filter_map(|(field, _)| {
                    let (uid, _) = field.split_once(':')?;
                    Id::new(uid).ok()
                });
                let uids: BTreeSet<Id> = uids.collect();
                if !uids.is_empty() {
                    self.check(&mut pass, uids).await?;
                }
                cursor = next;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(pass.report)
    }
}
