//! What is asked: the load, the machines, and a deployment.

use serde::Serialize;

/// The load, at its peak.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Entities with counters.
    pub entities: f64,
    /// Actions per second.
    pub actions: f64,
    /// Read requests per second.
    pub reads: f64,
    /// Actions in a request: 1 is `POST /action/{metric}`, more are `POST /actions`.
    pub lines: f64,
    /// Entities in a read request: 1 is `GET /counter`, more are `POST /counter/batch` or `POST /feed`.
    pub page: f64,
    /// Whether reads return the statuses of a user, too (`POST /feed`).
    pub statuses: bool,
    /// The share of actions that record a fact, 0 to 1. The others are repeatable.
    pub once: f64,
    /// Facts of an entity, on average.
    pub facts: f64,
    /// Counters of an entity.
    pub metrics: f64,
    /// How counters are stored.
    pub storage: Stored,
    /// The share of actions and of reads that concern the hottest entity, 0 to 1.
    pub hot_share: f64,
    /// Whether the counters of hot entities are answered from the memory of countd (`hot.cache_ms`).
    pub hot_cache: bool,
    /// Seconds for which events are kept, in the topic of Kafka or in the archive.
    pub retention: f64,
    /// Seconds for which consumers may be away while actions go on.
    pub outage: f64,
    /// Where events are logged.
    pub log: LogKind,
    /// When a write is confirmed.
    pub ack: Confirmation,
}

impl Workload {
    /// Actions per second that are counted from the log.
    pub fn repeatable(&self) -> f64 {
        self.actions * (1.0 - self.once)
    }
}

/// How counters are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stored {
    /// As rows of tables, one table for each partition.
    Table,
    /// As an object each.
    Object,
}

/// Where events are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogKind {
    /// In streams of Redis.
    Streams,
    /// Repeatable events in a topic of Kafka, facts in streams of Redis and in the topic.
    Kafka,
}

/// When a write is confirmed: `redis.ack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confirmation {
    /// When the server has executed it.
    Memory,
    /// When it is on the disk.
    Fsync,
    /// When this many replicas have it.
    Replicas(u32),
}

/// The machines.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machines {
    /// Memory for one Redis server, in bytes.
    pub redis_memory: f64,
    /// The share of that memory that data may fill, 0 to 1. The rest is for copy-on-write while a snapshot is written, and for buffers.
    pub memory_target: f64,
    /// Replicas of each master.
    pub replicas: u32,
    /// Cores of a machine of countd, which runs one process.
    pub cores: usize,
    /// The share of a core or of a network that may be used, 0 to 1.
    pub target: f64,
    /// The network of a machine, in bytes per second in each direction.
    pub network: f64,
    /// Round-trip time between countd and Redis, in seconds.
    pub round_trip: f64,
    /// The disk of a broker, in bytes.
    pub broker_disk: f64,
    /// What a broker writes to its disk, in bytes per second.
    pub broker_writes: f64,
    /// Cores of a broker. They limit nothing unless the CPU time of brokers was measured.
    pub broker_cores: usize,
    /// Seconds for each request that its client uses of a core of countd; 0 unless clients run there, as in the benchmark of the model.
    pub client: f64,
}

/// How many of each there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    /// Masters of Redis. 1 is a server that is not in cluster mode.
    pub masters: usize,
    /// Machines of countd, each with one process.
    pub nodes: usize,
    /// Brokers of Kafka; 0 without it.
    pub brokers: usize,
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A small load.
    pub fn workload() -> Workload {
        Workload {
            entities: 1e6,
            actions: 1_000.0,
            reads: 2_000.0,
            lines: 1.0,
            page: 1.0,
            statuses: false,
            once: 0.5,
            facts: 10.0,
            metrics: 5.0,
            storage: Stored::Table,
            hot_share: 0.0,
            hot_cache: false,
            retention: 86_400.0,
            outage: 600.0,
            log: LogKind::Streams,
            ack: Confirmation::Memory,
        }
    }

    /// Usual machines.
    pub fn machines() -> Machines {
        Machines {
            redis_memory: 32e9,
            memory_target: 0.6,
            replicas: 1,
            cores: 8,
            target: 0.6,
            network: 1.25e9,
            round_trip: 200e-6,
            broker_disk: 4e12,
            broker_writes: 100e6,
            broker_cores: 8,
            client: 0.0,
        }
    }
}
