//! The keys of the sweep that verifies received counters.

use super::layout::Keys;
use super::partition::Partition;

impl Keys {
    /// The state of the sweep in a partition: a Hash. Without hash tags all partitions share one.
    pub fn sums_state(&self, partition: Partition) -> String {
        match self.tagged() {
            true => self.numbered("countd:sums", partition, ""),
            false => "countd:sums".to_owned(),
        }
    }

    /// The lock of the process that runs the sweep: a String with its token.
    pub fn sums_lock(&self) -> &'static str {
        "countd:sums:lock"
    }

    /// The sums of the users of a partition: a table with a row for each user.
    pub fn sum_table(&self, partition: Partition) -> String {
        self.numbered("usum", partition, "")
    }

    /// The sums of other users, and of all users of data without tables: a Hash (field: `{uid}:{idx}`).
    pub fn sum_hash(&self, partition: Partition) -> String {
        self.numbered("usumh", partition, "")
    }
}
