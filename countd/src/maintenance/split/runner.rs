//! Finishes splits and merges whose command has died, and splits entities because of the rate of their writes.

use super::splitter::Splitter;
use super::threshold::Threshold;
use crate::domain::config::Config;
use crate::domain::ids::Entity;
use crate::domain::progress::Silent;
use crate::domain::split::{SplitPhase, SplitState};
use crate::maintenance::storage::MigrationError;
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
/// The grace period of a split without a command.
const GRACE: Duration = Duration::from_secs(60);

/// Advances entities that are neither split nor whole, and splits those with too many writes, until `stop` turns true.
pub async fn run(config: Arc<Config>, store: Store, mut stop: watch::Receiver<bool>) {
    let rounds = async {
        let mut seen: HashMap<Entity, (Arc<SplitState>, Instant)> = HashMap::new();
        let mut threshold = Threshold::default();
        loop {
            // The processes do not begin at the same time.
            tokio::time::sleep(INTERVAL.mul_f64(0.5 + fastrand::f64())).await;
            finish(&config, &store, &mut seen).await;
            split_over(&config, &store, &mut threshold).await;
        }
    };
    tokio::select! {
        () = rounds => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// Finishes what no command has continued for a while.
async fn finish(
    config: &Arc<Config>,
    store: &Store,
    seen: &mut HashMap<Entity, (Arc<SplitState>, Instant)>,
) {
    let layout = store.layout();
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
        match advance(config, store, entity).await {
            Ok(()) => {}
            Err(MigrationError::Refused(reason)) => {
                tracing::debug!(reason, "a split or merge is under way");
            }
            Err(error) => tracing::warn!(%error, "a split or merge cannot go on now"),
        }
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

/// Splits an entity with at least `hot.split_rate` writes per second. One at a time: the others are still hot in the next round.
async fn split_over(config: &Arc<Config>, store: &Store, threshold: &mut Threshold) {
    let settings = &config.hot;
    let entity = match threshold.next(store, settings).await {
        Ok(Some(entity)) => entity,
        Ok(None) => return,
        Err(error) => {
            tracing::debug!(%error, "hot entities cannot be read now");
            return;
        }
    };
    let splitter = Splitter::new(config, store.clone(), GRACE, &Silent);
    let shards = settings.split_shards;
    match splitter.split(&entity, shards).await {
        Ok(_) => {
            tracing::info!(etype = %entity.etype, eid = %entity.eid, shards, "split a hot entity");
        }
        Err(error) => {
            tracing::warn!(%error, etype = %entity.etype, eid = %entity.eid, "a hot entity cannot be split");
            threshold.refuse(entity);
        }
    }
}
