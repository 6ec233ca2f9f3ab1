//! The consumer: reads the log, adds events up, counts them, exactly once.
//!
//! The position of a partition lies beside its counters. A batch is one script that first compares the position with the one from
//! which the batch was read, and then counts and moves it. So it does not matter how often a batch is read, by whom, or where
//! somebody died: it counts once.

mod batch;
mod commit;
mod courier;
mod gathered;
mod handover;
mod lane;
mod members;
mod position;
mod strangers;
mod tally;
mod worker;

use crate::event::now_ms;
use crate::facts::fold;
use crate::keys::Partition;
use crate::log::{FIRST_READ, Log, Streams};
use crate::service::Service;
use crate::store::StoreError;
use members::Member;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use worker::Worker;

pub(crate) use tally::is_to_count;

/// After a failure: so long at first, then twice as long each time, up to the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Steps that a worker does at the same time. More would only queue up at the server until replies count as lost.
const AT_ONCE: usize = 16;

/// Counts until `stop` turns true; then every worker finishes its batch.
pub async fn run(service: Service, mut stop: watch::Receiver<bool>) {
    let settings = &service.config.consumer;
    let member = Member::new(
        service.store.clone(),
        Duration::from_millis(settings.dead_after_ms),
    );
    tracing::info!(
        consumer = member.name(),
        workers = settings.workers,
        "counting"
    );
    let (shares, share) = watch::channel(Arc::new(Vec::new()));
    let mut workers = JoinSet::new();
    workers.spawn(fold::run(service.clone(), share.clone(), stop.clone()));
    let mut next = 0;
    let mut log = Streams::new(service.store.clone(), &service.config);
    loop {
        // A cluster may get further nodes.
        while next < service.store.places().count() * usize::from(settings.workers) {
            let worker = Worker::new(service.clone(), next, share.clone());
            workers.spawn(worker.run(stop.clone()));
            next += 1;
        }
        match member.heartbeat().await {
            Ok(mine) => {
                shares.send_if_modified(|share| {
                    let changed = **share != mine;
                    if changed {
                        tracing::info!(partitions = mine.len(), "partitions assigned");
                        *share = Arc::new(mine.clone());
                    }
                    changed
                });
            }
            // What it has, it keeps: nobody can be harmed.
            Err(why) => tracing::warn!(error = %why, "no heartbeat"),
        }
        let mine = Arc::clone(&shares.borrow());
        measure(&service, &mut log, &mine).await;
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

/// What waits to be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// How many entries.
    pub events: u64,
    /// When the oldest of them happened, in milliseconds since 1970, as far as the first of each partition says so.
    pub oldest: Option<u64>,
}

/// What of these partitions waits to be counted.
///
/// # Errors
/// The store cannot be asked.
pub async fn lag<L: Log>(
    service: &Service,
    log: &mut L,
    partitions: &[Partition],
) -> Result<Lag, StoreError> {
    let ends = log.ends(partitions).await?;
    let counted = position::next_offsets(&service.store, partitions).await?;
    let mut lag = Lag::default();
    let mut late = Vec::new();
    for ((partition, end), next) in partitions.iter().zip(ends).zip(counted) {
        // Of entries that are to be renumbered there is one at least.
        let waiting = end.map_or(1, |end| end.saturating_sub(next));
        lag.events += waiting;
        late.extend((waiting > 0).then_some((*partition, next)));
    }
    if late.is_empty() {
        return Ok(lag);
    }
    // A few at a time, since entries may be long. Of those that are very long not all are read.
    for some in late.chunks(FIRST_READ) {
        let first = log.read(some, 1, Duration::ZERO).await?;
        let entries = first.iter().flat_map(|found| &found.entries);
        let oldest = entries.filter_map(tally::happened).min();
        lag.oldest = [lag.oldest, oldest].into_iter().flatten().min();
    }
    Ok(lag)
}

async fn measure(service: &Service, log: &mut Streams, mine: &[Partition]) {
    match lag(service, log, mine).await {
        Ok(lag) => {
            metrics::gauge!("countd_lag_events").set(lag.events as f64);
            let age = lag
                .oldest
                .map_or(0, |oldest| now_ms().saturating_sub(oldest));
            metrics::gauge!("countd_lag_seconds").set(age as f64 / 1000.0);
        }
        Err(why) => tracing::warn!(error = %why, "the lag is unknown"),
    }
}
