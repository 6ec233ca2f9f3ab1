//! Speed of `countd rebuild`, beside that of the consumer.

use std::time::Instant;

use serde_json::Value;

use crate::driver::countd::{Countd, Target};
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::measure::countd::consumer::{
    self, check, fill, wait_until_archive_begins, wait_until_archived, wait_until_counted,
};
use crate::workload::counts::SplitMix;
use crate::workload::events::{EntityPool, partition};
use crate::workload::scale::{CountdScale, Scale};

/// By how much a counter is wrong before the rebuild.
const DIFFERENCE: u64 = 5_000;

/// The rates of a repeat, in events per second on hot keys.
pub struct ReplayRates {
    /// Of the consumer, without an archive.
    pub consume: f64,
    /// Of the consumer while it writes an archive.
    pub archive: f64,
    /// Of the rebuild, from its start to its end.
    pub rebuild: f64,
    /// CPU seconds of the server for each event of the rebuild.
    pub server_cpu: f64,
}

/// Counts events without an archive and with one, and rebuilds the counters from it.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<ReplayRates>> {
    // The cost of a rebuild that does not depend on the number of events counts for less than with few.
    let scale = &CountdScale {
        events: scale.countd.replayed_events,
        ..scale.countd
    };
    let mut rates = Vec::new();
    for _ in 0..scale.repeats {
        eprintln!("bench: countd, hot keys without an archive");
        let consume = with_server(programs, |target| {
            target.create_schema()?;
            Ok(consumer::measure(target, scale, EntityPool::Hot)?.consume)
        })?;
        eprintln!("bench: countd, hot keys with an archive, and a rebuild");
        rates.push(with_server(programs, |target| {
            rebuild(target, scale.events, consume)
        })?);
    }
    Ok(rates)
}

fn with_server<T>(programs: &Programs, measure: impl FnOnce(&Target) -> Result<T>) -> Result<T> {
    let dir = &Workdir::new()?;
    let server = &Server::start(programs, dir, Some(&programs.module))?;
    measure(&Target::new(programs, server, dir))
}

/// Rebuilds the counters from an archive, one of which is wrong.
fn rebuild(target: &Target, events: u64, consume: f64) -> Result<ReplayRates> {
    let server = target.server;
    let archive = target.dir.file("archive").to_string_lossy().into_owned();
    let settings = [("COUNTD_LOG__ARCHIVE__DIR", archive)];
    target.create_schema_with(&settings)?;
    // The archive begins where the logs are at its start.
    let countd = Countd::start_with(target, "consume", &settings)?;
    wait_until_archive_begins(server)?;
    drop(countd);
    fill(server, EntityPool::Hot, events)?;
    let started = Instant::now();
    let countd = Countd::start_with(target, "consume", &settings)?;
    wait_until_counted(server, events)?;
    let archive = events as f64 / started.elapsed().as_secs_f64();
    wait_until_archived(server, events)?;
    let mut control = server.control()?;
    let eid = EntityPool::Hot.pick(&mut SplitMix(3));
    let table = format!("tab:v1:note:{}", partition(eid));
    control.call(&format!("CTAB.INCRBY {table} {eid} 0 {DIFFERENCE}"))?;
    let (before, started) = (server.cpu_ns()?, Instant::now());
    let report = target.run("rebuild --from earliest --json", &settings)?;
    let seconds = started.elapsed().as_secs_f64();
    let server_cpu = (server.cpu_ns()? - before) as f64 / 1e9;
    drop(countd);
    let report: Value = serde_json::from_str(&report)?;
    let reads = &report["metrics"]["read"];
    if report["replayed"] != events || reads["difference"] != DIFFERENCE {
        return Err(format!("an unexpected report of {events} events: {report}").into());
    }
    check(&mut control, events)?;
    Ok(ReplayRates {
        consume,
        archive,
        rebuild: events as f64 / seconds,
        server_cpu: server_cpu / events as f64,
    })
}
