//! The consumer: reads the log, adds events up, counts them, exactly once.
//!
//! The position of a partition lies beside its counters. A batch is one script that first compares the position with the one from
//! which the batch was read, and then counts and moves it. So it does not matter how often a batch is read, by whom, or where
//! somebody died: it counts once.

mod accumulator;
mod aggregator;
mod assignment;
mod batch;
mod commit;
mod measure;
mod membership;
mod outbox;
mod outbox_relay;
mod permissions;
mod position;
mod schemas;
mod strangers;
mod survey;
mod worker;

use crate::domain::config::Config;
use crate::domain::error::StoreError;
use crate::domain::health::Health;
use crate::facts::compaction;
use crate::log::Streams;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use assignment::AssignedPartitions;
use measure::{measure, show};
use membership::GroupMember;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use worker::Worker;

pub(crate) use aggregator::is_to_count;
pub use permissions::required_permissions;

/// After a failure: so long at first, then twice as long each time, up to the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Steps that a worker does at the same time. More would only queue up at the server until replies count as lost.
const AT_ONCE: usize = 16;

/// Counts until `stop` turns true; then every worker finishes its batch.
pub async fn run(
    config: Arc<Config>,
    store: Store,
    health: Health,
    mut stop: watch::Receiver<bool>,
) {
    let settings = &config.consumer;
    let catalog = Catalog::new(Arc::clone(&config), store.clone());
    let member = GroupMember::new(store.clone(), Duration::from_millis(settings.dead_after_ms));
    tracing::info!(
        consumer = member.name(),
        workers = settings.workers,
        "counting"
    );
    let (shares, share) = watch::channel(Arc::new(Vec::new()));
    let mut workers = JoinSet::new();
    workers.spawn(compaction::run(
        store.clone(),
        Arc::clone(&config),
        share.clone(),
        stop.clone(),
    ));
    let (mut next, mut is_measured) = (0, false);
    show(None, None);
    loop {
        // A cluster may get further nodes.
        while next < store.node_map().node_count() * usize::from(settings.workers) {
            let worker = Worker::new(
                store.clone(),
                catalog.clone(),
                health.clone(),
                next,
                share.clone(),
            );
            workers.spawn(worker.run(stop.clone()));
            next += 1;
        }
        match member.heartbeat().await {
            Ok(mine) => {
                health.consumer(None);
                health.keep(|partition| mine.contains(&partition));
                shares.send_if_modified(|share| {
                    let changed = **share != mine;
                    if changed {
                        tracing::info!(partitions = mine.len(), "partitions assigned");
                        *share = Arc::new(mine.clone());
                    }
                    changed
                });
                // Before this nobody knows what waits.
                if !is_measured {
                    let interval = member.interval();
                    workers.spawn(observe(
                        store.clone(),
                        health.clone(),
                        Streams::new(store.clone(), &config),
                        share.clone(),
                        interval,
                        stop.clone(),
                    ));
                    is_measured = true;
                }
            }
            // What it has, it keeps: nobody can be harmed.
            Err(why) => {
                tracing::warn!(error = %why, "no heartbeat");
                let is_passing = matches!(why, StoreError::Unavailable(_));
                let problem = (!is_passing).then(|| why.to_string());
                health.consumer(problem);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(member.interval()) => {}
            _ = stop.wait_for(|stop| *stop) => break,
        }
    }
    while let Some(ended) = workers.join_next().await {
        if let Err(why) = ended {
            tracing::error!(error = %why, "a worker broke");
        }
    }
    if let Err(why) = member.leave().await {
        tracing::warn!(error = %why, "left without a word");
    }
    tracing::info!("stopped counting");
}

/// Looks at what waits and what has failed, until `stop` turns true. Beside the heartbeats: on a slow server, or with a node that is
/// gone, a look takes so long that the consumer would count as dead.
async fn observe(
    store: Store,
    health: Health,
    mut log: Streams,
    share: AssignedPartitions,
    interval: Duration,
    mut stop: watch::Receiver<bool>,
) {
    let looking = async {
        loop {
            let mine = Arc::clone(&share.borrow());
            measure(&store, &health, &mut log, &mine).await;
            tokio::time::sleep(interval).await;
        }
    };
    tokio::select! {
        () = looking => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}
