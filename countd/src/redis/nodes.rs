//! The mapping of partitions to nodes.

use crate::domain::keys::{Keys, Partition, slot};
use crate::redis::cluster::SlotRanges;
use std::sync::Arc;

/// A snapshot of the mapping of partitions to nodes.
#[derive(Clone)]
pub struct NodeMap {
    keys: Keys,
    /// `None` on one server.
    ranges: Option<Arc<SlotRanges>>,
}

impl NodeMap {
    /// From the slot ranges of a cluster; `None` on one server.
    pub(super) fn new(keys: Keys, ranges: Option<Arc<SlotRanges>>) -> NodeMap {
        NodeMap { keys, ranges }
    }

    /// The number of nodes: 1 on one server. In a cluster it includes a pseudo-node for partitions whose slot has no master.
    pub fn node_count(&self) -> usize {
        self.ranges
            .as_ref()
            .map_or(1, |ranges| ranges.masters().len() + 1)
    }

    /// The index of the node that has a partition.
    pub fn node_of(&self, partition: Partition) -> usize {
        let Some(ranges) = &self.ranges else {
            return 0;
        };
        let slot = slot(self.keys.log(partition).as_bytes());
        ranges.master_of(slot).unwrap_or(ranges.masters().len())
    }

    /// Whether no slot has moved to another node between both.
    pub fn is_same(&self, other: &NodeMap) -> bool {
        match (&self.ranges, &other.ranges) {
            (Some(these), Some(those)) => these.is_same(those),
            (None, None) => true,
            _ => false,
        }
    }
}
