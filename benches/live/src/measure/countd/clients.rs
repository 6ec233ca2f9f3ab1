//! Clients that send requests, each over a connection of its own with one request in flight.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::driver::countd::{Countd, metric};
use crate::driver::http::{Http, get};
use crate::error::Result;

/// Distinct requests of each kind, sent in turn.
const VARIANTS: usize = 16;
/// Distinct requests of a kind of which each is sent once. More are not sent in the longest run.
const DISTINCT: usize = 1_000;

/// The timeout for countd to count all events.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Some requests of a kind.
pub fn variants(mut make: impl FnMut() -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..VARIANTS).map(|_| make()).collect()
}

/// Distinct requests of a kind, enough for a run that sends each once.
pub fn distinct(mut make: impl FnMut() -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..DISTINCT).map(|_| make()).collect()
}

/// Requests that are sent in turn, in several runs.
pub struct InTurn<'a> {
    requests: &'a [Vec<u8>],
    sent: AtomicU64,
}

impl InTurn<'_> {
    /// None of these has been sent.
    pub fn new(requests: &[Vec<u8>]) -> InTurn<'_> {
        InTurn {
            requests,
            sent: AtomicU64::new(0),
        }
    }

    /// Sends the next requests over several connections for a time. Returns their number.
    pub fn send(&self, port: u16, connections: usize, time: Duration) -> Result<u64> {
        let nth = |_| {
            let number = self.sent.fetch_add(1, Relaxed);
            Cow::from(&self.requests[number as usize % self.requests.len()])
        };
        send_each(port, nth, connections, time)
    }

    /// Fails if a request was sent twice.
    pub fn check_once(&self) -> Result<()> {
        match self.sent.load(Relaxed) <= self.requests.len() as u64 {
            true => Ok(()),
            false => Err("there were too few requests to send each once".into()),
        }
    }
}

/// Sends requests in turn over several connections for a time, and returns their number.
pub fn send(port: u16, requests: &[Vec<u8>], connections: usize, time: Duration) -> Result<u64> {
    InTurn::new(requests).send(port, connections, time)
}

/// Sends the requests that `nth` makes, each once, over several connections for a time, and returns their number.
pub fn send_each<'a>(
    port: u16,
    nth: impl Fn(u64) -> Cow<'a, [u8]> + Sync,
    connections: usize,
    time: Duration,
) -> Result<u64> {
    let (end, sent) = (Instant::now() + time, AtomicU64::new(0));
    run_threads(connections, |_| {
        let mut http = Http::open(port)?;
        while Instant::now() < end {
            http.request(&nth(sent.fetch_add(1, Relaxed)))?;
        }
        Ok(())
    })?;
    Ok(sent.into_inner())
}

/// Sends each request once over several connections.
pub fn send_all(port: u16, requests: &[Vec<u8>], connections: usize) -> Result<()> {
    let next = AtomicU64::new(0);
    run_threads(connections, |_| {
        let mut http = Http::open(port)?;
        while let Some(request) = requests.get(next.fetch_add(1, Relaxed) as usize) {
            http.request(request)?;
        }
        Ok(())
    })
}

/// Runs `work` on numbered threads and waits for all of them.
pub fn run_threads(threads: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let work = &work;
        let run = |number| scope.spawn(move || work(number).map_err(|why| why.to_string()));
        let running: Vec<_> = (0..threads).map(run).collect();
        for thread in running {
            thread.join().map_err(|_| "a client panicked")??;
        }
        Ok(())
    })
}

/// The value of a metric without labels in `/metrics`; 0 if it is not there.
pub fn read_metric(http: &mut Http, name: &str) -> Result<u64> {
    let text = String::from_utf8_lossy(http.request(&get("/metrics"))?);
    Ok(metric(&text, name).unwrap_or(0))
}

/// Waits until countd has counted all events that it has appended.
pub fn wait_until_counted(countd: &Countd) -> Result<()> {
    let started = Instant::now();
    let mut http = Http::open(countd.port)?;
    let mut last = None;
    while started.elapsed() < TIMEOUT {
        let text = String::from_utf8_lossy(http.request(&get("/metrics"))?).into_owned();
        let (appended, applied) = (
            metric(&text, "countd_events_appended_total").unwrap_or(0),
            metric(&text, "countd_events_applied_total"),
        );
        // Derived events are counted, too.
        if applied == last && applied.unwrap_or(0) >= appended {
            return Ok(());
        }
        last = applied;
        thread::sleep(Duration::from_millis(200));
    }
    Err("countd does not count all events".into())
}
