//! Counts what a restore has appended to logs and outboxes.

use super::error::RestoreError;
use crate::consumer;
use crate::domain::config::Config;
use crate::domain::health::Health;
use crate::domain::keys::Partition;
use crate::log::inspect::{LogState, inspect};
use crate::redis::store::Store;
use crate::repair::HotEntities;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["XLEN {out}"];

/// The delay between two checks.
const DELAY: Duration = Duration::from_millis(100);
/// How long there may be no progress.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a consumer until every log is counted and every outbox is forwarded.
pub async fn count_rest(store: &Store, config: &Arc<Config>) -> Result<(), RestoreError> {
    let (stop, stopping) = watch::channel(false);
    let health = Health::default();
    let (assignment, _) = watch::channel(Arc::default());
    let consumer = consumer::run(
        Arc::clone(config),
        store.clone(),
        (health, HotEntities::default()),
        assignment,
        // Data with an archive has no topic.
        None,
        stopping,
    );
    let consumer = tokio::spawn(consumer);
    let result = wait_until_counted(store).await;
    stop.send_replace(true);
    consumer.await.map_err(RestoreError::panicked)?;
    result
}

async fn wait_until_counted(store: &Store) -> Result<(), RestoreError> {
    let (mut least, mut since) = (u64::MAX, Instant::now());
    loop {
        // Twice: an entry may be forwarded from a partition not yet checked to one already checked.
        let left = waiting(store).await? + waiting(store).await?;
        if left == 0 {
            return Ok(());
        }
        if left < least {
            (least, since) = (left, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            return Err(RestoreError::Stalled(left));
        }
        tokio::time::sleep(DELAY).await;
    }
}

/// The number of entries that are not counted or not forwarded.
async fn waiting(store: &Store) -> Result<u64, RestoreError> {
    let partitions: Vec<Partition> = (0..store.keys().partitions()).collect();
    let inspection = inspect(store, &partitions).await;
    if let Some(error) = inspection.error {
        return Err(error.into());
    }
    let mut left = 0;
    for (partition, state) in &inspection.states {
        match state.log_state() {
            LogState::Healthy(lag) => left += lag,
            LogState::Disordered => left += 1,
            LogState::Restarted(problem) | LogState::Failed(problem) => {
                return Err(RestoreError::Log(*partition, problem));
            }
        }
    }
    let mut pipe = redis::pipe();
    for partition in &partitions {
        pipe.cmd("XLEN").arg(store.keys().outbox(*partition));
    }
    let outboxes: Vec<u64> = pipe.query_async(&mut store.reads()).await?;
    Ok(left + outboxes.iter().sum::<u64>())
}
