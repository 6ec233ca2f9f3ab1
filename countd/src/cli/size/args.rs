//! The arguments of `countd size`.

use super::number::{at_least_one, parse, percent, positive, some_percent};
use clap::{Args, ValueEnum};
use countd::domain::sizing::{Confirmation, Fixed, LogKind, Machines, Stored, Workload};
use std::path::PathBuf;

/// The most machines of a kind that can be given.
const MOST: std::ops::RangeInclusive<u64> = 1..=100_000;

/// The load, the machines, and numbers of machines that are given.
#[derive(Debug, Args)]
pub struct SizeCommand {
    /// Entities with counters, such as 100M
    #[arg(long, value_name = "NUMBER", value_parser = parse, help_heading = "Load")]
    pub entities: f64,
    /// Actions per second, at the peak
    #[arg(long, value_name = "PER_SECOND", value_parser = parse, help_heading = "Load")]
    pub actions: f64,
    /// Read requests per second, at the peak
    #[arg(long, value_name = "PER_SECOND", value_parser = parse, help_heading = "Load")]
    pub reads: f64,
    /// Actions in a request: 1 is `POST /action`, more are `POST /actions`
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one, default_value = "1", help_heading = "Load")]
    pub lines: f64,
    /// Entities in a read request: 1 is `GET /counter`, more are `POST /counter/batch`
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one, default_value = "1", help_heading = "Load")]
    pub page: f64,
    /// Reads return the statuses of a user, too (`POST /feed`)
    #[arg(long, help_heading = "Load")]
    pub statuses: bool,
    /// Actions that record a fact, such as likes, in per cent; the others are repeatable
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "20", help_heading = "Load")]
    pub once: f64,
    /// Facts of an entity, on average
    #[arg(long, value_name = "NUMBER", value_parser = parse, default_value = "3", help_heading = "Load")]
    pub facts: f64,
    /// Counters of an entity
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=64), default_value = "5", help_heading = "Load")]
    pub metrics: u32,
    /// Actions and reads that concern the hottest entity, in per cent
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0.1", help_heading = "Load")]
    pub hot_share: f64,
    /// Days for which events are kept: in the topic of Kafka, or in the archive
    #[arg(long, value_name = "DAYS", value_parser = parse, default_value = "7", help_heading = "Load")]
    pub retention: f64,
    /// Longest outage of the consumers, in minutes. Uncounted events take memory of Redis
    #[arg(long, value_name = "MINUTES", value_parser = parse, default_value = "10", help_heading = "Load")]
    pub outage: f64,
    /// How counters are stored
    #[arg(
        long,
        value_enum,
        default_value = "table",
        value_name = "KIND",
        help_heading = "Settings"
    )]
    pub storage: StorageKind,
    /// Where events are logged
    #[arg(
        long,
        value_enum,
        default_value = "streams",
        value_name = "KIND",
        help_heading = "Settings"
    )]
    pub log_kind: LogName,
    /// When a write is confirmed: memory, fsync or replicas:N, as `redis.ack`
    #[arg(long, value_name = "LEVEL", value_parser = confirmation, default_value = "memory", help_heading = "Settings")]
    pub ack: Confirmation,
    /// The counters of hot entities are answered from memory (`hot.cache_ms`)
    #[arg(long, help_heading = "Settings")]
    pub hot_cache: bool,
    /// Replicas of each master
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(0..=10), default_value = "1", help_heading = "Machines")]
    pub replicas: u32,
    /// Memory for one Redis server, in GB
    #[arg(long, value_name = "GB", value_parser = positive, default_value = "32", help_heading = "Machines")]
    pub redis_memory: f64,
    /// The part of it that data may fill, in per cent; a snapshot copies pages that are written meanwhile
    #[arg(long, value_name = "PERCENT", value_parser = some_percent, default_value = "60", help_heading = "Machines")]
    pub memory_target: f64,
    /// Cores of a machine of countd
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1024), default_value = "8", help_heading = "Machines")]
    pub cores: u32,
    /// The part of a core, a network or a broker that may be used, in per cent
    #[arg(long, value_name = "PERCENT", value_parser = some_percent, default_value = "60", help_heading = "Machines")]
    pub target: f64,
    /// Network of each machine, in Gbit/s
    #[arg(long, value_name = "GBIT", value_parser = positive, default_value = "10", help_heading = "Machines")]
    pub network: f64,
    /// Round-trip time between countd and Redis, in microseconds
    #[arg(long, value_name = "MICROSECONDS", value_parser = parse, default_value = "200", help_heading = "Machines")]
    pub round_trip: f64,
    /// Disk of a broker, in TB
    #[arg(long, value_name = "TB", value_parser = positive, default_value = "4", help_heading = "Machines")]
    pub broker_disk: f64,
    /// Disk throughput of a broker, in MB/s
    #[arg(long, value_name = "MB", value_parser = positive, default_value = "200", help_heading = "Machines")]
    pub broker_writes: f64,
    /// Cores of a broker; used only if the figures have the CPU time of brokers
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1024), default_value = "8", help_heading = "Machines")]
    pub broker_cores: u32,
    /// Masters of Redis, instead of the fewest that stay below the targets
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1024), help_heading = "Given numbers")]
    pub masters: Option<u64>,
    /// Machines of countd, instead of the fewest that stay below the target and one more
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(MOST), help_heading = "Given numbers")]
    pub nodes: Option<u64>,
    /// Brokers of Kafka, instead of the fewest that stay below the target
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(MOST), help_heading = "Given numbers")]
    pub brokers: Option<u64>,
    /// Figures of your machines: the .json file that `scripts/bench` writes
    #[arg(long, value_name = "FILE")]
    pub figures: Option<PathBuf>,
    /// Print the load, the machines and the result as JSON, in seconds and bytes
    #[arg(long)]
    pub json: bool,
    /// What the client of each request uses of the cores of countd, as in the benchmark that checks the model, in microseconds
    #[arg(long, hide = true, default_value = "0", value_parser = parse)]
    pub client: f64,
}

/// How counters are stored.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum StorageKind {
    /// As rows of tables
    Table,
    /// As an object each
    Object,
}

/// Where events are logged.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogName {
    /// In streams of Redis
    Streams,
    /// In a topic of Kafka
    Kafka,
}

/// Parses a level of `redis.ack`.
fn confirmation(text: &str) -> Result<Confirmation, String> {
    match text {
        "memory" => Ok(Confirmation::Memory),
        "fsync" => Ok(Confirmation::Fsync),
        _ => {
            let count = text.strip_prefix("replicas:").and_then(|n| n.parse().ok());
            let count = count.filter(|count| (1..=10).contains(count));
            count
                .map(Confirmation::Replicas)
                .ok_or_else(|| "memory, fsync or replicas:N is expected".into())
        }
    }
}

impl SizeCommand {
    /// The load.
    pub fn workload(&self) -> Workload {
        Workload {
            entities: self.entities,
            actions: self.actions,
            reads: self.reads,
            lines: self.lines,
            page: self.page,
            statuses: self.statuses,
            once: self.once,
            facts: self.facts,
            metrics: self.metrics.into(),
            storage: match self.storage {
                StorageKind::Table => Stored::Table,
                StorageKind::Object => Stored::Object,
            },
            hot_share: self.hot_share,
            hot_cache: self.hot_cache,
            retention: self.retention * 86_400.0,
            outage: self.outage * 60.0,
            log: match self.log_kind {
                LogName::Streams => LogKind::Streams,
                LogName::Kafka => LogKind::Kafka,
            },
            ack: self.ack,
        }
    }

    /// The machines.
    pub fn machines(&self) -> Machines {
        Machines {
            redis_memory: self.redis_memory * 1e9,
            memory_target: self.memory_target,
            replicas: self.replicas,
            cores: self.cores as usize,
            target: self.target,
            network: self.network * 1e9 / 8.0,
            round_trip: self.round_trip / 1e6,
            broker_disk: self.broker_disk * 1e12,
            broker_writes: self.broker_writes * 1e6,
            broker_cores: self.broker_cores as usize,
            client: self.client / 1e6,
        }
    }

    /// The numbers that are given.
    pub fn fixed(&self) -> Fixed {
        let number = |given: Option<u64>| given.map(|number| number as usize);
        Fixed {
            masters: number(self.masters),
            nodes: number(self.nodes),
            brokers: number(self.brokers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Size {
        #[command(flatten)]
        command: SizeCommand,
    }

    fn parsed(arguments: &str) -> Result<SizeCommand, clap::Error> {
        let load = "size --entities 10B --actions 10M --reads 30k ";
        let all = [load, arguments].concat();
        Size::try_parse_from(all.split_whitespace()).map(|size| size.command)
    }

    #[test]
    fn arguments_are_converted_to_seconds_and_bytes() {
        let command = parsed(
            "--retention 2 --outage 5 --once 25 --hot-share 1 --ack replicas:2 --log-kind kafka",
        )
        .expect("valid");
        let load = command.workload();
        assert_eq!((load.entities, load.actions, load.reads), (1e10, 1e7, 3e4));
        assert_eq!((load.retention, load.outage), (172_800.0, 300.0));
        assert_eq!((load.once, load.hot_share), (0.25, 0.01));
        assert_eq!(
            (load.ack, load.log),
            (Confirmation::Replicas(2), LogKind::Kafka)
        );
        let machines = parsed("--network 8 --redis-memory 64 --round-trip 100")
            .expect("valid")
            .machines();
        assert_eq!(
            (machines.network, machines.redis_memory, machines.round_trip),
            (1e9, 64e9, 1e-4)
        );
        assert_eq!((machines.cores, machines.broker_cores), (8, 8));
        let machines = parsed("--broker-cores 16").expect("valid").machines();
        assert_eq!(machines.broker_cores, 16);
        assert_eq!(
            parsed("--masters 3").expect("valid").fixed().masters,
            Some(3)
        );
    }

    #[test]
    fn numbers_outside_of_their_ranges_are_invalid() {
        for arguments in [
            "--lines 0",
            "--page 0.5",
            "--once 101",
            "--hot-share -1",
            "--masters 0",
            "--masters 1025",
            "--cores 0",
            "--broker-cores 0",
            "--target 0",
            "--redis-memory 0",
            "--ack replicas:0",
            "--ack disk",
            "--network 0",
            "--metrics 0",
        ] {
            assert!(parsed(arguments).is_err(), "{arguments}");
        }
    }
}
