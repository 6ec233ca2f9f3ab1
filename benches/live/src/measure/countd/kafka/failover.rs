//! One of two consumers is killed under a steady load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use super::results::Failover;
use super::setup::Setup;
use super::throughput::applied;
use crate::driver::control::Control;
use crate::driver::countd::Countd;
use crate::driver::http::Http;
use crate::error::Result;
use crate::measure::countd::consumer::{check, sum};
use crate::measure::countd::requests::some_actions;
use crate::workload::counts::SplitMix;
use crate::workload::events::EntityPool;
use crate::workload::scale::CountdScale;

/// Events per second.
pub const EVENTS_PER_SECOND: u64 = 20_000;
/// Actions in a request.
const ACTIONS: u64 = 100;
/// Distinct requests, sent in turn.
const VARIANTS: usize = 64;
/// The interval between two looks at the lag.
const LOOK: Duration = Duration::from_millis(50);
/// How long the lag is observed before the kill, at least.
const BEFORE: Duration = Duration::from_secs(3);
/// The timeout for anything.
const TIMEOUT: Duration = Duration::from_secs(90);

/// The load, and what was confirmed of it.
struct Load {
    confirmed: AtomicU64,
    /// Whether it has to end.
    ends: AtomicBool,
}

/// Kills a consumer, and observes the lag.
pub(super) fn measure(setup: &Setup, scale: &CountdScale) -> Result<Failover> {
    let serving = setup.start("serve")?;
    let [stays, dies] = [setup.start("consume")?, setup.start("consume")?];
    let load = &Load {
        confirmed: AtomicU64::new(0),
        ends: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let sending = scope.spawn(|| send(serving.port, load).map_err(|why| why.to_string()));
        let observed = observe(setup, load, (&stays, dies), scale.requests.max(BEFORE));
        load.ends.store(true, Relaxed);
        sending.join().map_err(|_| "a client panicked")??;
        let failover = observed?;
        let mut control = setup.target.server.control()?;
        let events = load.confirmed.load(Relaxed);
        wait_for(
            "all events are counted",
            || Ok(sum(&mut control)? >= events),
        )?;
        check(&mut control, events)?;
        Ok(failover)
    })
}

/// Sends requests at their times until it has to end.
fn send(port: u16, load: &Load) -> Result<()> {
    let random = &mut SplitMix(6);
    let requests: Vec<_> = (0..VARIANTS)
        .map(|_| some_actions(ACTIONS, "read", EntityPool::Hot, random))
        .collect();
    let interval = Duration::from_secs(1) * ACTIONS as u32 / EVENTS_PER_SECOND as u32;
    let (mut http, started) = (Http::open(port)?, Instant::now());
    for (number, request) in (0..).zip(requests.iter().cycle()) {
        if load.ends.load(Relaxed) {
            break;
        }
        sleep((interval * number).saturating_sub(started.elapsed()));
        http.request(request)?;
        load.confirmed.fetch_add(ACTIONS, Relaxed);
    }
    Ok(())
}

/// Observes the lag for a time, kills a consumer, and observes it until it is as before.
fn observe(
    setup: &Setup,
    load: &Load,
    (stays, dies): (&Countd, Countd),
    time: Duration,
) -> Result<Failover> {
    wait_for("both consumers have partitions", || {
        Ok(applied(stays)? > 0 && applied(&dies)? > 0)
    })?;
    let control = &mut setup.target.server.control()?;
    // What was appended before is counted, and assignments are final.
    sleep(time);
    let (mut usual, started) = (0, Instant::now());
    while started.elapsed() < time {
        usual = usual.max(lag(control, load)?);
        sleep(LOOK);
    }
    let killed = Instant::now();
    drop(dies);
    let mut observed = Observed::new(usual);
    while !observed.add(killed.elapsed(), lag(control, load)?) {
        if killed.elapsed() > TIMEOUT {
            return Err("the lag does not return to its usual level".into());
        }
        sleep(LOOK);
    }
    Ok(observed.into_failover(killed.elapsed()))
}

/// The lag after the kill.
struct Observed {
    usual: u64,
    peak: u64,
    peak_at: Duration,
}

impl Observed {
    fn new(usual: u64) -> Observed {
        Observed {
            usual,
            peak: 0,
            peak_at: Duration::ZERO,
        }
    }

    /// Adds a look. Returns whether the lag was higher than usual, and is not any more.
    fn add(&mut self, at: Duration, lag: u64) -> bool {
        if lag > self.peak {
            (self.peak, self.peak_at) = (lag, at);
        }
        self.peak > self.usual && lag <= self.usual
    }

    fn into_failover(self, recovered: Duration) -> Failover {
        Failover {
            usual: self.usual,
            peak: self.peak,
            taken_over: self.peak_at.as_secs_f64(),
            recovered: recovered.as_secs_f64(),
        }
    }
}

/// Confirmed events that are not counted.
fn lag(control: &mut Control, load: &Load) -> Result<u64> {
    let confirmed = load.confirmed.load(Relaxed);
    Ok(confirmed.saturating_sub(sum(control)?))
}

fn wait_for(what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !condition()? {
        if started.elapsed() > TIMEOUT {
            return Err(format!("gave up waiting until {what}").into());
        }
        sleep(LOOK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failover_ends_when_the_lag_is_usual_again() {
        let mut observed = Observed::new(1_000);
        let lags = [800, 5_000, 60_000, 90_000, 30_000, 1_001];
        for (second, lag) in (1..).zip(lags) {
            assert!(!observed.add(Duration::from_secs(second), lag), "{lag}");
        }
        assert!(observed.add(Duration::from_secs(7), 1_000));
        let failover = observed.into_failover(Duration::from_secs(7));
        assert_eq!((failover.usual, failover.peak), (1_000, 90_000));
        assert_eq!((failover.taken_over, failover.recovered), (4.0, 7.0));
    }
}
