//! countd under load: the log and its consumer, and the API.
//!
//! The server runs on one core, countd and the client share the other.

use crate::driver::countd::{Metrics, Storage, Target};
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::workload::events::EntityPool;
use crate::workload::scale::{CountdScale, Scale};
use results::CountdResults;

pub mod ack;
pub mod bytes;
mod clients;
pub mod cluster;
mod consumer;
pub mod hot;
pub mod kafka;
mod open_loop;
pub mod prefilter;
pub mod reconcile;
pub mod relay;
pub mod replay;
mod requests;
pub mod results;
pub mod sizing;
pub mod sizing_cluster;
pub mod sparse;
pub mod split;

/// Takes all measurements of countd.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<CountdResults> {
    let scale = &scale.countd;
    let mut results = CountdResults::default();
    for repeat in 0..scale.repeats {
        // Beside the hot keys without counts by day, in turns before and after them.
        let measure_daily = |results: &mut CountdResults| {
            eprintln!("bench: countd, hot keys, counts by day");
            measure_target(programs, (Storage::Table, Metrics::Daily), |target| {
                let rates = consumer::measure(target, scale, EntityPool::Hot)?;
                results.daily.push(rates);
                Ok(())
            })
        };
        if repeat % 2 == 1 {
            measure_daily(&mut results)?;
        }
        for pool in [EntityPool::Hot, EntityPool::LongTail] {
            // The order alternates, so that neither storage is always measured on a warmer machine.
            let mut storages = Storage::ALL;
            storages.rotate_left(repeat % 2);
            for storage in storages {
                measure_storage(programs, scale, (pool, storage), &mut results)?;
            }
            if pool == EntityPool::Hot && repeat % 2 == 0 {
                measure_daily(&mut results)?;
            }
        }
        eprintln!("bench: countd, few actions");
        measure_target(programs, (Storage::Table, Metrics::Default), |target| {
            results.few.push(sparse::measure(target, scale.requests)?);
            Ok(())
        })?;
    }
    Ok(results)
}

/// Measures one storage on a new server.
fn measure_storage(
    programs: &Programs,
    scale: &CountdScale,
    (pool, storage): (EntityPool, Storage),
    results: &mut CountdResults,
) -> Result<()> {
    eprintln!("bench: countd, {}, {}", pool.label(), storage.name());
    measure_target(programs, (storage, Metrics::Default), |target| {
        let rates = consumer::measure(target, scale, pool)?;
        results.consumer.push((pool, storage, rates));
        if pool == EntityPool::LongTail {
            eprintln!("bench: countd, requests, {}", storage.name());
            requests::measure(target, scale, results)?;
        }
        Ok(())
    })
}

/// Measures countd with a new server.
fn measure_target(
    programs: &Programs,
    (storage, metrics): (Storage, Metrics),
    measure: impl FnOnce(&Target) -> Result<()>,
) -> Result<()> {
    let dir = &Workdir::new()?;
    let server = &Server::start(programs, dir, Some(&programs.module))?;
    let target = Target {
        programs,
        server,
        dir,
        storage,
        metrics,
    };
    target.create_schema()?;
    measure(&target)
}
