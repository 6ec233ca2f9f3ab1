//! The model of `countd size` compared with a real countd under open-loop load: requests arrive as a Poisson process.
//!
//! countd and the client share a core. The CPU time of the client is measured, and the model adds it to each request. The rates are shares of
//! the capacity that the core has if each request finds it idle.

use std::borrow::Cow;

use serde_json::Value;

use crate::driver::countd::{Countd, Metrics, Storage, Target};
use crate::driver::http::{get, post};
use crate::driver::programs::Programs;
use crate::error::Result;
use crate::measure::countd::open_loop::{arrivals, send_at};
use crate::measure::countd::requests::ACTIONS;
use crate::measure::countd::{consumer, measure_target};
use crate::measure::stats::Spread;
use crate::workload::counts::SplitMix;
use crate::workload::events::EntityPool;
use crate::workload::scale::{CountdScale, Scale};

/// Requests per second that come alone.
const SLOW: f64 = 1_000.0;
/// The number of distinct entities. All are read before the measurement, because the first read of an entity without counters also checks
/// for lost ones.
const ENTITIES: u64 = 10_000;
/// The shares of the capacity.
pub const LEVELS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];
/// The first user who acts.
const FIRST_USER: u64 = 1_000_000_000_000_000;

/// The kinds of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// `GET /counter`.
    Reads,
    /// `POST /action/like`, each a new fact.
    Likes,
    /// Four of five are `GET /counter`, the others `POST /action/read`.
    Mixed,
    /// `POST /actions` with reads.
    Batches,
}

impl Load {
    /// All that are measured with one server, in the order of the report.
    pub const ALL: [Load; 3] = [Load::Reads, Load::Likes, Load::Mixed];

    /// The actions of a request on average.
    fn actions(self) -> f64 {
        match self {
            Load::Reads => 0.0,
            Load::Likes => 1.0,
            Load::Mixed => 0.2,
            Load::Batches => ACTIONS as f64,
        }
    }

    /// The share of requests that are reads.
    fn reads(self) -> f64 {
        match self {
            Load::Reads => 1.0,
            Load::Likes | Load::Batches => 0.0,
            Load::Mixed => 0.8,
        }
    }

    /// Requests per second that come alone.
    pub(super) fn slow(self) -> f64 {
        match self {
            Load::Batches => SLOW / 100.0,
            _ => SLOW,
        }
    }

    /// A request of this load.
    pub(super) fn request(self, number: u64) -> Vec<u8> {
        let (eid, uid) = (entity(number), FIRST_USER + number);
        let act = |metric: &str| {
            let body = format!("{{\"etype\":\"note\",\"eid\":\"{eid}\",\"uid\":\"{uid}\"}}");
            post(&format!("/action/{metric}"), &body)
        };
        match self {
            Load::Likes => act("like"),
            Load::Mixed if number.is_multiple_of(5) => act("read"),
            Load::Reads | Load::Mixed => get(&format!("/counter/note/{eid}")),
            Load::Batches => batch(number * ACTIONS),
        }
    }
}

/// The entity of a request.
fn entity(number: u64) -> u64 {
    EntityPool::LongTail.pick(&mut SplitMix(number % ENTITIES))
}

/// `POST /actions` with reads of [`ACTIONS`] entities from this one on.
fn batch(first: u64) -> Vec<u8> {
    let line = |number: u64| {
        let (eid, uid) = (entity(number), FIRST_USER + number);
        format!("{{\"metric\":\"read\",\"etype\":\"note\",\"eid\":\"{eid}\",\"uid\":\"{uid}\"}}\n")
    };
    post(
        "/actions",
        &(first..first + ACTIONS).map(line).collect::<String>(),
    )
}

/// Requests that read each entity once, so that it has counters.
pub(super) fn all_entities() -> impl Iterator<Item = Vec<u8>> {
    (0..ENTITIES / ACTIONS).map(|number| batch(number * ACTIONS))
}

/// A measured value and what the model says.
#[derive(Clone, Copy)]
pub struct Compared {
    /// What was measured.
    pub measured: f64,
    /// What the model says; `None` if it says that a part is overloaded.
    pub predicted: Option<f64>,
}

/// A load at a rate.
pub struct Measured {
    /// The load.
    pub load: Load,
    /// The share of the capacity.
    pub level: f64,
    /// Requests per second.
    pub per_second: f64,
    /// CPU seconds of the client for each request.
    pub client_cpu: f64,
    /// CPU seconds of countd for each request.
    pub countd_cpu: Compared,
    /// CPU seconds of Redis for each request.
    pub redis_cpu: Compared,
    /// Seconds from the arrival of a request to its reply: the median.
    pub p50: Compared,
    /// The 99th percentile.
    pub p99: Compared,
}

/// Takes all measurements.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for _ in 0..scale.countd.repeats {
        for load in Load::ALL {
            eprintln!("bench: countd, {load:?}, open-loop");
            measure_target(programs, (Storage::Table, Metrics::Default), |target| {
                all.extend(measure_load(target, load, &scale.countd)?);
                Ok(())
            })?;
        }
    }
    Ok(all)
}

fn measure_load(target: &Target, load: Load, scale: &CountdScale) -> Result<Vec<Measured>> {
    let time = scale.requests;
    consumer::fill(target.server, EntityPool::LongTail, scale.events)?;
    // The model has no costs of reconciliation, which are bounded.
    let settings = [("COUNTD_RECONCILE__ENABLED", "false".to_owned())];
    let countd = Countd::start_with(target, "all", &settings)?;
    consumer::wait_until_counted(target.server, scale.events)?;
    let mut first = 0;
    let mut requests = |number| {
        let from = first;
        first += number;
        move |number: u64| Cow::from(load.request(from + number))
    };
    // Each request comes alone, which costs most.
    let arrivals_of = |per_second| arrivals(per_second, time, &mut SplitMix(per_second.to_bits()));
    let few = arrivals_of(SLOW);
    let before = countd.cpu_seconds()?;
    let answered = send_at(countd.port, &few, requests(few.len() as u64))?;
    let used = countd.cpu_seconds()? - before + answered.client_cpu;
    let capacity = few.len() as f64 / used;
    let mut all = Vec::new();
    for level in LEVELS {
        let arrivals = arrivals_of(capacity * level);
        let (countd_before, redis_before) = (countd.cpu_seconds()?, target.server.cpu_ns()?);
        let number = arrivals.len() as u64;
        let answered = send_at(countd.port, &arrivals, requests(number))?;
        let done = number as f64;
        let cpu = countd.cpu_seconds()? - countd_before;
        let redis = (target.server.cpu_ns()? - redis_before) as f64 / 1e9;
        let per_second = done / time.as_secs_f64();
        let client = answered.client_cpu / done;
        let spread = Spread::of(answered.latencies);
        let predicted = predict(target, load, per_second, client, "--masters 1")?;
        let compared = |measured, predicted| Compared {
            measured,
            predicted,
        };
        all.push(Measured {
            load,
            level,
            per_second,
            client_cpu: client,
            countd_cpu: compared(cpu / done, Some(predicted.countd_cpu)),
            redis_cpu: compared(redis / done, Some(predicted.redis_cpu)),
            p50: compared(spread.median(), predicted.latency.map(|[p50, _]| p50)),
            p99: compared(spread.quantile(0.99), predicted.latency.map(|[_, p99]| p99)),
        });
    }
    Ok(all)
}

/// What the model says.
pub(super) struct Predicted {
    /// CPU seconds of countd for each request.
    pub countd_cpu: f64,
    /// CPU seconds of the busiest master for each request.
    pub redis_cpu: f64,
    /// The median and the 99th percentile in seconds.
    latency: Option<[f64; 2]>,
}

/// Asks `countd size`, with further options.
pub(super) fn predict(
    target: &Target,
    load: Load,
    per_second: f64,
    client: f64,
    options: &str,
) -> Result<Predicted> {
    let (actions, reads) = (per_second * load.actions(), per_second * load.reads());
    let once = if load == Load::Likes { 100 } else { 0 };
    let lines = if load == Load::Batches { ACTIONS } else { 1 };
    let command = format!(
        "size --json --entities 1M --actions {actions:.3} --reads {reads:.3} --once {once} --hot-share 0 --nodes 1 --cores 1 \
         --lines {lines} --round-trip 0 --client {:.3} {options}",
        client * 1e6
    );
    let printed: Value = serde_json::from_str(&target.run(&command, &[])?)?;
    parse(&printed["plan"], load, per_second)
        .ok_or_else(|| format!("countd size printed {printed}").into())
}

/// The prediction in the plan that `countd size` prints.
fn parse(plan: &Value, load: Load, per_second: f64) -> Option<Predicted> {
    let latency = &plan["latency"];
    let latency = match load {
        Load::Reads => &latency["read"],
        Load::Likes | Load::Batches => &latency["write"],
        // Most requests are reads, and both kinds take nearly the same time.
        Load::Mixed => &latency["read"],
    };
    let latency = match latency.is_null() {
        true => None,
        false => Some([
            latency["p50"].as_f64()? / 1e3,
            latency["p99"].as_f64()? / 1e3,
        ]),
    };
    Some(Predicted {
        countd_cpu: plan["cores"]["countd"].as_f64()? / per_second,
        redis_cpu: plan["cores"]["busiestMaster"].as_f64()? / per_second,
        latency,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_read_from_a_plan() {
        let plan = serde_json::json!({
            "cores": {"countd": 0.5, "busiestMaster": 0.25},
            "latency": {"read": {"p50": 1.0, "p99": 2.0}, "write": null}
        });
        let found = parse(&plan, Load::Reads, 1_000.0).unwrap();
        assert_eq!((found.countd_cpu, found.redis_cpu), (0.5e-3, 0.25e-3));
        assert_eq!(found.latency, Some([1e-3, 2e-3]));
        assert_eq!(parse(&plan, Load::Likes, 1_000.0).unwrap().latency, None);
        assert!(parse(&Value::Null, Load::Reads, 1.0).is_none());
    }

    #[test]
    fn a_fifth_of_the_mixed_requests_are_actions() {
        let posts = (0..100).filter(|number| Load::Mixed.request(*number).starts_with(b"POST"));
        assert_eq!(posts.count(), 20);
    }
}
