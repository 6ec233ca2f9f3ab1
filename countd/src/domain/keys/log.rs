//! The keys of the event log, and the streams that announce changes.

use super::layout::Keys;
use super::partition::Partition;

impl Keys {
    /// The stream that announces changed counters. Without hash tags all partitions share one stream.
    pub fn changes(&self, partition: Partition) -> String {
        self.tag("x:changes".to_owned(), partition)
    }

    /// The number of streams that announce changed counters.
    pub fn change_streams(&self) -> u16 {
        if self.tagged { self.partitions } else { 1 }
    }

    /// All streams that announce changed counters.
    pub fn all_changes(&self) -> Vec<String> {
        let partitions = 0..self.change_streams();
        partitions
            .map(|partition| self.changes(partition))
            .collect()
    }

    /// The log of a partition: a stream with the entry IDs 0-1, 0-2, 0-3 ...
    pub fn log(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, "")
    }

    /// The stream that replaces a log while its entries are renumbered.
    pub fn new_log(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, ":new")
    }

    /// The stream that replaces a log that is reset.
    pub fn reset_log(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, ":reset")
    }

    /// A Hash with the position of a partition (field: `{partition}`) and the fences of its source partitions (field:
    /// `{partition}:{source}`). Without hash tags all partitions share one Hash.
    pub fn position(&self, partition: Partition) -> String {
        if self.tagged {
            self.numbered("x:cnt-update", partition, ":pos")
        } else {
            "x:cnt-update:pos".to_owned()
        }
    }

    /// The outbox of a partition: a stream of derived events to be forwarded to other partitions.
    pub fn outbox(&self, partition: Partition) -> String {
        self.numbered("x:cnt-update", partition, ":out")
    }

    /// The dead-letter stream of a partition. Without hash tags all partitions share one stream.
    pub fn dead(&self, partition: Partition) -> String {
        if self.tagged {
            self.numbered("x:cnt-update", partition, ":dead")
        } else {
            "x:cnt-update:dead".to_owned()
        }
    }

    /// All dead-letter streams.
    pub fn all_dead(&self) -> Vec<String> {
        let count = if self.tagged { self.partitions } else { 1 };
        (0..count).map(|partition| self.dead(partition)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash::Crc16;

    #[test]
    fn keys_of_the_log_have_the_documented_form() {
        let keys = Keys::new(1024, false, Crc16);
        assert_eq!(keys.log(7), "x:cnt-update:7");
        assert_eq!(keys.position(7), "x:cnt-update:pos");
        assert_eq!(keys.dead(7), "x:cnt-update:dead");
        assert_eq!(keys.all_changes(), ["x:changes"]);
        let keys = Keys::new(1024, true, Crc16);
        assert_eq!(keys.log(7), "x:cnt-update:{7}");
        assert_eq!(keys.position(7), "x:cnt-update:{7}:pos");
        assert_eq!(keys.dead(7), "x:cnt-update:{7}:dead");
        assert_eq!(keys.all_dead().len(), 1024);
        assert_eq!(keys.all_changes()[7], "x:changes:{7}");
    }
}
