//! The partitions of a worker: a part of the process's partitions, all on one node, so that an unavailable node blocks only its own
//! workers.

use super::membership::unit_of;
use crate::domain::keys::Partition;
use crate::redis::store::{NodeMap, Store};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::watch;

/// The partitions assigned to this process. Changes with each rebalance.
pub type AssignedPartitions = watch::Receiver<Arc<Vec<Partition>>>;

/// The assignment of one worker.
pub struct WorkerAssignment {
    store: Store,
    assigned: AssignedPartitions,
    worker: usize,
    workers_per_node: usize,
    /// The number of partitions of the topic, if the log is in Kafka.
    topic_partitions: Option<u16>,
    /// The node map and the process's assignment from which `partitions` was computed.
    computed_from: Option<(NodeMap, Arc<Vec<Partition>>)>,
    partitions: HashSet<Partition>,
}

impl WorkerAssignment {
    /// The assignment of the worker with this number, in a process that has `workers_per_node` workers for each node. Partitions that share one
    /// of the topic's `topic_partitions` have the same worker of their node.
    pub fn new(
        store: Store,
        assigned: AssignedPartitions,
        worker: usize,
        (workers_per_node, topic_partitions): (u16, Option<u16>),
    ) -> WorkerAssignment {
        WorkerAssignment {
            store,
            assigned,
            worker,
            workers_per_node: usize::from(workers_per_node),
            topic_partitions,
            computed_from: None,
            partitions: HashSet::new(),
        }
    }

    /// Waits for a rebalance.
    pub async fn changed(&mut self) {
        if self.assigned.changed().await.is_err() {
            // The process stops.
            std::future::pending().await
        }
    }

    /// The worker's partitions now. Computed again after a rebalance, or when slots have moved to another node.
    pub fn partitions(&mut self) -> &HashSet<Partition> {
        let nodes = self.store.node_map();
        let assigned = Arc::clone(&self.assigned.borrow());
        let is_current = |(of_nodes, of_assigned): &(NodeMap, Arc<Vec<Partition>>)| {
            of_nodes.is_same(&nodes) && Arc::ptr_eq(of_assigned, &assigned)
        };
        if !self.computed_from.as_ref().is_some_and(is_current) {
            let is_own = |partition: &&Partition| {
                let unit = unit_of(**partition, self.topic_partitions);
                let worker_on_node = usize::from(unit) % self.workers_per_node;
                nodes.node_of(**partition) * self.workers_per_node + worker_on_node == self.worker
            };
            self.partitions = assigned.iter().filter(is_own).copied().collect();
            self.computed_from = Some((nodes, assigned));
        }
        &self.partitions
    }
}
