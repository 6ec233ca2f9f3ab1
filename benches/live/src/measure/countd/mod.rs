//! countd under load: the log and its consumer, and the API.
//!
//! The server runs on one core, countd and the client share the other.

use crate::driver::countd::create_schema;
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::workload::events::EntityPool;
use crate::workload::scale::Scale;
use results::CountdResults;

mod consumer;
mod requests;
pub mod results;

/// Takes all measurements of countd.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<CountdResults> {
    let scale = &scale.countd;
    let mut results = CountdResults::default();
    for _ in 0..scale.repeats {
        for pool in [EntityPool::Hot, EntityPool::LongTail] {
            let dir = Workdir::new()?;
            let server = Server::start(programs, &dir, Some(&programs.module))?;
            create_schema(programs, &server)?;
            eprintln!("bench: countd, {}", pool.label());
            let rates = consumer::measure(programs, scale, &server, &dir, pool)?;
            results.consumer.push((pool, rates));
            if pool == EntityPool::LongTail {
                eprintln!("bench: countd, requests");
                requests::measure(programs, scale, &server, &dir, &mut results)?;
            }
        }
    }
    Ok(results)
}
