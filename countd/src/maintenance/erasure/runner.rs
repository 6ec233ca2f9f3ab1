//! Runs jobs, one at a time in each process.

use super::context::{Erasure, Outcome};
use crate::domain::config::Config;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::Id;
use crate::domain::text::brief;
use crate::log::kafka::Topic;
use crate::maintenance::jobs::{Jobs, Lease, Target};
use crate::redis::store::Store;
use crate::trace::{self, Span};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The delay between two looks for jobs.
const POLL_DELAY: Duration = Duration::from_millis(500);
/// The delay after which a job that waits or has failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Runs jobs until `stop` turns true. `topic` has events that must be counted first, if the log is in Kafka.
pub async fn run(
    config: Arc<Config>,
    (store, topic): (Store, Option<Topic>),
    mut stop: watch::Receiver<bool>,
) {
    let erasure = Erasure::new(config, store.clone(), topic);
    let jobs = Jobs::new(store);
    let rounds = async {
        loop {
            if let Err(error) = erasure.run_active(&jobs).await {
                tracing::warn!(%error, "jobs cannot be run now");
            }
            tokio::time::sleep(POLL_DELAY).await;
        }
    };
    // A job that is interrupted continues when its lease has ended.
    tokio::select! {
        () = rounds => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

impl Erasure {
    /// Runs each job that has not ended once. A job that cannot be claimed or ended, because its key is damaged, does not stop the others.
    async fn run_active(&self, jobs: &Jobs) -> Result<(), StoreError> {
        let mut cursor = 0;
        loop {
            let (next, page) = jobs.active(cursor).await?;
            for job in page {
                let id = job.1.clone();
                match self.run_job(job).await {
                    Err(error @ StoreError::Unavailable(_)) => return Err(error),
                    Err(error) => tracing::warn!(job = %id, %error, "the job cannot be run now"),
                    Ok(()) => {}
                }
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    async fn run_job(&self, job: (Target, Id)) -> Result<(), StoreError> {
        self.store.check_layout()?;
        let Some(mut lease) = Lease::claim(&self.store, job, self.lease).await? else {
            return Ok(());
        };
        let (id, target) = (lease.job.id.clone(), lease.job.target.clone());
        let kind = target.kind().name();
        let span = Span::root("job");
        let attempt = async {
            match &target {
                Target::Entity(entity) => self.erase_entity(&mut lease, entity).await,
                Target::User(uid) => self.erase_user(&mut lease, uid).await,
            }
        };
        let attempt = trace::scope(span.as_ref(), pin!(attempt)).await;
        if let Some(span) = span {
            span.set("countd.job.kind", kind);
            span.set("countd.job.id", id.as_str().to_owned());
            if attempt.is_err() {
                span.fail("failed");
            }
        }
        let failure = match attempt {
            Ok(Outcome::Done) => match lease.finish().await {
                Ok(()) => {
                    metrics::counter!("countd_jobs_finished_total", "kind" => kind).increment(1);
                    tracing::info!(job = %id, kind, "job finished");
                    return Ok(());
                }
                Err(Problem::Store(error)) => return Err(error),
                Err(_) => return Ok(()),
            },
            Ok(Outcome::Waiting(reason)) => reason,
            Err(Problem::LeaseLost) => return Ok(()),
            Err(problem) => brief(&problem),
        };
        metrics::counter!("countd_job_retries_total", "kind" => kind).increment(1);
        tracing::warn!(job = %id, kind, reason = failure, "the job will be tried again");
        lease.release(RETRY_DELAY, &failure).await
    }
}
