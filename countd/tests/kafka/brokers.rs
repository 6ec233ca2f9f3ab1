//! Real brokers with one `countd all`.

use super::{PARTITIONS, assert_equals_records, read, start};
use crate::support::kafka::{Brokers, Topic, config, wait_until_counted};
use crate::support::stores::{TestStore, module};
use crate::support::{Api, Countd};

/// Brokers, Redis, and one `countd all`.
pub struct RealSetup {
    pub topic: Topic,
    pub countd: Countd,
    pub store: TestStore,
    pub config: String,
    pub brokers: Brokers,
}

impl RealSetup {
    /// With further lines of the section `[kafka]`.
    pub fn start(brokers: Brokers, more: &str) -> RealSetup {
        let store = module();
        let config = config(&brokers.addresses(), PARTITIONS, more);
        RealSetup {
            topic: brokers.topic(),
            countd: start(&store, &config, "all"),
            store,
            config,
            brokers,
        }
    }

    pub fn api(&self) -> Api {
        self.countd.api()
    }

    /// Produces 400 reads of 40 notes.
    pub fn produce(&self, round: u64) {
        let records: Vec<_> = (0..400).map(|i| read(i % 40, round * 1000 + i)).collect();
        self.topic.produce(&records);
    }

    /// Waits until all records are counted, and asserts that the counters are their sums.
    #[track_caller]
    pub fn assert_exact(&self) {
        let records = wait_until_counted(&self.store, &self.topic, PARTITIONS);
        assert_equals_records(&self.api(), &records);
    }
}
