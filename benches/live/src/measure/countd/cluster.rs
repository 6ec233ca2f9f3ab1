//! What an event and a request cost at each part, with one server and with clusters of one to three masters, also with Kafka as the log.
//!
//! All servers share a core, so only CPU times are comparable, not rates.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::countd::{Countd, Setting, Target};
use crate::driver::cpu;
use crate::driver::http::{Http, get};
use crate::driver::kafka::Kafka;
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir, free_port};
use crate::error::Result;
use crate::measure::countd::clients::{
    InTurn, distinct, read_metric, variants, wait_until_counted,
};
use crate::measure::countd::kafka::setup::TOPIC_PARTITIONS;
use crate::measure::countd::kafka::warm_up;
use crate::measure::countd::requests::{ACTIONS, actions, page};
use crate::workload::counts::SplitMix;
use crate::workload::events::EntityPool;
use crate::workload::scale::Scale;

/// The largest number of masters.
const MAX_MASTERS: usize = 3;
/// The slots of a cluster.
const SLOTS: usize = 16_384;
/// The timeout for a cluster to serve all slots, and for countd to count all events.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The kinds of requests, each with the units that one of them has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `POST /actions` with reads, which are counted from the log. The cost includes counting.
    Reads,
    /// The same with Kafka as the log.
    KafkaReads,
    /// `POST /actions` with likes, which record facts. The cost includes counting.
    Likes,
    /// `GET /counter`.
    Single,
    /// `POST /feed` of 100 entities, per entity.
    Feeds,
}

impl Kind {
    /// All, in the order of the report.
    pub const ALL: [Kind; 5] = [
        Kind::Reads,
        Kind::KafkaReads,
        Kind::Likes,
        Kind::Single,
        Kind::Feeds,
    ];
}

/// The CPU seconds for each event, request or entity.
#[derive(Clone, Copy)]
pub struct Costs {
    /// Of the client.
    pub client: f64,
    /// Of countd.
    pub countd: f64,
    /// Of all servers.
    pub redis: f64,
    /// Of the broker, with Kafka as the log.
    pub broker: f64,
}

/// The costs of a kind of request with a number of masters; 0 is a server that is not in cluster mode.
pub struct Measured {
    /// The number of masters.
    pub masters: usize,
    /// The kind.
    pub kind: Kind,
    /// The costs.
    pub costs: Costs,
}

/// Takes all measurements.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for repeat in 0..scale.countd.repeats {
        let broker_dir = &Workdir::new()?;
        let kafka = &Kafka::start(programs.kafka()?, broker_dir)?;
        warm_up(kafka, &scale.countd)?;
        // The order alternates, so that nothing is always measured on a warmer broker.
        let mut numbers: Vec<usize> = (0..=MAX_MASTERS).collect();
        if repeat % 2 == 1 {
            numbers.reverse();
        }
        for masters in numbers {
            eprintln!("bench: countd, {masters} masters of a cluster");
            let dirs: Vec<Workdir> = (0..masters.max(1))
                .map(|_| Workdir::new())
                .collect::<Result<_>>()?;
            let servers = start(programs, &dirs, masters > 0)?;
            let target = Target::new(programs, &servers[0], &dirs[0]);
            target.create_schema()?;
            let time = scale.countd.requests;
            let mut costs = measure_streams(&target, &servers, time)?;
            let topic = format!("masters-{masters}");
            costs.push(measure_topic(&target, &servers, (kafka, &topic), time)?);
            let measured = costs.into_iter().map(|(kind, costs)| Measured {
                masters,
                kind,
                costs,
            });
            all.extend(measured);
        }
    }
    Ok(all)
}

/// Starts servers, as the masters of a cluster if `in_cluster`.
pub(super) fn start(
    programs: &Programs,
    dirs: &[Workdir],
    in_cluster: bool,
) -> Result<Vec<Server>> {
    let mut servers = Vec::new();
    let mut bus_ports = Vec::new();
    for dir in dirs {
        let bus = free_port()?.to_string();
        let settings = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        let settings = if in_cluster { &settings[..] } else { &[] };
        let module = Some(programs.module.as_path());
        servers.push(Server::start_with(programs, dir, module, settings)?);
        bus_ports.push(bus);
    }
    if !in_cluster {
        return Ok(servers);
    }
    let count = servers.len();
    let mut first = servers[0].control()?;
    for (number, server) in servers.iter().enumerate() {
        let (from, end) = (SLOTS * number / count, SLOTS * (number + 1) / count);
        let slots = format!("CLUSTER ADDSLOTSRANGE {from} {}", end - 1);
        server.control()?.call(&slots)?;
        let (port, bus) = (server.port(), &bus_ports[number]);
        if number > 0 {
            first.call(&format!("CLUSTER MEET 127.0.0.1 {port} {bus}"))?;
        }
    }
    let started = Instant::now();
    for server in &servers {
        let mut control = server.control()?;
        loop {
            let info = control.call("CLUSTER INFO")?;
            if info.contains("cluster_state:ok") && info.contains(&format!("cluster_size:{count}"))
            {
                break;
            }
            if started.elapsed() > TIMEOUT {
                return Err("the cluster does not serve all slots".into());
            }
            sleep(Duration::from_millis(50));
        }
    }
    Ok(servers)
}

/// Measures the kinds of requests whose log is in Redis.
fn measure_streams(
    target: &Target,
    servers: &[Server],
    time: Duration,
) -> Result<Vec<(Kind, Costs)>> {
    let countd = Countd::start_with(target, "all", &[interval()])?;
    let random = &mut SplitMix(5);
    let parts = Parts {
        countd: &countd,
        servers,
        kafka: None,
    };
    let kinds = Kind::ALL.into_iter();
    let kinds = kinds.filter(|kind| *kind != Kind::KafkaReads);
    kinds
        .map(|kind| Ok((kind, measure_kind(&parts, kind, random, time)?)))
        .collect()
}

/// Measures reads whose log is a topic of a broker.
fn measure_topic(
    target: &Target,
    servers: &[Server],
    (kafka, topic): (&Kafka, &str),
    time: Duration,
) -> Result<(Kind, Costs)> {
    kafka.create_topic(topic, TOPIC_PARTITIONS)?;
    let mut settings = kafka.settings(topic);
    settings.push(interval());
    let countd = Countd::start_with(target, "all", &settings)?;
    let parts = Parts {
        countd: &countd,
        servers,
        kafka: Some(kafka),
    };
    let kind = Kind::KafkaReads;
    Ok((kind, measure_kind(&parts, kind, &mut SplitMix(6), time)?))
}

/// The interval at which the numbers of waiting events are collected.
pub(super) fn interval() -> Setting {
    ("COUNTD_MONITOR__INTERVAL_SECONDS", "1".to_owned())
}

/// What is measured.
struct Parts<'a> {
    countd: &'a Countd,
    servers: &'a [Server],
    kafka: Option<&'a Kafka>,
}

fn measure_kind(parts: &Parts, kind: Kind, random: &mut SplitMix, time: Duration) -> Result<Costs> {
    let countd = parts.countd;
    let make = || request(kind, random);
    let requests = match kind {
        // The second time changes nothing.
        Kind::Likes => distinct(make),
        _ => variants(make),
    };
    let requests = InTurn::new(&requests);
    let units = match kind {
        Kind::Reads | Kind::KafkaReads | Kind::Likes => ACTIONS,
        Kind::Single => 1,
        Kind::Feeds => crate::measure::countd::requests::ENTITIES,
    };
    // Warms up connections and caches.
    requests.send(countd.port, 8, time / 10)?;
    wait_until_idle(countd)?;
    let before = used(parts)?;
    let done = (requests.send(countd.port, 8, time)? * units) as f64;
    if kind == Kind::Likes {
        requests.check_once()?;
    }
    wait_until_idle(countd)?;
    let after = used(parts)?;
    let each = |part: fn(&Costs) -> f64| (part(&after) - part(&before)) / done;
    Ok(Costs {
        client: each(|costs| costs.client),
        countd: each(|costs| costs.countd),
        redis: each(|costs| costs.redis),
        broker: each(|costs| costs.broker),
    })
}

fn request(kind: Kind, random: &mut SplitMix) -> Vec<u8> {
    let pool = EntityPool::LongTail;
    match kind {
        Kind::Reads | Kind::KafkaReads => actions("read", pool, random),
        Kind::Likes => actions("like", pool, random),
        Kind::Single => get(&format!("/counter/note/{}", pool.pick(random))),
        Kind::Feeds => {
            let user = random.below(1 << 50);
            crate::driver::http::post("/feed", &page(Some(user), random))
        }
    }
}

/// The CPU seconds that each part has used.
fn used(parts: &Parts) -> Result<Costs> {
    let mut redis = 0.0;
    for server in parts.servers {
        redis += server.cpu_ns()? as f64 / 1e9;
    }
    let broker = parts.kafka.map(Kafka::cpu_seconds).transpose()?;
    Ok(Costs {
        client: cpu::own_seconds()?,
        countd: parts.countd.cpu_seconds()?,
        redis,
        broker: broker.unwrap_or(0.0),
    })
}

/// Waits until countd has no lag, and its outboxes are empty.
pub(super) fn wait_until_idle(countd: &Countd) -> Result<()> {
    let (mut http, started) = (Http::open(countd.port)?, Instant::now());
    loop {
        wait_until_counted(countd)?;
        // The number of waiting events is a second old at most.
        sleep(Duration::from_millis(1_100));
        if read_metric(&mut http, "countd_outbox_entries")? == 0 {
            return wait_until_counted(countd);
        }
        if started.elapsed() > TIMEOUT {
            return Err("countd does not forward all derived events".into());
        }
    }
}
