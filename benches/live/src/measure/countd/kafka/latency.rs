//! Latency of single actions into a topic, beside that of Kafka's producer at the same rate.

use std::borrow::Cow;
use std::time::Instant;

use super::results::Latency;
use super::setup::{RECORD_BYTES, Setup, TOPIC_PARTITIONS};
use crate::driver::http::post;
use crate::driver::perf_test;
use crate::error::Result;
use crate::measure::countd::clients::send_each;
use crate::measure::countd::open_loop::{arrivals, send_at};
use crate::measure::stats::Spread;
use crate::workload::counts::SplitMix;
use crate::workload::events::EntityPool;
use crate::workload::scale::CountdScale;

/// Connections that find the highest rate.
const SATURATING: usize = 16;
/// The share of the highest rate.
pub const LEVEL: f64 = 0.5;
/// The first user who acts.
const FIRST_USER: u64 = 1_000_000_000_000_000;

/// Sends single actions at a share of the highest rate, at random times, whether or not earlier ones are confirmed.
pub(super) fn measure(setup: &Setup, scale: &CountdScale) -> Result<Latency> {
    let countd = setup.start("serve")?;
    let time = scale.requests;
    send_each(countd.port, read, SATURATING, time / 5)?;
    let started = Instant::now();
    let done = send_each(countd.port, read, SATURATING, time)?;
    let highest = done as f64 / started.elapsed().as_secs_f64();
    let per_second = highest * LEVEL;
    let arrivals = arrivals(per_second, time, &mut SplitMix(5));
    let spread = Spread::of(send_at(countd.port, &arrivals, read)?.latencies);
    drop(countd);
    let topic = format!("perf-{}", setup.topic);
    setup.kafka.create_topic(&topic, TOPIC_PARTITIONS)?;
    // Its first seconds are those of a virtual machine that compiles, so there are more of them.
    let records = (per_second * 3.0 * time.as_secs_f64()) as u64;
    let size = (records, RECORD_BYTES);
    let perf = perf_test::produce(setup.kafka, &topic, size, Some(per_second))?;
    Ok(Latency {
        highest,
        per_second,
        p50: spread.median(),
        p99: spread.quantile(0.99),
        perf_p50: perf.p50,
        perf_p99: perf.p99,
    })
}

/// A read of one of a thousand notes.
fn read(number: u64) -> Cow<'static, [u8]> {
    let eid = EntityPool::Hot.pick(&mut SplitMix(number));
    let uid = FIRST_USER + number;
    let body = format!("{{\"etype\":\"note\",\"eid\":\"{eid}\",\"uid\":\"{uid}\"}}");
    Cow::from(post("/action/read", &body))
}
