//! The lease of a job: only the process that holds it runs the job.

use super::model::{Job, Progress, Target};
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::Id;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use redis::ScriptInvocation;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Claims a job.
static CLAIM: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/job_claim.lua")));
/// Saves the progress of a job.
static SAVE: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/job_save.lua")));
/// Ends a job.
static FINISH: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/job_finish.lua")));

/// How long a job that has ended can be read.
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);
/// The fields that are deleted at the end: they name the target, or nothing needs them any more.
const NAMING: &[&str] = &[
    "target", "owner", "lease", "due", "scan", "servers", "expected", "step", "error",
];

pub(super) fn required_permissions() -> Permissions {
    CLAIM
        .required_permissions()
        .and(SAVE.required_permissions())
        .and(FINISH.required_permissions())
}

/// The right of a process to run a job.
pub struct Lease {
    store: Store,
    key: String,
    token: String,
    /// The job, with its progress.
    pub job: Job,
    /// When the lease ends, in milliseconds since 1970 by the clock of Redis.
    deadline: u64,
    length: Duration,
    saved: Instant,
}

impl Lease {
    /// Claims a job. After the death of the process, the job continues when the lease has ended. `None` if another process runs it, or it is not due.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn claim(
        store: &Store,
        (target, id): (Target, Id),
        length: Duration,
    ) -> Result<Option<Lease>, StoreError> {
        let key = store.keys().job(&id);
        let token = format!("{:016x}", fastrand::u64(..));
        let mut call = CLAIM.script.key(&key);
        call.arg(&token).arg(length.as_millis() as u64);
        let claimed: Option<(String, HashMap<String, String>)> =
            call.invoke_async(&mut store.commands()).await?;
        let Some((deadline, fields)) = claimed else {
            return Ok(None);
        };
        let progress = Progress::parse(&fields);
        Ok(Some(Lease {
            store: store.clone(),
            key,
            token,
            job: Job {
                id,
                target,
                progress,
            },
            deadline: parse_time(&deadline)?,
            length,
            saved: Instant::now(),
        }))
    }

    /// When the lease ends, in milliseconds since 1970 by the clock of Redis. Steps that must not happen after another process has
    /// finished the job compare it with the clock.
    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Saves the progress, and extends the lease.
    ///
    /// # Errors
    /// Another process runs the job, or Redis failed.
    pub async fn save(&mut self) -> Result<(), Problem> {
        let mut call = self.save_call(self.length, Duration::ZERO);
        call.arg("error").arg("");
        let deadline: Option<String> = call.invoke_async(&mut self.store.commands()).await?;
        self.deadline = parse_time(&deadline.ok_or(Problem::LeaseLost)?)?;
        self.saved = Instant::now();
        Ok(())
    }

    /// [`save`](Self::save), if the last one was some time ago.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub async fn keep_alive(&mut self) -> Result<(), Problem> {
        match self.saved.elapsed() >= self.length / 8 {
            true => self.save().await,
            false => Ok(()),
        }
    }

    /// Gives the job up, so that it is tried again after `delay`.
    ///
    /// # Errors
    /// Redis failed.
    pub async fn release(self, delay: Duration, reason: &str) -> Result<(), StoreError> {
        let mut call = self.save_call(Duration::ZERO, delay);
        call.arg("error").arg(reason);
        let _: Option<String> = call.invoke_async(&mut self.store.commands()).await?;
        Ok(())
    }

    /// Ends the job.
    ///
    /// # Errors
    /// Another process runs the job, or Redis failed.
    pub async fn finish(self) -> Result<(), Problem> {
        let mut call = FINISH.script.key(self.store.keys().jobs());
        call.key(&self.key);
        call.arg(&self.token).arg(self.job.target.to_string());
        call.arg(KEEP.as_secs()).arg(NAMING.len()).arg(NAMING);
        for (field, value) in self.job.progress.fields() {
            call.arg(field).arg(value);
        }
        match call.invoke_async(&mut self.store.commands()).await? {
            true => Ok(()),
            false => Err(Problem::LeaseLost),
        }
    }

    fn save_call(&self, lease: Duration, delay: Duration) -> ScriptInvocation<'static> {
        let mut call = SAVE.script.key(&self.key);
        call.arg(&self.token).arg(lease.as_millis() as u64);
        call.arg(delay.as_millis() as u64);
        for (field, value) in self.job.progress.fields() {
            call.arg(field).arg(value);
        }
        call
    }
}

fn parse_time(text: &str) -> Result<u64, StoreError> {
    let time = text.parse();
    time.map_err(|_| StoreError::Unexpected("the lease of a job".to_owned()))
}
