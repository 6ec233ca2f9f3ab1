//! The brokers of Kafka. What the disk of a broker can do is an assumption, not a measurement: disks differ more than CPUs. The CPU time of
//! brokers is known only if a run of the benchmarks has measured it.

use super::kafka::KafkaCosts;
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

/// The share of its disk's space, of its disk's speed, of its network and of its cores that each broker uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BrokerUse {
    /// The space of the disk.
    pub disk: f64,
    /// What the disk writes per second.
    pub writes: f64,
    /// The busier direction of the network.
    pub network: f64,
    /// The cores; 0 if the CPU time of brokers was not measured.
    pub cpu: f64,
}

/// What a number of brokers use. Records are not compressed.
pub fn broker_use(
    workload: &Workload,
    machines: &Machines,
    networks: &Networks,
    brokers: usize,
    kafka: Option<KafkaCosts>,
) -> BrokerUse {
    let stored = networks.produced * REPLICATION;
    // Replication was not measured: a follower is taken to need as much for its copy as the leader for the record.
    let cpu = kafka.map_or(0.0, |kafka| kafka.append * REPLICATION + kafka.fetch);
    let each = |all: f64, of: f64| all / brokers.max(1) as f64 / of;
    BrokerUse {
        disk: each(stored * workload.retention, machines.broker_disk),
        writes: each(stored, machines.broker_writes),
        // A broker receives its copies; it sends records to consumers and to the other copies.
        network: each(stored, machines.network),
        cpu: each(workload.actions * cpu, machines.broker_cores as f64),
    }
}

/// The fewest brokers that use no more than the target. 0 if there is no topic.
pub fn fewest_brokers(
    workload: &Workload,
    machines: &Machines,
    networks: &Networks,
    kafka: Option<KafkaCosts>,
) -> usize {
    if workload.log == LogKind::Streams {
        return 0;
    }
    let one = broker_use(workload, machines, networks, 1, kafka);
    let most = one.disk.max(one.writes).max(one.network).max(one.cpu);
    let needed = most / machines.target;
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
    use super::super::figures::Figures;
    use super::super::kafka::testing::measured;
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
        let used = broker_use(&load, &machines(), &networks(1e9), 1, None);
        assert!((used.disk - 64.8).abs() < 1e-9 && (used.writes - 30.0).abs() < 1e-9);
        assert!((used.network - 2.4).abs() < 1e-9);
        assert_eq!(used.cpu, 0.0);
        let fewest = |load: &Workload, produced: f64| {
            fewest_brokers(load, &machines(), &networks(produced), None)
        };
        assert_eq!(fewest(&load, 1e9), 108);
        assert_eq!(fewest(&load, 1.0), 3);
        assert_eq!(fewest(&workload(), 1e9), 0);
    }

    #[test]
    fn brokers_follow_from_their_cores_if_their_cpu_time_was_measured() {
        let load = Workload {
            log: LogKind::Kafka,
            actions: 1e7,
            ..workload()
        };
        let figures = measured(Figures::parse("{}").expect("figures"));
        let kafka = KafkaCosts::of(&figures, &load);
        // Three times 2 µs and 1 µs for each of 10M events: 70 cores, which are 8.75 brokers of 8 cores.
        let used = broker_use(&load, &machines(), &networks(1.0), 1, kafka);
        assert!((used.cpu - 8.75).abs() < 1e-9);
        let fewest = |kafka| fewest_brokers(&load, &machines(), &networks(1.0), kafka);
        assert_eq!((fewest(kafka), fewest(None)), (15, 3));
    }

    #[test]
    fn topics_have_a_power_of_two_of_partitions() {
        assert_eq!(topic_partitions(&networks(0.0)), 64);
        assert_eq!(topic_partitions(&networks(5e6 * 65.0)), 128);
        assert_eq!(topic_partitions(&networks(1e12)), 1_024);
    }
}
