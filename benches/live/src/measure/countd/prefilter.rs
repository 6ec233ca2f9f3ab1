//! Statuses of users who never acted, answered by the prefilter and read from Redis.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::countd::{Countd, Metrics, Setting, Storage, Target};
use crate::driver::cpu;
use crate::driver::http::{Http, get, post};
use crate::driver::programs::Programs;
use crate::error::Result;
use crate::measure::countd::clients::{read_metric, send_all, send_each};
use crate::measure::countd::hot::{READERS, Rate, rate};
use crate::measure::countd::measure_target;
use crate::measure::countd::requests::{ACTIONS, ENTITIES, actions, items};
use crate::workload::counts::SplitMix;
use crate::workload::events::EntityPool;
use crate::workload::scale::Scale;

/// Likes that the filter has.
pub const FACTS: u64 = 100_000;
/// Connections that send these likes.
const LIKERS: usize = 4;
/// Connections that each send statuses of one entity. As many requests share a `PING`.
const SINGLE_READERS: usize = 64;
/// Distinct pages of entities.
const PAGES: usize = 1_000;
/// Rounds of each repeat. Each has all kinds of requests, so that a slower machine slows all of them.
const ROUNDS: u32 = 6;
/// The first user who never acted. Users who like something have ids below 2^50.
const FIRST_USER: u64 = 2_000_000_000_000_000;
/// The timeout for the filter to be built and to answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The interval between two statuses until the filter answers.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The rates of one kind of request in a round, in statuses.
#[derive(Clone, Copy)]
pub struct Pair {
    /// With the prefilter.
    pub with: Rate,
    /// Without it.
    pub without: Rate,
}

/// The results of a round.
pub struct PrefilterRates {
    /// `POST /status/batch` with pages of 100 entities.
    pub page: Pair,
    /// `GET /status` of one entity.
    pub single: Pair,
}

/// A kind of request.
#[derive(Clone, Copy)]
enum Kind {
    /// `POST /status/batch`.
    Page,
    /// `GET /status`.
    Single,
}

/// Requests for statuses, each of another user who never acted.
struct Flood {
    /// The next user.
    users: AtomicU64,
    /// The entities of each page, as JSON.
    pages: Vec<String>,
}

impl Flood {
    fn new(random: &mut SplitMix) -> Flood {
        Flood {
            users: AtomicU64::new(FIRST_USER),
            pages: (0..PAGES).map(|_| items(random)).collect(),
        }
    }

    /// The next request.
    fn request(&self, kind: Kind) -> Vec<u8> {
        let uid = self.users.fetch_add(1, Relaxed);
        match kind {
            Kind::Page => {
                let items = &self.pages[uid as usize % self.pages.len()];
                let body =
                    format!("{{\"uid\":\"{uid}\",\"metrics\":[\"like\"],\"items\":{items}}}");
                post("/status/batch", &body)
            }
            Kind::Single => {
                let eid = EntityPool::LongTail.pick(&mut SplitMix(uid));
                get(&format!("/status/note/{eid}?uid={uid}&metrics=like"))
            }
        }
    }

    /// Sends requests for a time. Returns the number of statuses.
    fn send(&self, port: u16, kind: Kind, time: Duration) -> Result<u64> {
        let (connections, statuses) = match kind {
            Kind::Page => (READERS, ENTITIES),
            Kind::Single => (SINGLE_READERS, 1),
        };
        let nth = |_| Cow::from(self.request(kind));
        Ok(send_each(port, nth, connections, time)? * statuses)
    }
}

/// Takes all measurements.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<PrefilterRates>> {
    let mut rates = Vec::new();
    for _ in 0..scale.countd.repeats {
        eprintln!("bench: countd, statuses of users who never acted");
        measure_target(programs, (Storage::Table, Metrics::Default), |target| {
            measure_rounds(target, scale.countd.requests / 3, &mut rates)
        })?;
    }
    Ok(rates)
}

/// Measures both kinds of requests with and without the prefilter in turn. countd shares the core of Redis. Nothing consumes the events.
fn measure_rounds(target: &Target, time: Duration, rates: &mut Vec<PrefilterRates>) -> Result<()> {
    let start = |enabled: bool| {
        let setting: [Setting; 1] = [("COUNTD_PREFILTER__ENABLED", enabled.to_string())];
        cpu::on_server_core(|| Countd::start_with(target, "serve", &setting))
    };
    let random = &mut SplitMix(5);
    let without = start(false)?;
    let likes = (0..FACTS / ACTIONS).map(|_| actions("like", EntityPool::LongTail, random));
    send_all(without.port, &Vec::from_iter(likes), LIKERS)?;
    let flood = Flood::new(random);
    let with = start(true)?;
    wait_until_answered(&with, &flood)?;
    // Warms up connections and caches.
    for kind in [Kind::Page, Kind::Single] {
        for countd in [&with, &without] {
            flood.send(countd.port, kind, time / 3)?;
        }
    }
    let rate_of = |countd: &Countd, kind| {
        let send = || flood.send(countd.port, kind, time);
        rate(target, &|| countd.cpu_seconds(), &send)
    };
    for round in 0..ROUNDS {
        // Fields are measured in the order in which they are written.
        let pair = |kind| -> Result<Pair> {
            Ok(match round % 2 {
                0 => Pair {
                    with: rate_of(&with, kind)?,
                    without: rate_of(&without, kind)?,
                },
                _ => Pair {
                    without: rate_of(&without, kind)?,
                    with: rate_of(&with, kind)?,
                },
            })
        };
        rates.push(PrefilterRates {
            page: pair(Kind::Page)?,
            single: pair(Kind::Single)?,
        });
    }
    check_kept(&with, &flood)
}

/// Waits until the prefilter answers statuses.
fn wait_until_answered(countd: &Countd, flood: &Flood) -> Result<()> {
    const ANSWERS: &str = "countd_prefilter_answers_total";
    let (mut http, started) = (Http::open(countd.port)?, Instant::now());
    let before = read_metric(&mut http, ANSWERS)?;
    while started.elapsed() < TIMEOUT {
        http.request(&flood.request(Kind::Single))?;
        if read_metric(&mut http, ANSWERS)? > before {
            return Ok(());
        }
        sleep(POLL_INTERVAL);
    }
    Err("the prefilter does not answer".into())
}

/// Fails if statuses were read from Redis for a time, because the filter was dropped: it has been built again since.
fn check_kept(countd: &Countd, flood: &Flood) -> Result<()> {
    wait_until_answered(countd, flood)?;
    let builds = read_metric(
        &mut Http::open(countd.port)?,
        "countd_prefilter_builds_total",
    )?;
    match builds {
        1 => Ok(()),
        _ => Err(format!("the prefilter was built {builds} times, not once").into()),
    }
}
