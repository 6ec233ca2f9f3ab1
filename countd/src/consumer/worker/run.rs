//! The loop of a worker, with retries.

use super::super::backoff::Backoff;
use super::super::partition_health::{check_partitions, is_damage};
use super::state::Worker;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use std::time::Duration;
use tokio::sync::watch;

impl Worker {
    /// Polls until `stop` turns true, and then flushes.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut backoff = Backoff::new();
        while !*stop.borrow() {
            let delay = match self.poll(&mut stop).await {
                Ok(delay) => {
                    // Polls can succeed while commits fail, so only an empty accumulator resets the backoff.
                    if self.accumulator.is_empty() {
                        backoff.reset();
                    }
                    delay
                }
                // One damaged key must not block all partitions: failed partitions are excluded immediately.
                Err(error) if self.finds_failed_partitions(&error).await => {
                    tracing::warn!(%error, "excluding failed partitions");
                    self.reset();
                    Duration::ZERO
                }
                Err(error) => {
                    let delay = backoff.next_delay();
                    let backoff_ms = delay.as_millis() as u64;
                    tracing::warn!(%error, backoff_ms, "worker failed; will retry");
                    metrics::counter!("countd_consumer_retries_total").increment(1);
                    self.reset();
                    delay
                }
            };
            if !delay.is_zero() {
                tokio::select! {
                    () = tokio::time::sleep(delay) => {}
                    _ = stop.wait_for(|stop| *stop) => {}
                }
            }
        }
        self.advance_idle(true);
        if let Err(error) = self.flush().await {
            tracing::warn!(%error, "cannot flush before stopping; the next owner reads the entries again");
        }
        // No commit may follow for a long time.
        let overdue = self.partitions.all_overdue(&self.catalog.config.log);
        self.trim(overdue).await;
        self.outbox_relay.finish().await;
    }

    /// Checks the assigned partitions if the error hints at damage. Returns whether any have newly failed.
    async fn finds_failed_partitions(&mut self, error: &StoreError) -> bool {
        if !is_damage(error) && !matches!(error, StoreError::Unexpected(_)) {
            return false;
        }
        let assigned: Vec<Partition> = self.assignment.partitions().iter().copied().collect();
        let report = check_partitions(&self.store, &self.health, &assigned).await;
        report.newly_failed > 0
    }
}
