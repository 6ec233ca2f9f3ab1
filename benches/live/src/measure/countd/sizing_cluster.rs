//! The model of `countd size` compared with a real countd on a cluster, and with Kafka as the log: CPU times under open-loop load.
//!
//! All masters share a core, and so do countd, the client and the broker, so latencies say nothing here.

use std::borrow::Cow;

use crate::driver::countd::{Countd, Target};
use crate::driver::http::Http;
use crate::driver::kafka::Kafka;
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::measure::countd::clients::wait_until_counted;
use crate::measure::countd::cluster::{interval, start, wait_until_idle};
use crate::measure::countd::kafka::setup::TOPIC_PARTITIONS;
use crate::measure::countd::kafka::warm_up;
use crate::measure::countd::open_loop::{arrivals, send_at};
use crate::measure::countd::sizing::{Compared, Load, all_entities, predict};
use crate::workload::counts::SplitMix;
use crate::workload::scale::{CountdScale, Scale};

/// The shares of the capacity.
pub const LEVELS: [f64; 2] = [0.25, 0.5];

/// The servers, and what the log is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deployment {
    /// The number of masters of a cluster; 1 is a server that is not in cluster mode.
    pub masters: usize,
    /// Whether a topic is the log.
    pub is_kafka: bool,
}

/// All, in the order of the report.
pub const DEPLOYMENTS: [Deployment; 3] = [
    Deployment {
        masters: 3,
        is_kafka: false,
    },
    Deployment {
        masters: 1,
        is_kafka: true,
    },
    Deployment {
        masters: 3,
        is_kafka: true,
    },
];

impl Deployment {
    /// The loads that are measured. Facts do not go to the topic.
    pub fn loads(self) -> &'static [Load] {
        match self.is_kafka {
            true => &[Load::Mixed, Load::Batches],
            false => &[Load::Reads, Load::Likes, Load::Mixed, Load::Batches],
        }
    }

    fn options(self) -> String {
        let log = if self.is_kafka { "kafka" } else { "streams" };
        format!("--masters {} --log-kind {log}", self.masters)
    }
}

/// A load at a rate.
pub struct Measured {
    /// The servers.
    pub deployment: Deployment,
    /// The load.
    pub load: Load,
    /// The share of the capacity.
    pub level: f64,
    /// Requests per second.
    pub per_second: f64,
    /// CPU seconds of countd for each request.
    pub countd_cpu: Compared,
    /// CPU seconds of the busiest master for each request.
    pub redis_cpu: Compared,
}

/// Takes all measurements.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<Measured>> {
    let (scale, mut all) = (&scale.countd, Vec::new());
    for _ in 0..scale.repeats {
        let broker_dir = &Workdir::new()?;
        let kafka = &Kafka::start(programs.kafka()?, broker_dir)?;
        warm_up(kafka, scale)?;
        for deployment in DEPLOYMENTS {
            eprintln!("bench: countd, open-loop, {}", deployment.options());
            all.extend(measure_deployment(programs, deployment, kafka, scale)?);
        }
    }
    Ok(all)
}

fn measure_deployment(
    programs: &Programs,
    deployment: Deployment,
    kafka: &Kafka,
    scale: &CountdScale,
) -> Result<Vec<Measured>> {
    let masters = deployment.masters;
    let dirs = (0..masters).map(|_| Workdir::new());
    let dirs: Vec<Workdir> = dirs.collect::<Result<_>>()?;
    let servers = start(programs, &dirs, masters > 1)?;
    let target = &Target::new(programs, &servers[0], &dirs[0]);
    target.create_schema()?;
    // The model has no costs of reconciliation, which are bounded.
    let mut settings = vec![
        interval(),
        ("COUNTD_RECONCILE__ENABLED", "false".to_owned()),
    ];
    if deployment.is_kafka {
        let topic = format!("sizing-{masters}");
        kafka.create_topic(&topic, TOPIC_PARTITIONS)?;
        settings.extend(kafka.settings(&topic));
    }
    let run = Run {
        target,
        deployment,
        servers: &servers,
        kafka,
        countd: &Countd::start_with(target, "all", &settings)?,
    };
    let mut http = Http::open(run.countd.port)?;
    for request in all_entities() {
        http.request(&request)?;
    }
    wait_until_counted(run.countd)?;
    let mut all = Vec::new();
    for load in deployment.loads() {
        all.extend(run.measure(*load, scale)?);
    }
    Ok(all)
}

/// What a load is sent to.
struct Run<'a> {
    target: &'a Target<'a>,
    deployment: Deployment,
    servers: &'a [Server],
    kafka: &'a Kafka,
    countd: &'a Countd,
}

/// CPU seconds.
struct Used {
    countd: f64,
    broker: f64,
    redis: Vec<f64>,
}

impl Run<'_> {
    fn used(&self) -> Result<Used> {
        let redis = self.servers.iter();
        let redis = redis.map(|server| Ok(server.cpu_ns()? as f64 / 1e9));
        Ok(Used {
            countd: self.countd.cpu_seconds()?,
            broker: match self.deployment.is_kafka {
                true => self.kafka.cpu_seconds()?,
                false => 0.0,
            },
            redis: redis.collect::<Result<_>>()?,
        })
    }

    fn measure(&self, load: Load, scale: &CountdScale) -> Result<Vec<Measured>> {
        let time = scale.requests;
        let mut first = 0;
        let mut send = |per_second: f64| -> Result<(f64, f64, Used)> {
            let arrivals = arrivals(per_second, time, &mut SplitMix(per_second.to_bits()));
            let (number, from) = (arrivals.len() as u64, first);
            first += number;
            let before = self.used()?;
            let request = |number: u64| Cow::from(load.request(from + number));
            let answered = send_at(self.countd.port, &arrivals, request)?;
            let after = self.used()?;
            wait_until_idle(self.countd)?;
            let redis = before.redis.iter().zip(&after.redis);
            let used = Used {
                countd: after.countd - before.countd,
                broker: after.broker - before.broker,
                redis: redis.map(|(before, after)| after - before).collect(),
            };
            Ok((number as f64, answered.client_cpu, used))
        };
        // Each request comes alone, which costs most. Of the two cores, the busier one limits the rate.
        let (requests, client, used) = send(load.slow())?;
        let busier = (client + used.countd + used.broker).max(used.redis.iter().sum());
        let capacity = requests / busier;
        let mut all = Vec::new();
        for level in LEVELS {
            let (requests, client, used) = send(capacity * level)?;
            let per_second = requests / time.as_secs_f64();
            let options = self.deployment.options();
            let client = client / requests;
            let predicted = predict(self.target, load, per_second, client, &options)?;
            let busiest = used.redis.into_iter().fold(0.0, f64::max);
            all.push(Measured {
                deployment: self.deployment,
                load,
                level,
                per_second,
                countd_cpu: Compared {
                    measured: used.countd / requests,
                    predicted: Some(predicted.countd_cpu),
                },
                redis_cpu: Compared {
                    measured: busiest / requests,
                    predicted: Some(predicted.redis_cpu),
                },
            });
        }
        Ok(all)
    }
}
