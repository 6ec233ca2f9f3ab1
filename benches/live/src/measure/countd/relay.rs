//! Speed of `countd relay` with PostgreSQL and MariaDB, beside that of the consumer that counts the same events, and beside that of the
//! application that inserts the rows.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::countd::{Countd, Metrics, Storage, Target};
use crate::driver::database::{Database, DatabaseKind};
use crate::driver::mariadb::MariaDb;
use crate::driver::postgres::Postgres;
use crate::driver::programs::Programs;
use crate::driver::server::Workdir;
use crate::error::Result;
use crate::measure::countd::consumer::{check, wait_until_counted};
use crate::measure::countd::measure_target;
use crate::workload::outbox;
use crate::workload::scale::{CountdScale, Scale};

/// The timeout for relaying all rows.
const TIMEOUT: Duration = Duration::from_secs(600);
/// The interval between two looks at the table.
const POLL: Duration = Duration::from_millis(100);
/// Connections of the application that inserts rows.
pub const APPLICATION: usize = 16;
/// How long it inserts rows, in times of a kind of request.
const INSERTING: u32 = 4;

/// The rates of a repeat, in events per second.
pub struct RelayRates {
    /// From the outbox table into the log.
    pub relay: f64,
    /// From the log into the counters.
    pub consume: f64,
    /// CPU seconds of the relay for each event.
    pub relay_cpu: f64,
    /// Rows that the application inserts while the relay runs, each in a transaction.
    pub insert: f64,
    /// The seconds from the last insertion until no row is left.
    pub drain: f64,
}

/// Relays an outbox of each database, then counts the events.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<(DatabaseKind, RelayRates)>> {
    let mut rates = Vec::new();
    for repeat in 0..scale.countd.repeats {
        // The order alternates, so that neither database is always measured on a warmer machine.
        let mut kinds = DatabaseKind::ALL;
        kinds.rotate_left(repeat % 2);
        for kind in kinds {
            eprintln!("bench: countd, relay of an outbox in {}", kind.label());
            measure_target(programs, (Storage::Table, Metrics::Default), |target| {
                rates.push((kind, relay(target, kind, &scale.countd)?));
                Ok(())
            })?;
        }
    }
    Ok(rates)
}

fn relay(target: &Target, kind: DatabaseKind, scale: &CountdScale) -> Result<RelayRates> {
    let (database, events) = (&*start_database(kind, target.dir)?, scale.events);
    database.run(outbox::tables(kind))?;
    database.run(&outbox::fill(kind, events))?;
    database.run(outbox::analyze(kind))?;
    // The consumer runs afterwards, because it would use the same core.
    let started = Instant::now();
    let countd = start(target, database)?;
    wait_until_relayed(database)?;
    let relayed = started.elapsed().as_secs_f64();
    let relay_cpu = countd.cpu_seconds()? / events as f64;
    drop(countd);
    let started = Instant::now();
    let countd = Countd::start(target, "consume")?;
    wait_until_counted(target.server, events)?;
    let counted = started.elapsed().as_secs_f64();
    drop(countd);
    check(&mut target.server.control()?, events)?;
    let statement = target.dir.file("insert.sql");
    fs::write(&statement, outbox::insert(kind))?;
    let (insert, drain) = insert(target, database, &statement, scale.requests * INSERTING)?;
    Ok(RelayRates {
        relay: events as f64 / relayed,
        consume: events as f64 / counted,
        relay_cpu,
        insert,
        drain,
    })
}

/// Inserts rows while the relay runs. Returns rows per second, and the seconds from the last one until all are relayed.
fn insert(
    target: &Target,
    database: &dyn Database,
    statement: &Path,
    time: Duration,
) -> Result<(f64, f64)> {
    let _countd = start(target, database)?;
    let rate = database.repeat(statement, APPLICATION, time)?;
    let inserted = Instant::now();
    wait_until_relayed(database)?;
    Ok((rate, inserted.elapsed().as_secs_f64()))
}

fn start_database(kind: DatabaseKind, dir: &Workdir) -> Result<Box<dyn Database>> {
    Ok(match kind {
        DatabaseKind::Postgres => Box::new(Postgres::start(dir)?),
        DatabaseKind::MariaDb => Box::new(MariaDb::start(dir)?),
    })
}

fn start(target: &Target, database: &dyn Database) -> Result<Countd> {
    let settings = [
        ("COUNTD_RELAY__URL", database.url()),
        ("COUNTD_RELAY__MAX_LAG", "0".to_owned()),
    ];
    Countd::start_with(target, "relay", &settings)
}

/// Waits until no row is left.
fn wait_until_relayed(database: &dyn Database) -> Result<()> {
    let started = Instant::now();
    while !database
        .run("SELECT 1 FROM event_outbox LIMIT 1")?
        .is_empty()
    {
        if started.elapsed() > TIMEOUT {
            return Err("the relay does not reach the end of the outbox".into());
        }
        sleep(POLL);
    }
    Ok(())
}
