//! What a deployment uses of what it has, and what it has too little of first.

use super::brokers::broker_use;
use super::kafka::KafkaCosts;
use super::memory::Memory;
use super::placement::PARTITIONS;
use super::stations::Stations;
use super::traffic::Networks;
use super::workload::{Deployment, LogKind, Machines, Workload};
use serde::Serialize;

/// Something that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// The core of the busiest master.
    RedisCpu,
    /// The core of the master of the hottest entity, by that entity alone. More masters do not help.
    HotEntity,
    /// The memory of the busiest master.
    RedisMemory,
    /// The network of the busiest master.
    RedisNetwork,
    /// The cores of countd.
    CountdCpu,
    /// The network of a machine of countd.
    CountdNetwork,
    /// The space of the disks of brokers.
    BrokerDisk,
    /// The speed of the disks of brokers.
    BrokerWrites,
    /// The network of a broker.
    BrokerNetwork,
    /// The cores of brokers, if their CPU time was measured.
    BrokerCpu,
    /// Masters: at most one for each partition.
    Partitions,
}

impl Resource {
    /// Its name for people.
    pub fn label(self) -> &'static str {
        match self {
            Resource::RedisCpu => "CPU of the busiest Redis master",
            Resource::HotEntity => "CPU of one Redis master for the hottest entity",
            Resource::RedisMemory => "memory of the busiest Redis master",
            Resource::RedisNetwork => "network of the busiest Redis master",
            Resource::CountdCpu => "CPU of countd",
            Resource::CountdNetwork => "network of countd",
            Resource::BrokerDisk => "disk space of the brokers",
            Resource::BrokerWrites => "disk writes of the brokers",
            Resource::BrokerNetwork => "network of the brokers",
            Resource::BrokerCpu => "CPU of the brokers",
            Resource::Partitions => "number of masters (at most one per partition)",
        }
    }
}

/// How much of a resource is used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// The resource.
    pub resource: Resource,
    /// The share that is used; above 1 if there is too little.
    pub used: f64,
    /// The part of it that does not grow with the load.
    pub constant: f64,
}

impl Limit {
    /// The headroom: the factor by which the load (for memory: the data) can grow. It is a little too low: of more events, more share a
    /// partition in a commit.
    pub fn growth(&self) -> f64 {
        (1.0 - self.constant) / (self.used - self.constant)
    }
}

/// The parts of a deployment that its limits follow from.
pub struct Parts<'a> {
    /// The load.
    pub workload: &'a Workload,
    /// The machines.
    pub machines: &'a Machines,
    /// The deployment.
    pub deployment: Deployment,
    /// The queues.
    pub stations: &'a Stations,
    /// The memory of all masters.
    pub memory: &'a Memory,
    /// The networks.
    pub networks: &'a Networks,
    /// The share of partitions that the busiest master has.
    pub share: f64,
    /// The costs of Kafka, if they were measured.
    pub kafka: Option<KafkaCosts>,
}

/// The limits, the one that is reached first at the beginning.
pub fn limits(parts: &Parts) -> Vec<Limit> {
    let Parts {
        workload,
        machines,
        deployment,
        stations,
        memory,
        networks,
        share,
        kafka,
    } = parts;
    let nodes = deployment.nodes.max(1) as f64;
    let busiest = workload.hot_share + (1.0 - workload.hot_share) * share;
    let mut used = vec![
        (Resource::RedisCpu, stations.redis.utilization()),
        (Resource::HotEntity, stations.hot),
        (
            Resource::RedisMemory,
            memory.total() * share / machines.redis_memory,
        ),
        (
            Resource::RedisNetwork,
            networks.redis.busier() * busiest / machines.network,
        ),
        (Resource::CountdCpu, stations.countd.utilization()),
        (
            Resource::CountdNetwork,
            networks.countd.busier() / nodes / machines.network,
        ),
        (
            Resource::Partitions,
            deployment.masters as f64 / PARTITIONS as f64,
        ),
    ];
    if workload.log == LogKind::Kafka {
        let brokers = broker_use(workload, machines, networks, deployment.brokers, *kafka);
        used.extend([
            (Resource::BrokerDisk, brokers.disk),
            (Resource::BrokerWrites, brokers.writes),
            (Resource::BrokerNetwork, brokers.network),
            (Resource::BrokerCpu, brokers.cpu),
        ]);
    }
    let mut limits: Vec<Limit> = used
        .into_iter()
        .filter(|(_, used)| *used > 0.0)
        .map(|(resource, used)| {
            let constant = match resource {
                Resource::RedisCpu => stations.redis.constant_share(),
                Resource::CountdCpu => stations.countd.constant_share(),
                _ => 0.0,
            };
            Limit {
                resource,
                used,
                constant,
            }
        })
        .collect();
    limits.sort_by(|a, b| a.growth().total_cmp(&b.growth()));
    limits
}
