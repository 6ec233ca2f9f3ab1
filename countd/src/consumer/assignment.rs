//! Which partitions a worker has: of those of its process some of one node, so that a node that is gone holds up no other.

use crate::domain::keys::Partition;
use crate::redis::store::{NodeMap, Store};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::watch;

/// What the process has.
pub type AssignedPartitions = watch::Receiver<Arc<Vec<Partition>>>;

/// A worker's part of it.
pub struct WorkerAssignment {
    store: Store,
    share: AssignedPartitions,
    number: usize,
    /// Of each node.
    workers: usize,
    /// What its partitions follow from, and which they are.
    known: Option<(NodeMap, Arc<Vec<Partition>>)>,
    mine: HashSet<Partition>,
}

impl WorkerAssignment {
    /// The `number`th of a process that has so many workers for each node.
    pub fn new(
        store: Store,
        share: AssignedPartitions,
        (number, workers): (usize, u16),
    ) -> WorkerAssignment {
        WorkerAssignment {
            store,
            share,
            number,
            workers: usize::from(workers),
            known: None,
            mine: HashSet::new(),
        }
    }

    /// Its partitions now.
    pub fn partitions(&mut self) -> &HashSet<Partition> {
        let places = self.store.node_map();
        let share = Arc::clone(&self.share.borrow());
        let is_known = |(of, known): &(NodeMap, Arc<Vec<Partition>>)| {
            of.is_same(&places) && Arc::ptr_eq(known, &share)
        };
        if !self.known.as_ref().is_some_and(is_known) {
            let is_mine = |partition: &&Partition| {
                let part = usize::from(**partition) % self.workers;
                places.node_of(**partition) * self.workers + part == self.number
            };
            self.mine = share.iter().filter(is_mine).copied().collect();
            self.known = Some((places, share));
        }
        &self.mine
    }
}
