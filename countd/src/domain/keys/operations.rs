//! The keys of the layout, processes, jobs, imports and audits.

use super::layout::Keys;
use super::partition::Partition;
use crate::domain::ids::{Id, Name};

/// The String that is written before waiting for acknowledgements.
pub(crate) const ACK: &str = "countd:ack";

/// [`ACK`] in the slot of the keys with this hash tag.
pub(crate) fn ack_key(tag: &str) -> String {
    format!("{ACK}:{{{tag}}}")
}

impl Keys {
    /// The immutable settings of the data, such as the number of partitions: a Hash.
    pub fn layout(&self) -> &'static str {
        "countd:layout"
    }

    /// The String that is written before waiting for acknowledgements. Without hash tags all partitions share one.
    pub fn ack(&self, partition: Partition) -> String {
        match self.tagged {
            true => ack_key(&partition.to_string()),
            false => ACK.to_owned(),
        }
    }

    /// The state of an import: a Hash.
    pub fn import_job(&self, job: &Name) -> String {
        format!("countd:import:{job}")
    }

    /// The sequence number of the last part that an import has applied in a partition: a Hash (field: `{partition}`). Without hash tags
    /// all partitions share one Hash.
    pub fn import_state(&self, job: &Name, partition: Partition) -> String {
        let prefix = format!("countd:import:{job}:state");
        match self.tagged {
            true => self.numbered(&prefix, partition, ""),
            false => prefix,
        }
    }

    /// The numeric IDs of the entities of a partition whose counts of a metric an import from a live source has applied. `scope` is
    /// the metric, or `all`.
    pub fn import_ids(&self, job: &Name, scope: &str, partition: Partition) -> String {
        self.numbered(&format!("countd:import:{job}:ids:{scope}"), partition, "")
    }

    /// The other IDs of these entities: a Set.
    pub fn import_names(&self, job: &Name, scope: &str, partition: Partition) -> String {
        self.numbered(&format!("countd:import:{job}:names:{scope}"), partition, "")
    }

    /// The jobs that have not ended: a Hash of their IDs by target. It shares a slot with the jobs.
    pub fn jobs(&self) -> &'static str {
        "countd:{jobs}"
    }

    /// A job: a Hash.
    pub fn job(&self, id: &Id) -> String {
        format!("{}:{id}", self.jobs())
    }

    /// The audit of corrections of counters: a stream. Without hash tags all partitions share one stream.
    pub fn audit(&self, partition: Partition) -> String {
        match self.tagged {
            true => self.numbered("x:audit:cntfix", partition, ""),
            false => "x:audit:cntfix".to_owned(),
        }
    }

    /// All audit streams.
    pub fn all_audits(&self) -> Vec<String> {
        let count = if self.tagged { self.partitions } else { 1 };
        (0..count).map(|partition| self.audit(partition)).collect()
    }

    /// The processes that use the data: a sorted set, scored by the expiry of their heartbeats.
    pub fn processes(&self) -> &'static str {
        "countd:processes"
    }

    /// The processes that report hot entities: a sorted set, scored by the expiry of their heartbeats.
    pub fn hot_processes(&self) -> &'static str {
        "countd:hot"
    }

    /// The hot entities that a process reports: a String that expires. `process` is its ID in [`hot_processes`](Self::hot_processes).
    pub fn hot_report(&self, process: &str) -> String {
        format!("{}:{process}", self.hot_processes())
    }

    /// The members of the consumer group: a sorted set, scored by the expiry of their heartbeats.
    pub fn consumers(&self) -> &'static str {
        "countd:consumers"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash::Crc16;
    use crate::domain::keys::testing::name;

    #[test]
    fn keys_of_operations_have_the_documented_form() {
        let keys = Keys::new(1024, false, Crc16);
        let job = Id::new("j1").expect("an ID");
        assert_eq!(keys.job(&job), "countd:{jobs}:j1");
        assert_eq!(keys.all_audits(), ["x:audit:cntfix"]);
        assert_eq!(keys.ack(7), "countd:ack");
        assert_eq!(keys.hot_report("1-a"), "countd:hot:1-a");
        assert_eq!(keys.import_state(&name("a"), 7), "countd:import:a:state");
        let keys = Keys::new(1024, true, Crc16);
        assert_eq!(keys.all_audits()[7], "x:audit:cntfix:{7}");
        assert_eq!(keys.ack(7), "countd:ack:{7}");
        assert_eq!(
            keys.import_state(&name("a"), 7),
            "countd:import:a:state:{7}"
        );
    }
}
