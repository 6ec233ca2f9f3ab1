//! Open-loop load: requests arrive as a Poisson process, whether or not earlier ones are answered.
//!
//! One thread sends all requests and reads all responses, so that it uses little of the core that it shares with countd.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::driver::cpu;
use crate::driver::http::Http;
use crate::error::Result;
use crate::workload::counts::SplitMix;

/// Connections. A request waits for a free one, which counts as latency.
const CONNECTIONS: usize = 64;

/// What a run found.
pub struct Answered {
    /// Seconds from the arrival of each request to its response.
    pub latencies: Vec<f64>,
    /// CPU seconds of the client.
    pub client_cpu: f64,
}

/// Times at which requests arrive: a Poisson process.
pub fn arrivals(per_second: f64, time: Duration, random: &mut SplitMix) -> Vec<Duration> {
    let (mut at, mut all) = (0.0, Vec::new());
    loop {
        // Uniform in (0, 1].
        let uniform = ((random.next() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        at -= uniform.ln() / per_second;
        if at >= time.as_secs_f64() {
            return all;
        }
        all.push(Duration::from_secs_f64(at));
    }
}

/// A connection and the arrival of the request that it waits for.
struct Pending {
    http: Http,
    arrival: Duration,
}

/// Sends each request at its time, or as soon as a connection is free, and waits for all responses.
pub fn send_at<'a>(
    port: u16,
    arrivals: &[Duration],
    nth: impl Fn(u64) -> Cow<'a, [u8]>,
) -> Result<Answered> {
    cpu::with_priority(|| send_now(port, arrivals, nth))
}

fn send_now<'a>(
    port: u16,
    arrivals: &[Duration],
    nth: impl Fn(u64) -> Cow<'a, [u8]>,
) -> Result<Answered> {
    // The thread wakes up when a request arrives, not up to 50 µs later.
    fs::write("/proc/self/timerslack_ns", "1")?;
    let mut free: Vec<Http> = (0..CONNECTIONS)
        .map(|_| Http::open(port))
        .collect::<Result<_>>()?;
    let mut pending: VecDeque<Pending> = VecDeque::new();
    let (mut next, mut latencies) = (0, Vec::with_capacity(arrivals.len()));
    let (started, cpu_before) = (Instant::now(), cpu::thread_ns()?);
    while next < arrivals.len() || !pending.is_empty() {
        while next < arrivals.len() && arrivals[next] <= started.elapsed() {
            let Some(mut http) = free.pop() else { break };
            http.start(&nth(next as u64))?;
            pending.push_back(Pending {
                http,
                arrival: arrivals[next],
            });
            next += 1;
        }
        let until_next = arrivals.get(next).filter(|_| !free.is_empty());
        let timeout = until_next.map(|arrival| arrival.saturating_sub(started.elapsed()));
        let readable = wait(&pending, timeout)?;
        // From the back, so that the indexes of the others stay.
        for index in readable.into_iter().rev() {
            if !pending[index].http.receive()? {
                continue;
            }
            let Some(done) = pending.remove(index) else {
                continue;
            };
            latencies.push((started.elapsed() - done.arrival).as_secs_f64());
            free.push(done.http);
        }
    }
    Ok(Answered {
        latencies,
        client_cpu: (cpu::thread_ns()? - cpu_before) as f64 / 1e9,
    })
}

/// Polls the connections until one is readable or the timeout expires. Returns the indexes of the readable ones.
fn wait(pending: &VecDeque<Pending>, timeout: Option<Duration>) -> Result<Vec<usize>> {
    let fds = pending.iter().map(|pending| {
        let fd = pending.http.as_fd().as_raw_fd();
        PollFd::new(fd, PollFlags::POLLIN)
    });
    let mut fds: Vec<PollFd> = fds.collect();
    match ppoll(&mut fds, timeout.map(TimeSpec::from_duration), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(why) => return Err(why.into()),
    }
    let is_ready = |fd: &PollFd| fd.revents().is_some_and(|events| !events.is_empty());
    let ready = fds.iter().enumerate().filter(|(_, fd)| is_ready(fd));
    Ok(ready.map(|(index, _)| index).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_arrive_at_random_times_with_the_rate() {
        let time = Duration::from_secs(100);
        let found = arrivals(1_000.0, time, &mut SplitMix(1));
        assert!((99_000..101_000).contains(&found.len()), "{}", found.len());
        assert!(found.is_sorted() && found.iter().all(|at| *at < time));
        let gaps: Vec<f64> = found
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs_f64())
            .collect();
        // The squared coefficient of variation of exponential times is 1.
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let squares = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
        let variation = squares / (mean * mean) - 1.0;
        assert!((0.95..1.05).contains(&variation), "{variation}");
    }
}
