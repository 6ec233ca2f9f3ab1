//! The smallest deployment for a load, and what is known about it.

use super::brokers::{fewest_brokers, topic_partitions};
use super::costs::{Costs, MOST_MASTERS};
use super::figures::{Figures, FiguresError};
use super::kafka::{KafkaCosts, MeasuredKafka};
use super::latency::Latency;
use super::limits::{Limit, Parts, Resource, limits};
use super::memory::{self, Memory};
use super::placement::{PARTITIONS, Placement};
use super::stations::Stations;
use super::traffic::{Networks, networks};
use super::workload::{Deployment, LogKind, Machines, Workload};
use serde::Serialize;

/// Why there is no plan.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum SizingError {
    /// The figures cannot be used.
    #[error(transparent)]
    Figures(#[from] FiguresError),
    /// No number of masters bears the load.
    #[error("with {PARTITIONS} masters, the most that countd's partitions can use, {} is still used to {:.0} %", .0.resource.label(), .0.used * 100.0)]
    TooLarge(Limit),
}

/// Numbers that are given. The others are computed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed {
    /// Masters of Redis.
    pub masters: Option<usize>,
    /// Machines of countd.
    pub nodes: Option<usize>,
    /// Brokers of Kafka.
    pub brokers: Option<usize>,
}

/// A deployment and what it bears.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The numbers of masters, machines of countd, and brokers.
    pub deployment: Deployment,
    /// Redis servers: masters and their replicas.
    pub redis_servers: usize,
    /// What determines the number of masters, if it was computed and is more than one.
    pub masters_because: Option<Resource>,
    /// The number of masters if each had as many partitions.
    pub balanced_masters: Option<usize>,
    /// Partitions of the busiest master, of 1,024.
    pub busiest_partitions: usize,
    /// Partitions of the topic; 0 without Kafka.
    pub topic_partitions: usize,
    /// The memory of all masters together, in bytes.
    pub memory: Memory,
    /// The memory of the busiest master, in bytes.
    pub busiest_memory: f64,
    /// Bytes of the events that are kept: in the topic, all copies; or in the archive before compression.
    pub retained_bytes: f64,
    /// Cores that are busy: of all clients, of countd and of the busiest master.
    pub cores: Cores,
    /// Bytes per second of the busier direction: of the busiest master, and of a machine of countd.
    pub network: BusyNetworks,
    /// The latency of requests.
    pub latency: Latency,
    /// The limits, the one that is reached first at the beginning.
    pub limits: Vec<Limit>,
    /// Seconds for which moving the largest table blocks a master.
    pub table_move: f64,
    /// Seconds in which the busiest master loads its counters.
    pub load: f64,
    /// Whether the costs of a cluster were measured.
    pub measured_cluster: bool,
    /// Which costs of Kafka were measured.
    pub measured_kafka: MeasuredKafka,
    /// The error of the model, if a run of the benchmarks has measured it.
    pub model_error: Option<ModelError>,
}

/// Cores that are busy.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cores {
    /// Of all clients together.
    pub clients: f64,
    /// Of countd together.
    pub countd: f64,
    /// Of the busiest master.
    pub busiest_master: f64,
}

/// Bytes per second.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BusyNetworks {
    /// Of the busiest master.
    pub busiest_master: f64,
    /// Of a machine of countd.
    pub countd: f64,
}

/// The largest differences between the model and a measurement, in per cent of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelError {
    /// Of the CPU time of a request.
    pub cpu_percent: f64,
    /// Of the median of the latency.
    pub p50_percent: f64,
    /// Of its 99th percentile.
    pub p99_percent: f64,
}

impl ModelError {
    /// The error that the figures have for a log and a number of masters. Latencies were compared with one server and streams only.
    fn of(figures: &Figures, log: LogKind, masters: usize) -> Option<ModelError> {
        let error = |what: &str| figures.optional(&format!("countd.sizing.{what}-error-percent"));
        let of_deployment = match (log, masters) {
            (LogKind::Kafka, _) => error("kafka.cpu"),
            (LogKind::Streams, 2..) => error("cluster.cpu"),
            (LogKind::Streams, _) => None,
        };
        Some(ModelError {
            cpu_percent: of_deployment.or(error("cpu"))?,
            p50_percent: error("p50")?,
            p99_percent: error("p99")?,
        })
    }
}

/// Everything that does not depend on the number of machines.
struct Model<'a> {
    figures: &'a Figures,
    workload: &'a Workload,
    machines: &'a Machines,
    memory: Memory,
    networks: Networks,
    kafka: Option<KafkaCosts>,
}

/// The smallest deployment for a load, except for the numbers that are given.
///
/// # Errors
/// A figure is missing, or no number of masters bears the load.
pub fn plan(
    figures: &Figures,
    workload: &Workload,
    machines: &Machines,
    fixed: Fixed,
) -> Result<Plan, SizingError> {
    let model = Model {
        figures,
        workload,
        machines,
        memory: Memory::new(figures, workload)?,
        networks: networks(figures, workload, machines)?,
        kafka: KafkaCosts::of(figures, workload),
    };
    let placement = Placement::new();
    let (masters, because) = match fixed.masters {
        Some(masters) => (masters, None),
        None => model.fewest_masters(|masters| placement.busiest_share(masters))?,
    };
    let balanced = match fixed.masters {
        Some(_) => None,
        None => model.fewest_masters(|masters| 1.0 / masters as f64).ok(),
    };
    let share = placement.busiest_share(masters);
    let deployment = Deployment {
        masters,
        nodes: match fixed.nodes {
            Some(nodes) => nodes,
            None => model.fewest_nodes(masters)?,
        },
        brokers: match fixed.brokers {
            Some(brokers) if workload.log == LogKind::Kafka => brokers,
            _ => fewest_brokers(workload, machines, &model.networks, model.kafka),
        },
    };
    let costs = Costs::new(figures, workload, masters)?;
    let stations = Stations::new(workload, machines, &costs, deployment, share);
    let limits = model.limits(deployment, &stations, share);
    let used = |resource| {
        let found = limits.iter().find(|limit| limit.resource == resource);
        found.map_or(0.0, |limit| limit.used)
    };
    Ok(Plan {
        deployment,
        redis_servers: masters * (1 + machines.replicas as usize),
        masters_because: because,
        balanced_masters: balanced.map(|(masters, _)| masters),
        busiest_partitions: placement.most_partitions(masters),
        topic_partitions: match workload.log {
            LogKind::Streams => 0,
            LogKind::Kafka => topic_partitions(&model.networks),
        },
        memory: model.memory,
        busiest_memory: model.memory.total() * share,
        retained_bytes: model.retained()?,
        cores: Cores {
            clients: stations.clients,
            countd: stations.countd.busy_cores() * deployment.nodes as f64,
            busiest_master: stations.redis.busy_cores(),
        },
        network: BusyNetworks {
            busiest_master: used(Resource::RedisNetwork) * machines.network,
            countd: used(Resource::CountdNetwork) * machines.network,
        },
        latency: Latency::new(figures, workload, machines, &stations)?,
        table_move: memory::table_move(figures, workload)?,
        load: memory::load_rows(figures, workload, workload.entities * share)?,
        measured_cluster: costs.measured_cluster,
        measured_kafka: MeasuredKafka::new(model.kafka),
        model_error: ModelError::of(figures, workload.log, masters),
        limits,
    })
}

impl Model<'_> {
    /// The fewest masters that use no more than the targets, and what one less would have too little of. `share` is the share of the
    /// partitions that the busiest of so many masters has.
    fn fewest_masters(
        &self,
        share: impl Fn(usize) -> f64,
    ) -> Result<(usize, Option<Resource>), SizingError> {
        let mut costs = Costs::new(self.figures, self.workload, 1)?;
        let mut because = None;
        for masters in 1..=PARTITIONS {
            // All larger clusters have the same costs.
            if (2..=MOST_MASTERS).contains(&masters) {
                costs = Costs::new(self.figures, self.workload, masters)?;
            }
            let deployment = Deployment {
                masters,
                nodes: 1,
                brokers: 1,
            };
            let share = share(masters);
            let stations = Stations::new(self.workload, self.machines, &costs, deployment, share);
            let limits = self.limits(deployment, &stations, share);
            let exceeded = limits.into_iter().find(|limit| match limit.resource {
                Resource::RedisMemory => limit.used > self.machines.memory_target,
                Resource::RedisCpu | Resource::RedisNetwork => limit.used > self.machines.target,
                _ => false,
            });
            match exceeded {
                None => return Ok((masters, because)),
                Some(limit) if masters == PARTITIONS => {
                    let hot =
                        stations.hot > self.machines.target && limit.resource == Resource::RedisCpu;
                    let hot = hot.then_some(Limit {
                        resource: Resource::HotEntity,
                        used: stations.hot,
                        constant: 0.0,
                    });
                    return Err(SizingError::TooLarge(hot.unwrap_or(limit)));
                }
                Some(limit) => because = Some(limit.resource),
            }
        }
        // The loop returns with the last number.
        Ok((PARTITIONS, because))
    }

    /// The machines of countd: as many as the load needs, and one that may fail; at least two.
    fn fewest_nodes(&self, masters: usize) -> Result<usize, FiguresError> {
        let costs = Costs::new(self.figures, self.workload, masters)?;
        let one = Deployment {
            masters,
            nodes: 1,
            brokers: 0,
        };
        let share = 1.0 / masters as f64;
        let stations = Stations::new(self.workload, self.machines, &costs, one, share);
        let cpu = stations.countd.utilization();
        let network = self.networks.countd.busier() / self.machines.network;
        let needed = (cpu.max(network) / self.machines.target).ceil() as usize;
        Ok(needed.max(1) + 1)
    }

    fn limits(&self, deployment: Deployment, stations: &Stations, share: f64) -> Vec<Limit> {
        limits(&Parts {
            workload: self.workload,
            machines: self.machines,
            deployment,
            stations,
            memory: &self.memory,
            networks: &self.networks,
            share,
            kafka: self.kafka,
        })
    }

    /// The bytes of the events that are kept.
    fn retained(&self) -> Result<f64, FiguresError> {
        let event = self.figures.get("countd.event-bytes")?;
        let copies = match self.workload.log {
            LogKind::Streams => 1.0,
            LogKind::Kafka => super::brokers::REPLICATION,
        };
        Ok(self.workload.actions * self.workload.retention * event * copies)
    }
}

#[cfg(test)]
mod tests;
