//! Reports the consumer lag: the number of uncounted entries, and the age of the oldest.

use super::assignment::AssignedPartitions;
use super::decoder::decode;
use super::partition_health::{PartitionLag, check_partitions};
use super::topic_lag::WatchedTopic;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::health::Health;
use crate::domain::keys::Partition;
use crate::log::{EventLog, INITIAL_READ, Streams};
use crate::redis::store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Checks the assigned partitions and updates the gauges every `interval`, until `stop` turns true. It runs in its own task,
/// because a check of a slow or unavailable node can take longer than the heartbeat interval.
pub async fn report(
    store: Store,
    (health, topic): (Health, Option<WatchedTopic>),
    mut log: Streams,
    assigned: AssignedPartitions,
    interval: Duration,
    mut stop: watch::Receiver<bool>,
) {
    let reporting = async {
        loop {
            let partitions = Arc::clone(&assigned.borrow());
            update_gauges(&store, (&health, topic.as_ref()), &mut log, &partitions).await;
            tokio::time::sleep(interval).await;
        }
    };
    tokio::select! {
        () = reporting => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

async fn update_gauges(
    store: &Store,
    (health, topic): (&Health, Option<&WatchedTopic>),
    log: &mut Streams,
    partitions: &[Partition],
) {
    let lags = check_partitions(store, health, partitions).await.lags;
    if !health.failed().is_empty() {
        metrics::counter!("countd_consumer_retries_total").increment(1);
    }
    let is_known = lags.len() == partitions.len();
    let total: Option<u64> = is_known.then(|| lags.iter().map(|lag| lag.entries).sum());
    let lagging: Vec<(Partition, u64)> = lags
        .iter()
        .filter(|lag| lag.entries > 0)
        .map(
            |PartitionLag {
                 partition, next, ..
             }| (*partition, *next),
        )
        .collect();
    let age_ms = match oldest_timestamp(log, &lagging).await {
        Ok(oldest) => total.map(|_| oldest.map_or(0, |oldest| now_ms().saturating_sub(oldest))),
        Err(error) => {
            tracing::warn!(%error, "cannot read the age of the oldest waiting entry");
            None
        }
    };
    let of_topic = topic.map_or(Some(0), |topic| topic.lag(partitions));
    let total = total.zip(of_topic).map(|(streams, topic)| streams + topic);
    set_gauges(total, age_ms);
}

/// The oldest timestamp of the first uncounted entry of each partition, in milliseconds since 1970.
async fn oldest_timestamp<L: EventLog>(
    log: &mut L,
    lagging: &[(Partition, u64)],
) -> Result<Option<u64>, StoreError> {
    let mut oldest = None;
    // Entries can be long, so few are read at a time.
    for offsets in lagging.chunks(INITIAL_READ) {
        let first = log.read(offsets, 1, Duration::ZERO).await?;
        let entries = first.iter().flat_map(|read| &read.entries);
        let timestamps = entries.filter_map(|entry| decode(entry).timestamp());
        oldest = oldest.into_iter().chain(timestamps).min();
    }
    Ok(oldest)
}

/// Sets the gauges. `None` is unknown and is not exposed.
pub fn set_gauges(entries: Option<u64>, age_ms: Option<u64>) {
    let value = |known: Option<u64>| known.map_or(f64::NAN, |known| known as f64);
    metrics::gauge!("countd_lag_events").set(value(entries));
    metrics::gauge!("countd_lag_seconds").set(value(age_ms) / 1000.0);
}
