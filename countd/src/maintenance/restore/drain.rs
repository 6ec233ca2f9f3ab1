//! Counts what a restore has appended to logs and outboxes.

use super::error::RestoreError;
use crate::consumer;
use crate::domain::config::Config;
use crate::domain::health::Health;
use crate::domain::keys::Partition;
use crate::domain::progress::{Progress, Update};
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
pub async fn count_rest(
    store: &Store,
    config: &Arc<Config>,
    progress: &dyn Progress,
) -> Result<(), RestoreError> {
    // Before the consumer starts: it counts many entries in the time of a check.
    let mut rest = Rest::default();
    rest.show(waiting(store).await?, progress);

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
    let result = wait_until_counted(store, &mut rest, progress).await;
    stop.send_replace(true);
    consumer.await.map_err(RestoreError::panicked)?;
    result
}

/// The progress of the consumer, in entries of logs and outboxes.
#[derive(Default)]
struct Rest {
    done: u64,
    total: u64,
}

impl Rest {
    /// Shows how many entries are left. There may be more than before: an entry may have effects in several partitions, each of which has an entry.
    fn show(&mut self, left: u64, progress: &dyn Progress) {
        self.total = self.total.max(left);
        self.done = self.done.max(self.total - left);
        let update = Update::new("counting the rest of the logs", self.done, "entries");
        progress.update(&update.of(self.total));
    }
}

async fn wait_until_counted(
    store: &Store,
    rest: &mut Rest,
    progress: &dyn Progress,
) -> Result<(), RestoreError> {
    let (mut least, mut since) = (u64::MAX, Instant::now());
    loop {
        // Twice: an entry may be forwarded from a partition not yet checked to one already checked.
        let left = waiting(store).await?.max(waiting(store).await?);
        rest.show(left, progress);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Seen(Mutex<Vec<(u64, u64)>>);

    impl Progress for Seen {
        fn update(&self, update: &Update<'_>) {
            let seen = (update.done.expect("done"), update.total.expect("a total"));
            self.0.lock().expect("no test fails").push(seen);
        }

        fn note(&self, _: &str) {}
    }

    #[test]
    fn done_never_falls_and_reaches_the_total() {
        let (seen, mut rest) = (Seen::default(), Rest::default());
        for left in [10, 4, 6, 12, 5, 0] {
            rest.show(left, &seen);
        }
        let seen = seen.0.into_inner().expect("no test fails");
        assert_eq!(
            seen,
            [(0, 10), (6, 10), (6, 10), (6, 12), (7, 12), (12, 12)]
        );
    }
}
