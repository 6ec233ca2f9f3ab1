//! The keys of the event archive and of restores.

use super::layout::Keys;
use super::partition::Partition;

impl Keys {
    /// How far logs are archived: a Hash (field: the partition). Without hash tags all partitions share one Hash.
    pub fn archived(&self, partition: Partition) -> String {
        match self.tagged() {
            true => self.numbered("x:cnt-update", partition, ":archive"),
            false => "x:cnt-update:archive".to_owned(),
        }
    }

    /// The outcomes of entries of a partition that were not counted and are not archived yet: a Hash (field: the offset).
    pub fn outcomes(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, ":out-of-count")
    }

    /// The stream that takes the events of facts that are restored. It is deleted at once.
    pub fn restored_events(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, ":restored")
    }

    /// The counters of users of a partition whose journal entries a restore has applied: a Hash.
    pub fn settled(&self, partition: Partition) -> String {
        self.numbered("countd:settled", partition, "")
    }

    /// The state of a restore: a Hash.
    pub fn restore(&self) -> &'static str {
        "countd:restore"
    }
}
