//! The costs of actions at low load: hardly two of them share a partition in a commit.
//!
//! Two rates give two costs: that of an action, and that of the polls, which are as frequent at both.

use std::borrow::Cow;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::countd::{Countd, Target};
use crate::driver::http::{Http, get, post};
use crate::error::Result;
use crate::measure::countd::clients::wait_until_counted;
use crate::measure::countd::open_loop::{arrivals, send_at};
use crate::measure::countd::requests::{some_action, some_actions};
use crate::measure::countd::results::{Alone, Cpu, Few, Sparse};
use crate::measure::stats::Spread;
use crate::workload::counts::SplitMix;
use crate::workload::events::EntityPool;

/// Actions per second. A commit has those of about 40 ms, so even of the higher rate a partition seldom has two.
pub const RATES: [u64; 2] = [500, 5_000];
/// Requests per second of which each comes alone.
pub const ALONE: f64 = 1_000.0;
/// Distinct requests. More likes are not sent in the longest run, and each changes something.
const DISTINCT: usize = 5_000;
/// How often requests with few actions are sent.
const INTERVAL: Duration = Duration::from_millis(5);
/// The same, in a second.
const REQUESTS: f64 = 200.0;

/// Measures `countd all` of a new target.
pub fn measure(target: &Target, time: Duration) -> Result<Few> {
    let countd = Countd::start(target, "all")?;
    let at_rates = |metric| -> Result<Sparse> {
        let [few, many] = RATES.map(|rate| send(target, &countd, (metric, rate), time));
        let (few, many) = (few?, many?);
        let part = |of: fn((f64, f64)) -> f64| few.map(many, |few, many| of(line([few, many])));
        Ok(Sparse {
            action: part(|(action, _)| action),
            second: part(|(_, second)| second),
        })
    };
    let (reads, likes) = (at_rates("read")?, at_rates("like")?);
    // After the actions, because empty logs cost less than those with entries.
    let idle = send(target, &countd, ("read", 0), time)?;
    // Entities that have counters: that there are none is looked up in a second place.
    let counted = &mut SplitMix(RATES[1]);
    let gets: Vec<Vec<u8>> = (0..DISTINCT)
        .map(|_| {
            let (eid, _) = some_action(EntityPool::LongTail, counted);
            get(&format!("/counter/note/{eid}"))
        })
        .collect();
    let random = &mut SplitMix(1);
    let posts: Vec<Vec<u8>> = (0..DISTINCT)
        .map(|user| {
            let body = format!(
                r#"{{"etype":"note","eid":"{}","uid":"{}"}}"#,
                EntityPool::LongTail.pick(random),
                user + 1
            );
            post("/action/like", &body)
        })
        .collect();
    let (reads_used, reads_p50) = send_alone(target, &countd, &gets, time)?;
    let (likes_used, likes_p50) = send_alone(target, &countd, &posts, time)?;
    let likes_used = likes_used
        .map(likes.second, |used, second| used - second)
        .map(likes.action, |used, like| used - like * ALONE);
    Ok(Few {
        reads,
        likes,
        idle,
        alone_reads: Alone {
            cpu: reads_used.map(idle, |used, idle| (used - idle) / ALONE),
            p50: reads_p50,
        },
        alone_likes: Alone {
            // The second of few likes has requests, too.
            cpu: likes_used.map(likes_used, |used, _| used / (ALONE - REQUESTS)),
            p50: likes_p50,
        },
    })
}

/// Sends requests at random times. Returns the CPU seconds of a second, and the median of the seconds until a response.
fn send_alone(
    target: &Target,
    countd: &Countd,
    requests: &[Vec<u8>],
    time: Duration,
) -> Result<(Cpu, f64)> {
    let arrivals = arrivals(ALONE, time, &mut SplitMix(3));
    let nth = |number: u64| Cow::from(&requests[number as usize % requests.len()]);
    let mut p50 = 0.0;
    let used = used_by(target, countd, || {
        let answered = send_at(countd.port, &arrivals, nth)?;
        let client = answered.client_cpu / arrivals.len() as f64;
        p50 = Spread::of(answered.latencies).median() - client;
        Ok(())
    })?;
    Ok((used, p50))
}

/// The actions of a run.
fn actions(rate: u64, time: Duration) -> u64 {
    (rate as f64 * time.as_secs_f64()) as u64
}

/// What each action costs and what a second costs, if seconds with these [`RATES`] cost this much.
fn line([few, many]: [f64; 2]) -> (f64, f64) {
    let action = (many - few) / (RATES[1] - RATES[0]) as f64;
    (action, few - action * RATES[0] as f64)
}

/// Sends actions for a time. Returns the CPU seconds of a second.
fn send(
    target: &Target,
    countd: &Countd,
    (metric, rate): (&str, u64),
    time: Duration,
) -> Result<Cpu> {
    let (random, mut http) = (&mut SplitMix(rate), Http::open(countd.port)?);
    used_by(target, countd, || {
        let (mut sent, started) = (0, Instant::now());
        while started.elapsed() < time {
            sleep(INTERVAL);
            let due = actions(rate, started.elapsed()) - sent;
            if due > 0 {
                http.request(&some_actions(due, metric, EntityPool::LongTail, random))?;
                sent += due;
            }
        }
        Ok(())
    })
}

/// The CPU seconds of a second of `work`.
fn used_by(target: &Target, countd: &Countd, work: impl FnOnce() -> Result<()>) -> Result<Cpu> {
    wait_until_counted(countd)?;
    let used = || -> Result<Cpu> {
        Ok(Cpu {
            countd: countd.cpu_seconds()?,
            server: target.server.cpu_ns()? as f64 / 1e9,
        })
    };
    let (before, started) = (used()?, Instant::now());
    work()?;
    let (after, seconds) = (used()?, started.elapsed().as_secs_f64());
    Ok(after.map(before, |after, before| (after - before) / seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rates_give_the_cost_of_an_action_and_of_a_second() {
        let (action, second) = line([0.05 + 500.0 * 10e-6, 0.05 + 5_000.0 * 10e-6]);
        assert!((action - 10e-6).abs() < 1e-12 && (second - 0.05).abs() < 1e-9);
    }
}
