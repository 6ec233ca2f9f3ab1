//! Kafka as the log: countd beside Kafka's own performance tests, in the same run and on the same core.
//!
//! Redis and countd run on the server's core, and so do the performance tests in their place. The broker and the clients of countd run on
//! the client's core.

use crate::driver::kafka::Kafka;
use crate::driver::perf_test;
use crate::driver::programs::Programs;
use crate::driver::server::Workdir;
use crate::error::Result;
use crate::workload::events::EntityPool;
use crate::workload::scale::{CountdScale, Scale};
use results::KafkaResults;
use setup::{RECORD_BYTES, TOPIC_PARTITIONS, with_topic};

pub mod failover;
pub mod latency;
pub mod results;
pub mod setup;
mod throughput;

/// Takes all measurements, each repeat with a new broker.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<KafkaResults> {
    let jars = programs.kafka()?;
    let (scale, mut results) = (&scale.countd, KafkaResults::default());
    for repeat in 0..scale.repeats {
        eprintln!("bench: countd, a broker of Kafka");
        let dir = &Workdir::new()?;
        let kafka = &Kafka::start(jars, dir)?;
        warm_up(kafka, scale)?;
        // The order alternates, so that nothing is always measured on a warmer broker.
        let mut pools = [EntityPool::Hot, EntityPool::LongTail];
        pools.rotate_left(repeat % 2);
        for pool in pools {
            eprintln!("bench: countd with Kafka, {}", pool.label());
            with_topic(programs, kafka, &format!("events-{pool:?}"), |setup| {
                let rates = throughput::measure(setup, scale, pool, repeat % 2 == 1)?;
                results.throughput.push((pool, rates));
                Ok(())
            })?;
        }
        eprintln!("bench: countd with Kafka, latency");
        with_topic(programs, kafka, "latency", |setup| {
            results.latency.push(latency::measure(setup, scale)?);
            Ok(())
        })?;
        eprintln!("bench: countd with Kafka, a consumer is killed");
        with_topic(programs, kafka, "failover", |setup| {
            results.failover.push(failover::measure(setup, scale)?);
            Ok(())
        })?;
    }
    Ok(results)
}

/// Lets the virtual machine of the broker compile what the measurements use.
pub(super) fn warm_up(kafka: &Kafka, scale: &CountdScale) -> Result<()> {
    kafka.create_topic("warm-up", TOPIC_PARTITIONS)?;
    let records = scale.events;
    perf_test::produce(kafka, "warm-up", (records, RECORD_BYTES), None)?;
    perf_test::consume(kafka, "warm-up", records)?;
    Ok(())
}
