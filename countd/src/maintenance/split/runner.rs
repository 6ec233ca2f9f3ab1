//! Finishes splits and merges whose command has died.

use super::{MigrationError, Splitter};
use crate::domain::config::Config;
use crate::domain::ids::Entity;
use crate::domain::progress::Silent;
use crate::domain::split::{SplitPhase, SplitState};
use crate::redis::store::Store;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The delay between two looks at the layout. A command that runs holds the lock.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long a process has seen the same state before it finishes it: a command that runs again right away is not delayed. A split takes
/// longer, and has a grace period of its own.
const SPLIT_DELAY: Duration = Duration::from_secs(20);
const MERGE_DELAY: Duration = Duration::from_secs(5);
/// The grace period of a split that a process finishes.
const GRACE: Duration = Duration::from_secs(60);

/// Advances entities that are neither split nor whole, until `stop` turns true.
pub async fn run(config: Arc<Config>, store: Store, mut stop: watch::Receiver<bool>) {
    let rounds = async {
        let mut seen: HashMap<Entity, (Arc<SplitState>, Instant)> = HashMap::new();
        loop {
            // The processes do not begin at the same time.
            tokio::time::sleep(INTERVAL.mul_f64(0.5 + fastrand::f64())).await;
            let layout = store.layout();
            metrics::gauge!("countd_split_entities").set(layout.splits().len() as f64);
            seen.retain(|entity, (state, _)| layout.split_of(entity) == Some(&*state));
            for (entity, state) in layout.splits() {
                let new = || (Arc::clone(state), Instant::now());
                let (_, since) = seen.entry(entity.clone()).or_insert_with(new);
                let delay = match state.phase {
                    SplitPhase::Split => continue,
                    SplitPhase::Splitting => SPLIT_DELAY,
                    SplitPhase::Merging => MERGE_DELAY,
                };
                if since.elapsed() < delay {
                    continue;
                }
                match advance(&config, &store, entity).await {
                    Ok(()) => {}
                    Err(MigrationError::Refused(reason)) => {
                        tracing::debug!(reason, "a split or merge is under way");
                    }
                    Err(error) => tracing::warn!(%error, "a split or merge cannot go on now"),
                }
            }
        }
    };
    tokio::select! {
        () = rounds => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

async fn advance(
    config: &Arc<Config>,
    store: &Store,
    entity: &Entity,
) -> Result<(), MigrationError> {
    let mut splitter = Splitter::new(config, store.clone(), GRACE, &Silent);
    let lease = splitter.lease().await?;
    let result = splitter.advance(&lease, entity).await;
    splitter.end(lease).await;
    result
}
