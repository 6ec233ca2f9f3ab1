//! The outbox relay: a task that forwards the outboxes of a worker's partitions. An unavailable node delays only the increments of
//! its own users, not the worker or other nodes.

use super::backoff::Backoff;
use super::outbox::{UnavailableNodes, forward};
use crate::domain::error::StoreError;
use crate::domain::health::{Health, PartitionPart};
use crate::domain::keys::Partition;
use crate::log::Streams;
use crate::redis::store::Store;
use futures_util::{StreamExt, stream};
use std::collections::BTreeSet;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// The number of partitions forwarded concurrently. More would queue at the server until replies time out.
const MAX_IN_FLIGHT: usize = 16;

/// The worker's handle of its relay.
pub struct OutboxRelay {
    partitions: UnboundedSender<Partition>,
    task: JoinHandle<()>,
}

impl OutboxRelay {
    /// Spawns the task. Must be called within a Tokio runtime.
    pub fn start(store: Store, log: Streams, health: Health) -> OutboxRelay {
        let (partitions, receiver) = unbounded_channel();
        let task = tokio::spawn(run(store, log, health, receiver));
        OutboxRelay { partitions, task }
    }

    /// Tells the relay that the outbox of a partition has entries.
    pub fn notify(&self, partition: Partition) {
        // The receiver outlives the worker, unless the task has panicked.
        let _ = self.partitions.send(partition);
    }

    /// Forwards the pending outboxes once and stops. The next owners of the partitions forward the remaining entries.
    pub async fn finish(self) {
        drop(self.partitions);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the outbox relay panicked");
        }
    }
}

async fn run(
    store: Store,
    log: Streams,
    health: Health,
    mut partitions: UnboundedReceiver<Partition>,
) {
    let mut pending = BTreeSet::new();
    let mut backoff = Backoff::new();
    loop {
        if pending.is_empty() {
            match partitions.recv().await {
                Some(partition) => pending.insert(partition),
                None => return,
            };
        }
        while let Ok(partition) = partitions.try_recv() {
            pending.insert(partition);
        }
        let Err(error) = forward_pending(&store, &log, &health, &mut pending).await else {
            backoff.reset();
            continue;
        };
        tracing::warn!(%error, partitions = pending.len(), "cannot forward outboxes; will retry");
        metrics::counter!("countd_consumer_retries_total").increment(1);
        if partitions.is_closed() && partitions.is_empty() {
            return;
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

/// Forwards each pending outbox once. Partitions with undelivered entries stay pending.
///
/// # Errors
/// The last failure, if there was one.
async fn forward_pending(
    store: &Store,
    log: &Streams,
    health: &Health,
    pending: &mut BTreeSet<Partition>,
) -> Result<(), StoreError> {
    let unavailable = &UnavailableNodes::default();
    let forwards = stream::iter(std::mem::take(pending)).map(|partition| async move {
        let result = forward(store, log, partition, unavailable).await;
        (partition, result)
    });
    let results: Vec<_> = forwards.buffer_unordered(MAX_IN_FLIGHT).collect().await;
    let mut last_failure = Ok(());
    for (partition, result) in results {
        match result {
            Ok(true) => health.recover(partition, PartitionPart::Delivery),
            Ok(false) => drop(pending.insert(partition)),
            Err(error) => {
                pending.insert(partition);
                if let StoreError::Unexpected(reason) = &error {
                    health.fail(partition, PartitionPart::Delivery, reason);
                }
                last_failure = Err(error);
            }
        }
    }
    last_failure
}
