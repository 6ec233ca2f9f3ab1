//! What the metrics show of the consumer: the lag, and what was counted.

use super::aggregator;
use super::batch::Batch;
use super::survey::survey;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::health::Health;
use crate::domain::keys::Partition;
use crate::log::{EventLog, INITIAL_READ, Streams};
use crate::redis::store::Store;
use std::time::Duration;

/// Shows what of these partitions waits to be counted, as far as it is known, and which have failed.
pub async fn measure(store: &Store, health: &Health, log: &mut Streams, mine: &[Partition]) {
    let survey = survey(store, health, mine).await;
    if !health.failed().is_empty() {
        metrics::counter!("countd_consumer_retries_total").increment(1);
    }
    let waiting = survey.waiting.iter().map(|(_, _, waiting)| waiting).sum();
    let late = survey.waiting.iter().filter(|(_, _, waiting)| *waiting > 0);
    let late: Vec<(Partition, u64)> = late
        .map(|(partition, next, _)| (*partition, *next))
        .collect();
    let is_known = survey.waiting.len() == mine.len();
    let lag: Option<u64> = is_known.then_some(waiting);
    let age = match oldest(log, &late).await {
        Ok(oldest) => lag.map(|_| oldest.map_or(0, |oldest| now_ms().saturating_sub(oldest))),
        Err(why) => {
            tracing::warn!(error = %why, "the age of what waits is unknown");
            None
        }
    };
    show(lag, age);
}

/// When the oldest entry observe_timestamp that waits, in milliseconds since 1970, as far as the first of each partition says so.
async fn oldest<L: EventLog>(
    log: &mut L,
    late: &[(Partition, u64)],
) -> Result<Option<u64>, StoreError> {
    if late.is_empty() {
        return Ok(None);
    }
    let mut oldest = None;
    // A few at a time, since entries may be long. Of those that are very long not all are read.
    for some in late.chunks(INITIAL_READ) {
        let first = log.read(some, 1, Duration::ZERO).await?;
        let entries = first.iter().flat_map(|found| &found.entries);
        oldest = oldest
            .into_iter()
            .chain(entries.filter_map(aggregator::observe_timestamp))
            .min();
    }
    Ok(oldest)
}

/// Sets the gauges of the lag. `None` is unknown, and not shown.
pub fn show(lag: Option<u64>, age_ms: Option<u64>) {
    let number = |known: Option<u64>| known.map_or(f64::NAN, |known| known as f64);
    metrics::gauge!("countd_lag_events").set(number(lag));
    metrics::gauge!("countd_lag_seconds").set(number(age_ms) / 1000.0);
}

/// Counts what a batch was, which is counted.
pub fn record(batch: &Batch) {
    metrics::counter!("countd_events_applied_total").increment(batch.applied);
    metrics::counter!("countd_events_duplicated_total").increment(batch.repeated);
    metrics::counter!("countd_events_dead_total").increment(batch.dead.len() as u64);
    metrics::counter!("countd_commits_total").increment(1);
    metrics::counter!("countd_counter_writes_total").increment(batch.counters.len() as u64);
    let entries = batch.entries();
    metrics::histogram!("countd_batch_events").record(entries as f64);
    let commands = batch.commands() as f64 / entries.max(1) as f64;
    metrics::histogram!("countd_commands_per_event").record(commands);
    if let Some(oldest) = batch.oldest {
        let age = now_ms().saturating_sub(oldest);
        metrics::histogram!("countd_event_age_seconds").record(age as f64 / 1000.0);
    }
    // A flood of them is one line a batch.
    if let Some(first) = batch.dead.first() {
        let (count, partition, offset) = (batch.dead.len(), first.partition, first.offset);
        tracing::warn!(
            partition,
            count,
            offset,
            reason = first.reason,
            "dead letters"
        );
    }
}
