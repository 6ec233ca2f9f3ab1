//! The brokers of Kafka. What a broker can do is an assumption, not a measurement: disks differ more than CPUs.

use super::placement::PARTITIONS;
use super::traffic::Networks;
use super::workload::{LogKind, Machines, Workload};

/// Copies of each record, of which two must be written before it is confirmed.
pub const REPLICATION: f64 = 3.0;
/// The fewest brokers that keep records available when one of them fails.
const FEWEST: usize = 3;
/// Bytes per second of a partition of a topic that one consumer reads easily.
const PARTITION_BYTES: f64 = 5e6;
/// The fewest partitions of a topic: consumers share them.
const FEWEST_PARTITIONS: usize = 64;

/// The share of its disk's space, of its disk's speed and of its network that each broker uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BrokerUse {
    /// The space of the disk.
    pub disk: f64,
    /// What the disk writes per second.
    pub writes: f64,
    /// The busier direction of the network.
    pub network: f64,
}

/// What a number of brokers use. Records are not compressed.
pub fn broker_use(
    workload: &Workload,
    machines: &Machines,
    networks: &Networks,
    brokers: usize,
) -> BrokerUse {
    let stored = networks.produced * REPLICATION;
    let each = |all: f64, of: f64| all / brokers.max(1) as f64 / of;
    BrokerUse {
        disk: each(stored * workload.retention, machines.broker_disk),
        writes: each(stored, machines.broker_writes),
        // A broker receives its copies; it sends records to consumers and to the other copies.
        network: each(stored, machines.network),
    }
}

/// The fewest brokers that use no more than the target. 0 if there is no topic.
pub fn fewest_brokers(workload: &Workload, machines: &Machines, networks: &Networks) -> usize {
    if workload.log == LogKind::Streams {
        return 0;
    }
    let one = broker_use(workload, machines, networks, 1);
    let needed = one.disk.max(one.writes).max(one.network) / machines.target;
    (needed.ceil() as usize).max(FEWEST)
}

/// The partitions of the topic: a power of two, up to the partitions of the data.
pub fn topic_partitions(networks: &Networks) -> usize {
    let needed = (networks.produced / PARTITION_BYTES).ceil() as usize;
    needed
        .max(FEWEST_PARTITIONS)
        .next_power_of_two()
        .min(PARTITIONS)
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Traffic;
    use super::super::workload::testing::{machines, workload};
    use super::*;

    fn networks(produced: f64) -> Networks {
        Networks {
            redis: Traffic::default(),
            countd: Traffic::default(),
            produced,
        }
    }

    #[test]
    fn brokers_follow_from_disks_and_networks() {
        let load = Workload {
            log: LogKind::Kafka,
            ..workload()
        };
        // 1 GB/s, three times: 3 GB/s for a day are 259.2 TB, 64.8 disks of 4 TB; 30 disks' speed.
        let used = broker_use(&load, &machines(), &networks(1e9), 1);
        assert!((used.disk - 64.8).abs() < 1e-9 && (used.writes - 30.0).abs() < 1e-9);
        assert!((used.network - 2.4).abs() < 1e-9);
        assert_eq!(fewest_brokers(&load, &machines(), &networks(1e9)), 108);
        assert_eq!(fewest_brokers(&load, &machines(), &networks(1.0)), 3);
        assert_eq!(fewest_brokers(&workload(), &machines(), &networks(1e9)), 0);
    }

    #[test]
    fn topics_have_a_power_of_two_of_partitions() {
        assert_eq!(topic_partitions(&networks(0.0)), 64);
        assert_eq!(topic_partitions(&networks(5e6 * 65.0)), 128);
        assert_eq!(topic_partitions(&networks(1e12)), 1_024);
    }
}
