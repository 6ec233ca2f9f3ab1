//! The keys of the reconciliation of counters.

use super::layout::Keys;
use super::partition::Partition;
use crate::domain::ids::Id;

impl Keys {
    /// The progress of the reconciliation: a Hash with the number of the round and the cursors of the sweeps.
    pub fn reconciliation(&self) -> &'static str {
        "countd:reconcile"
    }

    /// The tables whose rows were lost and have to be rebuilt from facts: a Hash.
    pub fn lost_tables(&self) -> &'static str {
        "countd:lost-tables"
    }

    /// The lock of the reconciliation of a partition.
    pub fn reconciliation_lock(&self, partition: Partition) -> String {
        self.numbered("lock:reconcile", partition, "")
    }

    /// The counters that differed in the last rounds: a Hash. Without hash tags all partitions share one.
    pub fn drift(&self, partition: Partition) -> String {
        match self.tagged() {
            true => self.numbered("countd:drift", partition, ""),
            false => "countd:drift".to_owned(),
        }
    }

    /// The differences that processes have found in the last hours: a Hash.
    pub fn differences(&self) -> &'static str {
        "countd:differences"
    }

    /// What the checks with a report have found in a partition: a Hash that expires.
    pub fn check_report(&self, report: &Id, partition: Partition) -> String {
        self.numbered(&format!("countd:report:{report}"), partition, "")
    }
}
