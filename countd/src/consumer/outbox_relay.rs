//! A outbox_relay: hands over what the outboxes of a worker's partitions hold, beside the counting. So a node that is gone holds up
//! what users there are to get, and nothing else.

use super::outbox::{UnavailableNodes, forward};
use super::{AT_ONCE, BACKOFF};
use crate::domain::error::StoreError;
use crate::domain::health::Health;
use crate::domain::health::PartitionPart;
use crate::domain::keys::Partition;
use crate::log::Streams;
use crate::redis::store::Store;
use futures_util::{StreamExt, stream};
use std::collections::BTreeSet;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// The worker's end of it.
pub struct OutboxRelay {
    owing: UnboundedSender<Partition>,
    task: JoinHandle<()>,
}

impl OutboxRelay {
    /// Starts one. Within a runtime of Tokio.
    pub fn start(store: Store, log: Streams, health: Health) -> OutboxRelay {
        let (owing, partitions) = unbounded_channel();
        let task = tokio::spawn(run(store, log, health, partitions));
        OutboxRelay { owing, task }
    }

    /// The outbox of a partition may hold something.
    pub fn notify(&self, partition: Partition) {
        // It ends after the worker alone.
        let _ = self.owing.send(partition);
    }

    /// Hands over what can be handed over now, and ends. What is left is for those who count its partition next.
    pub async fn finish(self) {
        drop(self.owing);
        if let Err(why) = self.task.await {
            tracing::error!(error = %why, "a outbox_relay broke");
        }
    }
}

async fn run(
    store: Store,
    log: Streams,
    health: Health,
    mut partitions: UnboundedReceiver<Partition>,
) {
    let mut owing = BTreeSet::new();
    let mut backoff = BACKOFF.0;
    loop {
        if owing.is_empty() {
            match partitions.recv().await {
                Some(partition) => owing.insert(partition),
                None => return,
            };
        }
        while let Ok(partition) = partitions.try_recv() {
            owing.insert(partition);
        }
        let Err(why) = round(&store, &log, &health, &mut owing).await else {
            backoff = BACKOFF.0;
            continue;
        };
        tracing::warn!(error = %why, partitions = owing.len(), "handing over has to wait");
        metrics::counter!("countd_consumer_retries_total").increment(1);
        if partitions.is_closed() && partitions.is_empty() {
            return;
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF.1);
    }
}

/// Hands over once for each partition. Those for which it failed stay, and the last failure is told.
async fn round(
    store: &Store,
    log: &Streams,
    health: &Health,
    owing: &mut BTreeSet<Partition>,
) -> Result<(), StoreError> {
    let all = std::mem::take(owing);
    let away = &UnavailableNodes::default();
    let tried = stream::iter(all)
        .map(|partition| async move { (partition, forward(store, log, partition, away).await) });
    let tried: Vec<_> = tried.buffer_unordered(AT_ONCE).collect().await;
    let mut last = Ok(());
    for (partition, done) in tried {
        match done {
            Ok(true) => health.recover(partition, PartitionPart::Delivery),
            Ok(false) => drop(owing.insert(partition)),
            Err(why) => {
                owing.insert(partition);
                if let StoreError::Unexpected(why) = &why {
                    health.fail(partition, PartitionPart::Delivery, why);
                }
                last = Err(why);
            }
        }
    }
    last
}
