//! The nodes of a cluster, and which of them has which partitions.

use super::cluster::Commands;
use super::store::Store;
use crate::domain::error::StoreError;
use crate::domain::keys::{Keys, Partition, slot};
use crate::redis::cluster::Ranges;
use redis::aio::ConnectionManager;
use std::sync::Arc;

/// Who has which partitions, as it was known at a moment.
#[derive(Clone)]
pub struct NodeMap {
    keys: Keys,
    /// `None` where one server has everything.
    ranges: Option<Arc<Ranges>>,
}

impl Store {
    /// A connection to each server that has keys.
    ///
    /// # Errors
    /// An address is none.
    pub fn servers(&self) -> Result<Vec<ConnectionManager>, StoreError> {
        match &self.commands {
            Commands::One(server) => Ok(vec![server.clone()]),
            Commands::Many(cluster) => Ok(cluster.masters()?),
        }
    }

    /// Who has which partitions, as far as it is known now.
    pub fn places(&self) -> NodeMap {
        let ranges = match &self.commands {
            Commands::One(_) => None,
            Commands::Many(cluster) => Some(cluster.ranges()),
        };
        let keys = self.keys;
        NodeMap { keys, ranges }
    }
}

impl NodeMap {
    /// How many places there are: a server, or the nodes of a cluster and one more for partitions that nobody has.
    pub fn count(&self) -> usize {
        self.ranges
            .as_ref()
            .map_or(1, |ranges| ranges.masters().len() + 1)
    }

    /// Where a partition is: 0 is the first.
    pub fn of(&self, partition: Partition) -> usize {
        let Some(ranges) = &self.ranges else {
            return 0;
        };
        let slot = slot(self.keys.log(partition).as_bytes());
        let found = ranges.master_of(slot);
        found.unwrap_or(ranges.masters().len())
    }

    /// Whether nothing has changed since `other`.
    pub fn are(&self, other: &NodeMap) -> bool {
        match (&self.ranges, &other.ranges) {
            (Some(these), Some(those)) => Arc::ptr_eq(these, those),
            (None, None) => true,
            _ => false,
        }
    }
}
