//! countd under load: the log and its consumer, and the API.
//!
//! The server runs on one core, countd and the client share the other.

use crate::driver::countd::{Storage, Target};
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::workload::events::EntityPool;
use crate::workload::scale::{CountdScale, Scale};
use results::CountdResults;

pub mod bytes;
mod consumer;
pub mod reconcile;
pub mod replay;
mod requests;
pub mod results;

/// Takes all measurements of countd.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<CountdResults> {
    let scale = &scale.countd;
    let mut results = CountdResults::default();
    for repeat in 0..scale.repeats {
        for pool in [EntityPool::Hot, EntityPool::LongTail] {
            // The order alternates, so that neither storage is always measured on a warmer machine.
            let mut storages = Storage::ALL;
            storages.rotate_left(repeat % 2);
            for storage in storages {
                measure_storage(programs, scale, (pool, storage), &mut results)?;
            }
        }
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
    let dir = &Workdir::new()?;
    let server = &Server::start(programs, dir, Some(&programs.module))?;
    let target = Target {
        programs,
        server,
        dir,
        storage,
    };
    target.create_schema()?;
    eprintln!("bench: countd, {}, {}", pool.label(), storage.name());
    let rates = consumer::measure(&target, scale, pool)?;
    results.consumer.push((pool, storage, rates));
    if pool == EntityPool::LongTail {
        eprintln!("bench: countd, requests, {}", storage.name());
        requests::measure(&target, scale, results)?;
    }
    Ok(())
}
