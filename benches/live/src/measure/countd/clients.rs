//! Clients that send requests, each over a connection of its own with one request in flight.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::driver::http::Http;
use crate::error::Result;

/// Distinct requests of each kind, sent in turn.
const VARIANTS: usize = 16;

/// Some requests of a kind.
pub fn variants(mut make: impl FnMut() -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..VARIANTS).map(|_| make()).collect()
}

/// Sends requests in turn over several connections for a time, and returns their number.
pub fn send(port: u16, requests: &[Vec<u8>], connections: usize, time: Duration) -> Result<u64> {
    let nth = |number: u64| Cow::from(&requests[number as usize % requests.len()]);
    send_each(port, nth, connections, time)
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
