//! Speed of `countd relay` with PostgreSQL, beside that of the consumer that counts the same events, and beside that of the application
//! that inserts the rows.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::countd::{Countd, Metrics, Storage, Target};
use crate::driver::postgres::Postgres;
use crate::driver::programs::Programs;
use crate::error::Result;
use crate::measure::countd::consumer::{check, wait_until_counted};
use crate::measure::countd::measure_target;
use crate::workload::scale::{CountdScale, Scale};

/// The timeout for relaying all rows.
const TIMEOUT: Duration = Duration::from_secs(600);
/// The interval between two looks at the table.
const POLL: Duration = Duration::from_millis(100);
/// Connections of the application that inserts rows.
pub const APPLICATION: usize = 16;
/// How long it inserts rows, in times of a kind of request.
const INSERTING: u32 = 4;
/// A transaction of the application, without what it changes besides: that only makes it slower.
const INSERT: &str = "INSERT INTO event_outbox (event_id, event_type, aggregate_type, aggregate_id, payload) VALUES \
    (gen_random_uuid(), 'read', 'note', 7000000000000000 + (random() * 1000)::bigint, \
    '{\"delta\": 1, \"uid\": \"1000000000000001\", \"ts\": 1763750000000}')";

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

/// Relays an outbox, then counts the events.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<RelayRates>> {
    let mut rates = Vec::new();
    for _ in 0..scale.countd.repeats {
        eprintln!("bench: countd, relay of an outbox in PostgreSQL");
        measure_target(programs, (Storage::Table, Metrics::Default), |target| {
            let postgres = Postgres::start(target.dir)?;
            rates.push(relay(target, &postgres, &scale.countd)?);
            Ok(())
        })?;
    }
    Ok(rates)
}

fn relay(target: &Target, postgres: &Postgres, scale: &CountdScale) -> Result<RelayRates> {
    let events = scale.events;
    fill(postgres, events)?;
    // The consumer runs afterwards, because it would use the same core.
    let started = Instant::now();
    let countd = start(target, postgres)?;
    wait_until_relayed(postgres)?;
    let relayed = started.elapsed().as_secs_f64();
    let relay_cpu = countd.cpu_seconds()? / events as f64;
    drop(countd);
    let started = Instant::now();
    let countd = Countd::start(target, "consume")?;
    wait_until_counted(target.server, events)?;
    let counted = started.elapsed().as_secs_f64();
    drop(countd);
    check(&mut target.server.control()?, events)?;
    let (insert, drain) = insert(target, postgres, scale.requests * INSERTING)?;
    Ok(RelayRates {
        relay: events as f64 / relayed,
        consume: events as f64 / counted,
        relay_cpu,
        insert,
        drain,
    })
}

/// Inserts rows while the relay runs. Returns rows per second, and the seconds from the last one until all are relayed.
fn insert(target: &Target, postgres: &Postgres, time: Duration) -> Result<(f64, f64)> {
    let statement = target.dir.file("insert.sql");
    fs::write(&statement, INSERT)?;
    let _countd = start(target, postgres)?;
    let rate = postgres.repeat(&statement, APPLICATION, time)?;
    let inserted = Instant::now();
    wait_until_relayed(postgres)?;
    Ok((rate, inserted.elapsed().as_secs_f64()))
}

fn start(target: &Target, postgres: &Postgres) -> Result<Countd> {
    let settings = [
        ("COUNTD_RELAY__URL", postgres.url()),
        ("COUNTD_RELAY__MAX_LAG", "0".to_owned()),
    ];
    Countd::start_with(target, "relay", &settings)
}

/// Waits until no row is left.
fn wait_until_relayed(postgres: &Postgres) -> Result<()> {
    let started = Instant::now();
    while postgres.run("SELECT EXISTS (SELECT FROM event_outbox)")? != "f" {
        if started.elapsed() > TIMEOUT {
            return Err("the relay does not reach the end of the outbox".into());
        }
        sleep(POLL);
    }
    Ok(())
}

/// Creates the documented tables, with reads of a thousand notes.
fn fill(postgres: &Postgres, events: u64) -> Result<()> {
    postgres.run(
        "CREATE TABLE event_outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id varchar(64) NOT NULL UNIQUE, \
         event_type varchar(256) NOT NULL, aggregate_type varchar(32) NOT NULL, aggregate_id varchar(64) NOT NULL, \
         payload text NOT NULL);
         CREATE TABLE event_outbox_dead (event_id text, event_type text, aggregate_type text, aggregate_id text, payload text, \
         reason text NOT NULL, dead_at timestamptz NOT NULL DEFAULT now())",
    )?;
    postgres.run(&format!(
        "INSERT INTO event_outbox (event_id, event_type, aggregate_type, aggregate_id, payload) \
         SELECT 114327608932745216 + i, 'read', 'note', 7000000000000000 + i * 7919 % 1000, \
         format('{{\"delta\": 1, \"uid\": \"%s\", \"ts\": 1763750000000}}', 1000000000000000 + i) \
         FROM generate_series(1, {events}::bigint) AS i"
    ))?;
    postgres.run("VACUUM ANALYZE event_outbox")?;
    Ok(())
}
