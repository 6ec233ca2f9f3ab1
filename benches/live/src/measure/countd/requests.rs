//! Requests to the API: their throughput, and the time until an action's count is visible under load.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::driver::bare::Bare;
use crate::driver::countd::{Countd, Storage, Target};
use crate::driver::cpu;
use crate::driver::http::{Http, get, post};
use crate::driver::programs::Programs;
use crate::error::Result;
use crate::measure::countd::clients::{
    InTurn, distinct, run_threads, send, variants, wait_until_counted,
};
use crate::measure::countd::results::{CountdResults, RequestKind, RequestRate};
use crate::workload::counts::SplitMix;
use crate::workload::events::EntityPool;
use crate::workload::scale::CountdScale;

/// Actions per `POST /actions`.
pub const ACTIONS: u64 = 1_000;
/// Entities per `POST /counter/batch` and `POST /feed`.
pub const ENTITIES: u64 = 100;
/// Connections that poll for the visibility of their own actions.
const PROBERS: u64 = 8;
/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The timeout for an action's count to become visible.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends every kind of request to `countd all`; with objects, only reads of pages.
pub fn measure(target: &Target, scale: &CountdScale, results: &mut CountdResults) -> Result<()> {
    let countd = Countd::start(target, "all")?;
    let (server, storage) = (target.server, target.storage);
    let time = scale.requests;
    let random = &mut SplitMix(2);
    let mut run = |kind, requests: &[Vec<u8>], connections, units: u64| -> Result<()> {
        let requests = InTurn::new(requests);
        let send = |time| requests.send(countd.port, connections, time);
        // Warms up connections and caches.
        send(time / 10)?;
        wait_until_counted(&countd)?;
        let (countd_before, server_before) = (countd.cpu_seconds()?, server.cpu_ns()?);
        let (client_before, started) = (cpu::own_seconds()?, Instant::now());
        let done = (send(time)? * units) as f64;
        let seconds = started.elapsed().as_secs_f64();
        let client_cpu = (cpu::own_seconds()? - client_before) / done;
        if kind == RequestKind::Likes {
            // The second time changes nothing.
            requests.check_once()?;
        }
        // The costs include counting.
        wait_until_counted(&countd)?;
        let rate = RequestRate {
            per_second: done / seconds,
            client_cpu,
            countd_cpu: (countd.cpu_seconds()? - countd_before) / done,
            server_cpu: (server.cpu_ns()? - server_before) as f64 / 1e9 / done,
        };
        results.rates.push((kind, storage, rate));
        Ok(())
    };
    let batches = variants(|| post("/counter/batch", &page(None, random)));
    run(RequestKind::Batches, &batches, 8, ENTITIES)?;
    if storage == Storage::Object {
        return Ok(());
    }
    let likes = distinct(|| actions("like", EntityPool::LongTail, random));
    run(RequestKind::Likes, &likes, 4, ACTIONS)?;
    // Some facts exist now.
    let feeds = variants(|| post("/feed", &page(Some(random.below(1 << 50)), random)));
    run(RequestKind::Feeds, &feeds, 8, ENTITIES)?;
    let reads = variants(|| actions("read", EntityPool::Hot, random));
    run(RequestKind::Reads, &reads, 4, ACTIONS)?;
    let one = variants(|| {
        get(&format!(
            "/counter/note/{}",
            EntityPool::LongTail.pick(random)
        ))
    });
    run(RequestKind::Single, &one, 16, 1)?;
    let rate = measure_bare(target.programs, &one, time)?;
    results.rates.push((RequestKind::Bare, storage, rate));
    let seconds = measure_visibility(countd.port, &reads, scale.probes)?;
    results.visibility_seconds.extend(seconds);
    Ok(())
}

/// Sends the single reads to the bare server.
fn measure_bare(programs: &Programs, requests: &[Vec<u8>], time: Duration) -> Result<RequestRate> {
    let bare = Bare::start(programs)?;
    send(bare.port, requests, 16, time / 10)?;
    let (before, client_before) = (bare.cpu_seconds()?, cpu::own_seconds()?);
    let started = Instant::now();
    let done = send(bare.port, requests, 16, time)? as f64;
    Ok(RequestRate {
        client_cpu: (cpu::own_seconds()? - client_before) / done,
        per_second: done / started.elapsed().as_secs_f64(),
        countd_cpu: (bare.cpu_seconds()? - before) / done,
        server_cpu: 0.0,
    })
}

/// A request with many actions. User ids are random, so nearly every like is a new fact when it is sent for the first time.
pub fn actions(metric: &str, pool: EntityPool, random: &mut SplitMix) -> Vec<u8> {
    some_actions(ACTIONS, metric, pool, random)
}

/// [`actions`], of this number.
pub fn some_actions(number: u64, metric: &str, pool: EntityPool, random: &mut SplitMix) -> Vec<u8> {
    let mut lines = String::new();
    for _ in 0..number {
        let (eid, uid) = some_action(pool, random);
        lines.push_str(&format!(
            "{{\"metric\":\"{metric}\",\"etype\":\"note\",\"eid\":\"{eid}\",\"uid\":\"{uid}\"}}\n"
        ));
    }
    post("/actions", &lines)
}

/// The entity and the user of the next of [`some_actions`].
pub fn some_action(pool: EntityPool, random: &mut SplitMix) -> (u64, u64) {
    (pool.pick(random), random.below(1 << 50))
}

/// The body of a request for a page, as a user sees it.
pub fn page(uid: Option<u64>, random: &mut SplitMix) -> String {
    let user = uid.map_or(String::new(), |uid| format!("\"uid\":\"{uid}\","));
    format!("{{{user}\"items\":{}}}", items(random))
}

/// The entities of a page, as JSON.
pub fn items(random: &mut SplitMix) -> String {
    let item = |_| {
        let eid = EntityPool::LongTail.pick(random);
        format!("{{\"etype\":\"note\",\"eid\":\"{eid}\"}}")
    };
    let items: Vec<String> = (0..ENTITIES).map(item).collect();
    format!("[{}]", items.join(","))
}

/// The seconds from sending each probe action until its count is visible, while other connections send `load`.
fn measure_visibility(port: u16, load: &[Vec<u8>], probes: usize) -> Result<Vec<f64>> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let loaders = scope.spawn(|| {
            run_threads(2, |number| {
                let mut http = Http::open(port)?;
                for request in load.iter().cycle().skip(number) {
                    if done.load(Relaxed) {
                        break;
                    }
                    http.request(request)?;
                }
                Ok(())
            })
            .map_err(|why| why.to_string())
        });
        let found = std::sync::Mutex::new(Vec::new());
        // Waits until the load is steady.
        thread::sleep(Duration::from_millis(500));
        let probed = run_threads(PROBERS as usize, |number| {
            let mut seconds = Vec::new();
            let mut http = Http::open(port)?;
            for probe in 0..probes.div_ceil(PROBERS as usize) {
                // Each probe has a distinct entity.
                let eid = 1 + number * 1_000_000 + probe;
                seconds.push(visibility_latency(&mut http, eid)?);
            }
            found
                .lock()
                .map_err(|_| "a probe panicked")?
                .extend(seconds);
            Ok(())
        });
        done.store(true, Relaxed);
        probed?;
        loaders.join().map_err(|_| "a client panicked")??;
        Ok(found.into_inner()?)
    })
}

fn visibility_latency(http: &mut Http, eid: usize) -> Result<f64> {
    let body = format!("{{\"etype\":\"note\",\"eid\":\"{eid}\",\"uid\":\"42\"}}");
    let query = get(&format!("/counter/note/{eid}?metrics=read"));
    let started = Instant::now();
    http.request(&post("/action/read", &body))?;
    while !String::from_utf8_lossy(http.request(&query)?).contains("\"read\":1") {
        if started.elapsed() > TIMEOUT {
            return Err("the count of an action does not become visible".into());
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(started.elapsed().as_secs_f64())
}
