//! Requests to the API: how many a second, and how soon an action is visible while others pour in.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::events::{Random, Spreading};
use super::http::{Http, get, post};
use super::process::Countd;
use super::section::{Figures, Kind, Rate};
use crate::Result;
use crate::options::Options;
use crate::server::{Server, Workdir};

/// Actions in a `POST /actions`.
const ACTIONS: u64 = 1_000;
/// Entities in a `POST /counter/batch`.
const ENTITIES: u64 = 100;
/// Different requests of a kind.
const VARIANTS: usize = 16;
/// Connections that watch their own action become visible.
const PROBERS: u64 = 8;
/// How long one waits before it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// No action takes so long.
const LIMIT: Duration = Duration::from_secs(60);

/// Sends every kind of request to a countd that serves and counts.
pub fn measure(
    options: &Options,
    server: &Server,
    dir: &Workdir,
    figures: &mut Figures,
) -> Result<()> {
    eprintln!("bench: countd, requests");
    let countd = Countd::start(options, server, dir, "all")?;
    let time = options.scale.countd.requests;
    let random = &mut Random(2);
    let mut run = |kind, requests: &[Vec<u8>], connections, units: u64| -> Result<()> {
        // Connections and caches warm up first.
        send(countd.port, requests, connections, time / 10)?;
        let (countd_before, server_before) = (countd.cpu_seconds()?, server.cpu_ns()?);
        let started = Instant::now();
        let done = (send(countd.port, requests, connections, time)? * units) as f64;
        let seconds = started.elapsed().as_secs_f64();
        let rate = Rate {
            per_second: done / seconds,
            countd_cpu: (countd.cpu_seconds()? - countd_before) / done,
            server_cpu: (server.cpu_ns()? - server_before) as f64 / 1e9 / done,
        };
        figures.rates.push((kind, rate));
        Ok(())
    };
    let reads = many(|| actions("read", Spreading::Hot, random));
    run(Kind::Reads, &reads, 4, ACTIONS)?;
    let likes = many(|| actions("like", Spreading::LongTail, random));
    run(Kind::Likes, &likes, 4, ACTIONS)?;
    let batches = many(|| batch(random));
    run(Kind::Batches, &batches, 8, ENTITIES)?;
    let one = many(|| {
        get(&format!(
            "/counter/note/{}",
            Spreading::LongTail.pick(random)
        ))
    });
    run(Kind::Single, &one, 16, 1)?;
    let seconds = visible(countd.port, &reads, options.scale.countd.probes)?;
    figures.visible.extend(seconds);
    Ok(())
}

fn many(mut make: impl FnMut() -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..VARIANTS).map(|_| make()).collect()
}

/// A request with many actions. Nobody does the same twice, so likes are news.
fn actions(metric: &str, spreading: Spreading, random: &mut Random) -> Vec<u8> {
    let mut lines = String::new();
    for _ in 0..ACTIONS {
        let (eid, uid) = (spreading.pick(random), random.below(1 << 50));
        lines.push_str(&format!(
            "{{\"metric\":\"{metric}\",\"etype\":\"note\",\"eid\":\"{eid}\",\"uid\":\"{uid}\"}}\n"
        ));
    }
    post("/actions", &lines)
}

/// A page of a feed.
fn batch(random: &mut Random) -> Vec<u8> {
    let item = |_| {
        let eid = Spreading::LongTail.pick(random);
        format!("{{\"etype\":\"note\",\"eid\":\"{eid}\"}}")
    };
    let items: Vec<String> = (0..ENTITIES).map(item).collect();
    post(
        "/counter/batch",
        &format!("{{\"items\":[{}]}}", items.join(",")),
    )
}

/// Sends requests over some connections, each with one under way, and says how many.
fn send(port: u16, requests: &[Vec<u8>], connections: usize, time: Duration) -> Result<u64> {
    let (end, sent) = (Instant::now() + time, AtomicU64::new(0));
    together(connections, |number| {
        let mut http = Http::open(port)?;
        for request in requests.iter().cycle().skip(number) {
            if Instant::now() >= end {
                break;
            }
            http.ask(request)?;
            sent.fetch_add(1, Relaxed);
        }
        Ok(())
    })?;
    Ok(sent.into_inner())
}

/// Seconds from sending an action to reading its count, while others send actions as fast as they can.
fn visible(port: u16, load: &[Vec<u8>], probes: usize) -> Result<Vec<f64>> {
    let enough = AtomicBool::new(false);
    thread::scope(|scope| {
        let loaders = scope.spawn(|| {
            together(2, |number| {
                let mut http = Http::open(port)?;
                for request in load.iter().cycle().skip(number) {
                    if enough.load(Relaxed) {
                        break;
                    }
                    http.ask(request)?;
                }
                Ok(())
            })
            .map_err(|why| why.to_string())
        });
        let found = std::sync::Mutex::new(Vec::new());
        // The load has to be there first.
        thread::sleep(Duration::from_millis(500));
        let probed = together(PROBERS as usize, |number| {
            let mut seconds = Vec::new();
            let mut http = Http::open(port)?;
            for probe in 0..probes.div_ceil(PROBERS as usize) {
                // An entity that nobody else has.
                let eid = 1 + number * 1_000_000 + probe;
                seconds.push(until_visible(&mut http, eid)?);
            }
            found.lock().map_err(|_| "a probe broke")?.extend(seconds);
            Ok(())
        });
        enough.store(true, Relaxed);
        probed?;
        loaders.join().map_err(|_| "a client broke")??;
        Ok(found.into_inner()?)
    })
}

fn until_visible(http: &mut Http, eid: usize) -> Result<f64> {
    let body = format!("{{\"etype\":\"note\",\"eid\":\"{eid}\",\"uid\":\"42\"}}");
    let question = get(&format!("/counter/note/{eid}?metrics=read"));
    let started = Instant::now();
    http.ask(&post("/action/read", &body))?;
    while !String::from_utf8_lossy(http.ask(&question)?).contains("\"read\":1") {
        if started.elapsed() > LIMIT {
            return Err("an action is never visible".into());
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Runs `work` on some threads, numbered, and waits for all.
fn together(threads: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let work = &work;
        let run = |number| scope.spawn(move || work(number).map_err(|why| why.to_string()));
        let running: Vec<_> = (0..threads).map(run).collect();
        for thread in running {
            thread.join().map_err(|_| "a client broke")??;
        }
        Ok(())
    })
}
