//! Starts and reads jobs.

use super::model::{JobStatus, Target};
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::Id;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Starts a job.
static START: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/job_start.lua")));

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["HGETALL {job}", "HSCAN {jobs} 0 COUNT 1"];

/// The maximum number of jobs that have not ended.
const MAX_JOBS: usize = 10_000;
/// The number of jobs that are listed at once.
const PAGE: usize = 32;

pub(super) fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS).and(START.required_permissions())
}

/// The jobs of a store. Cheap to clone.
#[derive(Clone)]
pub struct Jobs {
    pub(super) store: Store,
}

impl Jobs {
    /// The jobs of a store.
    pub fn new(store: Store) -> Jobs {
        Jobs { store }
    }

    /// Starts a job. If there is one with this target that has not ended, returns that one.
    ///
    /// # Errors
    /// There are too many jobs, or Redis failed.
    pub async fn start(&self, target: &Target) -> Result<JobStatus, Problem> {
        let keys = self.store.keys();
        let text = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let new = Id::new(text).map_err(|error| Problem::Invalid("id".to_owned(), error))?;
        let mut call = START.script.key(keys.jobs());
        call.key(keys.job(&new));
        call.arg(target.to_string()).arg(new.as_str()).arg(MAX_JOBS);
        call.arg("target").arg(target.to_string());
        call.arg("kind").arg(target.kind().name());
        let id: Option<String> = call.invoke_async(&mut self.store.writes()).await?;
        let id = id.ok_or(Problem::TooManyJobs(MAX_JOBS))?;
        let id = Id::new(id).map_err(|_| StoreError::Unexpected("the ID of a job".to_owned()))?;
        match self.get(&id).await? {
            Some(status) => Ok(status),
            None => Err(StoreError::Unexpected("a job without its fields".to_owned()).into()),
        }
    }

    /// A job; `None` if it does not exist, or has ended long ago.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn get(&self, id: &Id) -> Result<Option<JobStatus>, Problem> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(self.store.keys().job(id));
        let fields: HashMap<String, String> = cmd.query_async(&mut self.store.reads()).await?;
        Ok(JobStatus::parse(id, &fields))
    }

    /// Some jobs that have not ended, and the next cursor.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn active(&self, cursor: u64) -> Result<(u64, Vec<(Target, Id)>), StoreError> {
        let mut cmd = redis::cmd("HSCAN");
        cmd.arg(self.store.keys().jobs()).arg(cursor);
        cmd.arg("COUNT").arg(PAGE);
        let (next, page): (u64, Vec<(String, String)>) =
            cmd.query_async(&mut self.store.reads()).await?;
        let jobs = page.into_iter();
        let jobs =
            jobs.filter_map(|(target, id)| Some((Target::parse(&target)?, Id::new(id).ok()?)));
        Ok((next, jobs.collect()))
    }
}
