//! Work on rankings: preparing the next day, filling sorted sets from counts by day, and deleting rankings that are not configured any
//! more.
//!
//! The commits of the consumer keep the sorted sets of all live days. A day is live from the moment at which its floor is in the state, so
//! a pass over all entities that begins later completes it: an entity that changes meanwhile is written by a commit, with the same
//! computation in the same form of step.

mod fill;
mod remove;

use crate::domain::config::Config;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::keys::Partition;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The interval between two looks at the state of rankings.
const INTERVAL: Duration = Duration::from_millis(500);
/// The same in a cluster, where each partition has a state.
const CLUSTER_INTERVAL: Duration = Duration::from_secs(5);
/// How long a past day stays, so that clients can read its next pages.
const KEEP_PAST_MS: u64 = 3_600_000;

/// The permissions to fill and delete rankings.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    fill::required_permissions(backend).and(remove::required_permissions())
}

/// Keeps rankings complete until `stop` turns true: the owner of partition 0, or in a cluster the owner of each partition.
pub async fn run(
    store: Store,
    config: Arc<Config>,
    assigned: watch::Receiver<Arc<Vec<Partition>>>,
    mut stop: watch::Receiver<bool>,
) {
    let interval = match store.keys().tagged() {
        true => CLUSTER_INTERVAL,
        false => INTERVAL,
    };
    let rounds = async {
        let mut is_clean = false;
        let mut wait = INTERVAL;
        loop {
            tokio::time::sleep(wait).await;
            let partitions = Arc::clone(&assigned.borrow());
            let owns_first = partitions.contains(&0);
            is_clean &= owns_first;
            let round = async {
                if owns_first && !is_clean {
                    remove::remove_others(&store, &config).await?;
                    is_clean = true;
                }
                keep(&store, &config, &partitions).await
            };
            wait = match round.await {
                Ok(true) => interval,
                Ok(false) => INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, "rankings cannot be filled now");
                    interval
                }
            };
        }
    };
    tokio::select! {
        () = rounds => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// Steps all rankings of the assigned partitions once. Returns whether all are complete.
async fn keep(
    store: &Store,
    config: &Config,
    partitions: &[Partition],
) -> Result<bool, StoreError> {
    let keys = store.keys();
    let groups = partitions.iter().filter(|p| **p < keys.rank_groups());
    let groups: Vec<Partition> = groups.copied().collect();
    let (calendar, now) = (config.days.calendar(), now_ms());
    let days = fill::RankDays {
        today: calendar.day_of(now),
        keep_from: calendar.day_of(now.saturating_sub(KEEP_PAST_MS)),
    };
    let (mut are_complete, mut failed) = (true, None);
    for of in config.rankings() {
        for group in &groups {
            // Partitions of other nodes may be available.
            match fill::step(store, (&of, *group), days).await {
                Ok(is_complete) => are_complete &= is_complete,
                Err(error) => failed = Some(error),
            }
        }
    }
    failed.map_or(Ok(are_complete), Err)
}
