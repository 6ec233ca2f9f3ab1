//! One hot entity: likes that are committed as groups, reads that are answered from memory, and the cost of finding hot entities.

use std::borrow::Cow;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::driver::bare::Bare;
use crate::driver::countd::{Countd, Metrics, Setting, Storage, Target};
use crate::driver::cpu;
use crate::driver::http::{get, post};
use crate::driver::programs::{Programs, printed};
use crate::error::Result;
use crate::measure::countd::clients::{send, send_each};
use crate::measure::countd::measure_target;
use crate::workload::counts::SplitMix;
use crate::workload::events::EntityPool;
use crate::workload::scale::Scale;

/// Concurrent connections for likes. countd commits concurrent likes of an entity as a group.
const LIKERS: usize = 64;
/// Connections that send reads.
pub(super) const READERS: usize = 16;
/// How long an entity is read until its counters are in memory: hot entities are found once a second.
const UNTIL_HOT: Duration = Duration::from_secs(3);
/// Rounds of each repeat. Each has all kinds of requests, so that a slower machine slows all of them.
const ROUNDS: u32 = 6;
/// Pairs of rounds with and without detection in each repeat, for one entity and for many.
const DETECTION_ROUNDS: u32 = 20;
/// Distinct requests for counters of a million entities.
const LONG_TAIL: usize = 10_000;
/// The first user who likes something.
const FIRST_USER: u64 = 1_000_000_000_000_000;

/// A rate of requests, or of parts of requests, and what each costs.
#[derive(Clone, Copy)]
pub struct Rate {
    /// The number per second.
    pub per_second: f64,
    /// CPU seconds of Redis for each.
    pub redis_cpu: f64,
    /// CPU seconds of countd, or of the bare handler, for each.
    pub process_cpu: f64,
}

/// The results of a round.
pub struct HotRates {
    /// `POST /action/like` of different users on one entity.
    pub likes_of_one: Rate,
    /// The same on a thousand entities in turn, where each like is an `RBM.MARK` of its own, and which stay in the caches of the CPU as one
    /// does.
    pub likes_of_many: Rate,
    /// `GET /counter` of one entity, from memory.
    pub cached: Rate,
    /// `GET /healthz`, which does not touch Redis.
    pub health: Rate,
    /// Requests to a bare axum handler.
    pub bare: Rate,
}

/// The cost of the detection of hot entities.
#[derive(Default)]
pub struct Detection {
    /// The CPU time of countd for `GET /counter` of one entity from Redis with the detection, as a ratio to that without, in each pair of rounds.
    pub one: Vec<f64>,
    /// The same of a million entities.
    pub many: Vec<f64>,
    /// CPU seconds of countd for a read without the detection.
    pub reads: Vec<f64>,
    /// The detection alone.
    pub alone: Vec<DetectionCost>,
}

/// What the detection costs without anything else, in seconds.
#[derive(Clone, Copy)]
pub struct DetectionCost {
    /// For a read of an entity.
    pub read: f64,
    /// For a write.
    pub write: f64,
    /// For the work of a second, whatever the number of requests.
    pub second: f64,
}

/// Takes all measurements.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<(Vec<HotRates>, Detection)> {
    let (mut rates, mut detection) = (Vec::new(), Detection::default());
    for _ in 0..scale.countd.repeats {
        eprintln!("bench: countd, one hot entity");
        let time = scale.countd.requests;
        measure_target(programs, (Storage::Table, Metrics::Default), |target| {
            measure_rounds(target, time / 3, &mut rates)?;
            measure_detection(target, time / 8, &mut detection)
        })?;
        detection.alone.push(detection_alone(programs)?);
    }
    Ok((rates, detection))
}

/// Measures all kinds of requests in turn. countd shares the core of Redis, so that a server that is busy slows it down, as on a machine that has
/// no core to spare: reads from memory leave all of the core to it. Nothing consumes the events: that costs less for one partition than for
/// many.
fn measure_rounds(target: &Target, time: Duration, rates: &mut Vec<HotRates>) -> Result<()> {
    let hot = hot_entity();
    let cache = [("COUNTD_HOT__CACHE_MS", "1000".to_owned())];
    let countd = cpu::on_server_core(|| Countd::start_with(target, "serve", &cache))?;
    let bare = cpu::on_server_core(|| Bare::start(target.programs))?;
    let users = AtomicU64::new(FIRST_USER);
    let like = |eid: u64| {
        let uid = users.fetch_add(1, Relaxed);
        let body = format!("{{\"etype\":\"note\",\"eid\":\"{eid}\",\"uid\":\"{uid}\"}}");
        Cow::from(post("/action/like", &body))
    };
    let of_countd = |send: &dyn Fn() -> Result<u64>| rate(target, &|| countd.cpu_seconds(), send);
    let likes = |eid: &(dyn Fn(u64) -> u64 + Sync), time| {
        send_each(countd.port, |number| like(eid(number)), LIKERS, time)
    };
    let (one, health) = (read_of(hot), [get("/healthz")]);
    // Warms up connections and caches.
    likes(&|number| EntityPool::Hot.nth(number), time / 3)?;
    send(countd.port, &one, READERS, UNTIL_HOT)?;
    for _ in 0..ROUNDS {
        rates.push(HotRates {
            likes_of_one: of_countd(&|| likes(&|_| hot, time))?,
            likes_of_many: of_countd(&|| likes(&|number| EntityPool::Hot.nth(number), time))?,
            cached: of_countd(&|| send(countd.port, &one, READERS, time))?,
            health: of_countd(&|| send(countd.port, &health, READERS, time))?,
            bare: rate(target, &|| bare.cpu_seconds(), &|| {
                send(bare.port, &one, READERS, time)
            })?,
        });
    }
    Ok(())
}

fn hot_entity() -> u64 {
    EntityPool::Hot.pick(&mut SplitMix(3))
}

/// The request for the counters of an entity.
fn read_of(eid: u64) -> Vec<Vec<u8>> {
    vec![get(&format!("/counter/note/{eid}"))]
}

/// The rate of the requests, or of the parts of requests, that `send` sends to a process with this CPU time and counts.
pub(super) fn rate(
    target: &Target,
    process_cpu: &dyn Fn() -> Result<f64>,
    send: &dyn Fn() -> Result<u64>,
) -> Result<Rate> {
    let (redis, process, started) = (target.server.cpu_ns()?, process_cpu()?, Instant::now());
    let done = send()? as f64;
    Ok(Rate {
        per_second: done / started.elapsed().as_secs_f64(),
        redis_cpu: (target.server.cpu_ns()? - redis) as f64 / 1e9 / done,
        process_cpu: (process_cpu()? - process) / done,
    })
}

/// Runs the program that measures the detection alone.
fn detection_alone(programs: &Programs) -> Result<DetectionCost> {
    let program = &programs.hot_cost;
    let output = Command::new(program).output();
    let output = output.map_err(|e| format!("cannot start {}: {e}", program.display()))?;
    parse_detection(&printed(output)?).ok_or_else(|| "hot_cost printed something else".into())
}

fn parse_detection(text: &str) -> Option<DetectionCost> {
    let mut lines = text.lines();
    let mut seconds = || Some(lines.next()?.parse::<f64>().ok()? * 1e-9);
    Some(DetectionCost {
        read: seconds()?,
        write: seconds()?,
        second: seconds()?,
    })
}

fn measure_detection(target: &Target, time: Duration, detection: &mut Detection) -> Result<()> {
    let enabled = |on: bool| -> [Setting; 1] { [("COUNTD_HOT__ENABLED", on.to_string())] };
    let with = Countd::start_with(target, "serve", &enabled(true))?;
    let without = Countd::start_with(target, "serve", &enabled(false))?;
    let mut random = SplitMix(4);
    let long_tail = (0..LONG_TAIL).flat_map(|_| read_of(EntityPool::LongTail.pick(&mut random)));
    let requests: [Vec<Vec<u8>>; 2] = [read_of(hot_entity()), long_tail.collect()];
    let Detection {
        one, many, reads, ..
    } = detection;
    for (requests, ratios) in requests.iter().zip([one, many]) {
        let cost = |countd: &Countd| -> Result<f64> {
            let before = countd.cpu_seconds()?;
            let done = send(countd.port, requests, READERS, time)?;
            Ok((countd.cpu_seconds()? - before) / done as f64)
        };
        // Warms up connections and caches.
        cost(&with)?;
        cost(&without)?;
        for round in 0..DETECTION_ROUNDS {
            let (with, without) = match round % 2 {
                0 => (cost(&with)?, cost(&without)?),
                _ => {
                    let without = cost(&without)?;
                    (cost(&with)?, without)
                }
            };
            ratios.push(with / without);
            reads.push(without);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_in_nanoseconds() {
        let cost = parse_detection("4.50\n9.00\n20000\n").unwrap();
        let found = [cost.read, cost.write, cost.second].map(|seconds| (seconds * 1e10).round());
        assert_eq!(found, [45.0, 90.0, 200_000.0]);
        assert!(parse_detection("4.50\n").is_none());
    }
}
