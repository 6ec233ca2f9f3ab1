//! One hot entity: likes that are committed as groups, reads that are answered from memory, and the cost of finding hot entities.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use crate::driver::bare::Bare;
use crate::driver::countd::{Countd, Metrics, Setting, Storage, Target};
use crate::driver::cpu;
use crate::driver::http::{get, post};
use crate::driver::programs::Programs;
use crate::error::Result;
use crate::measure::countd::clients::{send, send_each};
use crate::measure::countd::measure_target;
use crate::workload::counts::SplitMix;
use crate::workload::events::EntityPool;
use crate::workload::scale::Scale;

/// Concurrent connections for likes. countd commits concurrent likes of an entity as a group.
const LIKERS: usize = 64;
/// Connections that send reads.
const READERS: usize = 16;
/// How long an entity is read until its counters are in memory: hot entities are found once a second.
const UNTIL_HOT: Duration = Duration::from_secs(3);
/// Pairs of rounds with and without detection in each repeat.
const ROUNDS: usize = 6;
/// The first user who likes something.
const FIRST_USER: u64 = 1_000_000_000_000_000;

/// A rate of requests, and what each costs.
#[derive(Clone, Copy)]
pub struct Rate {
    /// Requests per second.
    pub per_second: f64,
    /// CPU seconds of the server for each.
    pub server_cpu: f64,
}

/// The results of a repeat.
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
    /// The CPU time of countd for `GET /counter` of one entity from Redis with detection of hot entities, as a ratio to that without, in each
    /// pair of rounds.
    pub detection: Vec<f64>,
}

/// Takes all measurements.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<HotRates>> {
    let mut rates = Vec::new();
    for _ in 0..scale.countd.repeats {
        eprintln!("bench: countd, one hot entity");
        measure_target(programs, (Storage::Table, Metrics::Default), |target| {
            rates.push(measure_one(target, scale.countd.requests)?);
            Ok(())
        })?;
    }
    Ok(rates)
}

fn measure_one(target: &Target, time: Duration) -> Result<HotRates> {
    let hot = EntityPool::Hot.pick(&mut SplitMix(3));
    let (likes_of_one, likes_of_many) = likes(target, hot, time)?;
    let one = vec![get(&format!("/counter/note/{hot}"))];
    let (cached, health) = {
        let settings = [("COUNTD_HOT__CACHE_MS", "1000".to_owned())];
        let countd = Countd::start_with(target, "serve", &settings)?;
        send(countd.port, &one, READERS, UNTIL_HOT)?;
        let health = [get("/healthz")];
        (
            rate(target, || send(countd.port, &one, READERS, time))?,
            rate(target, || send(countd.port, &health, READERS, time))?,
        )
    };
    let bare = Bare::start(target.programs)?;
    Ok(HotRates {
        likes_of_one,
        likes_of_many,
        cached,
        health,
        bare: rate(target, || send(bare.port, &one, READERS, time))?,
        detection: detection(target, &one, time / 3)?,
    })
}

/// The rates of new likes: of one entity, and of many entities. countd shares the core of the server, so that a server that is busy slows it
/// down, as on a machine that has no core to spare. Nothing consumes the events: that costs less for one partition than for many.
fn likes(target: &Target, hot: u64, time: Duration) -> Result<(Rate, Rate)> {
    let countd = cpu::on_server_core(|| Countd::start(target, "serve"))?;
    let like = |eid: u64, user: u64| {
        let uid = FIRST_USER + user;
        let body = format!("{{\"etype\":\"note\",\"eid\":\"{eid}\",\"uid\":\"{uid}\"}}");
        Cow::from(post("/action/like", &body))
    };
    let of_one = |number| like(hot, number);
    let of_many = |number: u64| like(EntityPool::Hot.nth(number), number);
    // Warms up connections and caches.
    send_each(countd.port, of_many, LIKERS, time / 10)?;
    let of_many = |number| of_many(number + (1 << 32));
    Ok((
        rate(target, || send_each(countd.port, of_one, LIKERS, time))?,
        rate(target, || send_each(countd.port, of_many, LIKERS, time))?,
    ))
}

/// The rate of requests that `send` sends.
fn rate(target: &Target, send: impl FnOnce() -> Result<u64>) -> Result<Rate> {
    let (before, started) = (target.server.cpu_ns()?, Instant::now());
    let done = send()? as f64;
    Ok(Rate {
        per_second: done / started.elapsed().as_secs_f64(),
        server_cpu: (target.server.cpu_ns()? - before) as f64 / 1e9 / done,
    })
}

/// The ratios of the CPU time of countd for a request with detection of hot entities to that without.
fn detection(target: &Target, requests: &[Vec<u8>], time: Duration) -> Result<Vec<f64>> {
    let enabled = |on: bool| -> [Setting; 1] { [("COUNTD_HOT__ENABLED", on.to_string())] };
    let with = Countd::start_with(target, "serve", &enabled(true))?;
    let without = Countd::start_with(target, "serve", &enabled(false))?;
    let cost = |countd: &Countd| -> Result<f64> {
        let before = countd.cpu_seconds()?;
        let done = send(countd.port, requests, READERS, time)?;
        Ok((countd.cpu_seconds()? - before) / done as f64)
    };
    // Warms up connections and caches.
    cost(&with)?;
    cost(&without)?;
    (0..ROUNDS)
        .map(|round| match round % 2 {
            0 => Ok(cost(&with)? / cost(&without)?),
            _ => {
                let without = cost(&without)?;
                Ok(cost(&with)? / without)
            }
        })
        .collect()
}
