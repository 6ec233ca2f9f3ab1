//! Throughput: `POST /actions` into a topic beside Kafka's producer, and `countd consume` of that topic beside Kafka's consumer.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::results::{LogRates, PartCosts, Rate};
use super::setup::{RECORD_BYTES, Setup, TOPIC_PARTITIONS};
use crate::driver::countd::Countd;
use crate::driver::cpu;
use crate::driver::http::Http;
use crate::driver::perf_test;
use crate::error::Result;
use crate::measure::countd::clients::{read_metric, send_all};
use crate::measure::countd::consumer::check;
use crate::measure::countd::requests::{ACTIONS, actions};
use crate::workload::counts::SplitMix;
use crate::workload::events::EntityPool;
use crate::workload::scale::CountdScale;

/// The number of connections, each with one request in flight.
const CONNECTIONS: usize = 4;
/// The timeout for counting the topic.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The shortest and the longest interval between two looks at what is counted: each look takes time of the measured core.
const LOOKS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));

/// Fills the topic, and counts it. `perf_last` is whether Kafka's performance tests come last.
pub(super) fn measure(
    setup: &Setup,
    scale: &CountdScale,
    pool: EntityPool,
    perf_last: bool,
) -> Result<LogRates> {
    let requests = scale.events.div_ceil(ACTIONS);
    let events = requests * ACTIONS;
    let (produce, perf_produce) = in_turn(
        perf_last,
        || produce(setup, pool, requests),
        || perf_produce(setup, events),
    )?;
    let (consume, (perf_consume, record_bytes)) = in_turn(
        perf_last,
        || consume(setup, events),
        || perf_consume(setup, events),
    )?;
    Ok(LogRates {
        perf_produce,
        produce,
        perf_consume,
        consume,
        at_once: at_once(setup, pool, requests)?,
        record_bytes,
    })
}

/// Measures both sides, in this order or in the other one.
fn in_turn<A, B>(
    in_order: bool,
    first: impl FnOnce() -> Result<A>,
    second: impl FnOnce() -> Result<B>,
) -> Result<(A, B)> {
    if in_order {
        Ok((first()?, second()?))
    } else {
        let second = second()?;
        Ok((first()?, second))
    }
}

/// Produces as many records as there are events, into a topic of their own.
fn perf_produce(setup: &Setup, events: u64) -> Result<Rate> {
    let topic = format!("perf-{}", setup.topic);
    setup.kafka.create_topic(&topic, TOPIC_PARTITIONS)?;
    let before = setup.kafka.cpu_seconds()?;
    let done = perf_test::produce(setup.kafka, &topic, (events, RECORD_BYTES), None)?;
    let broker = setup.kafka.cpu_seconds()? - before;
    Ok(perf_rate(
        (done.per_second, done.cpu_seconds, broker),
        events,
    ))
}

/// Consumes the events, and returns the bytes of a record, too.
fn perf_consume(setup: &Setup, events: u64) -> Result<(Rate, f64)> {
    let before = setup.kafka.cpu_seconds()?;
    let done = perf_test::consume(setup.kafka, setup.topic, events)?;
    let broker = setup.kafka.cpu_seconds()? - before;
    let rate = perf_rate((done.per_second, done.cpu_seconds, broker), events);
    Ok((rate, done.record_bytes))
}

/// The rate of a performance test, from its rate, its CPU seconds and those of the broker.
fn perf_rate((per_second, client, broker): (f64, f64, f64), events: u64) -> Rate {
    let cpu = PartCosts {
        client: client / events as f64,
        broker: broker / events as f64,
        ..PartCosts::default()
    };
    Rate { per_second, cpu }
}

/// Produces and counts with one process: the consumer fetches records as soon as they are in the topic, not many at once.
fn at_once(setup: &Setup, pool: EntityPool, requests: u64) -> Result<Rate> {
    let requests = reads(pool, requests, 3);
    // Warms up connections and caches.
    let (first, rest) = requests.split_at(requests.len() / 10);
    let countd = setup.start("all")?;
    send_all(countd.port, first, CONNECTIONS)?;
    let (from, started) = wait_until_applied(&countd, (0, first.len() as u64 * ACTIONS))?;
    let before = used(setup, &countd)?;
    send_all(countd.port, rest, CONNECTIONS)?;
    let events = rest.len() as u64 * ACTIONS;
    let (_, ended) = wait_until_applied(&countd, (from, from + events))?;
    let events = events as f64;
    Ok(Rate {
        per_second: events / (ended - started).as_secs_f64(),
        cpu: each(&before, &used(setup, &countd)?, events),
    })
}

/// Requests with many reads each.
fn reads(pool: EntityPool, requests: u64, seed: u64) -> Vec<Vec<u8>> {
    let random = &mut SplitMix(seed);
    let requests = (0..requests).map(|_| actions("read", pool, random));
    requests.collect()
}

/// Sends requests with many reads each.
fn produce(setup: &Setup, pool: EntityPool, requests: u64) -> Result<Rate> {
    let requests = reads(pool, requests, 2);
    // Warms up connections and caches. These events are counted, too.
    let (first, rest) = requests.split_at(requests.len() / 10);
    let countd = setup.start("serve")?;
    send_all(countd.port, first, CONNECTIONS)?;
    let (before, started) = (used(setup, &countd)?, Instant::now());
    send_all(countd.port, rest, CONNECTIONS)?;
    let seconds = started.elapsed().as_secs_f64();
    let events = rest.len() as f64 * ACTIONS as f64;
    Ok(Rate {
        per_second: events / seconds,
        cpu: each(&before, &used(setup, &countd)?, events),
    })
}

/// Counts the events. As with Kafka's consumer, the time for joining is left out: the rate begins with the first events that are seen counted.
fn consume(setup: &Setup, events: u64) -> Result<Rate> {
    let countd = setup.start("consume")?;
    let (first, started) = wait_until_applied(&countd, (0, 1))?;
    let before = used(setup, &countd)?;
    let (found, ended) = wait_until_applied(&countd, (first, events))?;
    let after = used(setup, &countd)?;
    drop(countd);
    check(&mut setup.target.server.control()?, events)?;
    let counted = (found - first) as f64;
    Ok(Rate {
        per_second: counted / (ended - started).as_secs_f64(),
        cpu: each(&before, &after, counted),
    })
}

/// The CPU seconds that each part has used.
fn used(setup: &Setup, countd: &Countd) -> Result<PartCosts> {
    Ok(PartCosts {
        client: cpu::own_seconds()?,
        countd: countd.cpu_seconds()?,
        redis: setup.target.server.cpu_ns()? as f64 / 1e9,
        broker: setup.kafka.cpu_seconds()?,
    })
}

/// The CPU seconds between two looks, for each event.
fn each(before: &PartCosts, after: &PartCosts, events: f64) -> PartCosts {
    PartCosts {
        client: (after.client - before.client) / events,
        countd: (after.countd - before.countd) / events,
        redis: (after.redis - before.redis) / events,
        broker: (after.broker - before.broker) / events,
    }
}

/// Waits until a consumer that had counted `from` events has counted this many. Returns how many it has counted, and when.
fn wait_until_applied(countd: &Countd, (from, events): (u64, u64)) -> Result<(u64, Instant)> {
    let started = Instant::now();
    loop {
        let found = applied(countd)?;
        let now = Instant::now();
        if found >= events {
            return Ok((found, now));
        }
        let elapsed = now - started;
        if elapsed > TIMEOUT {
            return Err(format!("the consumer has counted {found} of {events} events").into());
        }
        sleep(until_next_look(found - from, events - from, elapsed));
    }
}

/// Half of the time that the rest takes at the rate so far.
fn until_next_look(found: u64, events: u64, elapsed: Duration) -> Duration {
    let (shortest, longest) = LOOKS;
    let left = elapsed.as_secs_f64() * (events - found) as f64 / found.max(1) as f64;
    Duration::from_secs_f64((left / 2.0).clamp(shortest.as_secs_f64(), longest.as_secs_f64()))
}

/// The number of events that a consumer has counted; 0 until it tells.
pub(super) fn applied(countd: &Countd) -> Result<u64> {
    // It listens a moment after its start.
    let Ok(mut http) = Http::open(countd.port) else {
        return Ok(0);
    };
    read_metric(&mut http, "countd_events_applied_total")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_more_frequent_near_the_end() {
        let wait = |found| until_next_look(found, 1_000, Duration::from_secs(1));
        assert_eq!(wait(0), LOOKS.1);
        assert_eq!(wait(950), Duration::from_secs(50) / 1_900);
        assert_eq!(wait(999), LOOKS.0);
    }

    #[test]
    fn sides_are_measured_in_either_order() {
        for (in_order, expected) in [(true, ["a", "b"]), (false, ["b", "a"])] {
            let order = std::cell::RefCell::new(Vec::new());
            let side = |name| {
                order.borrow_mut().push(name);
                Ok(name)
            };
            let found = in_turn(in_order, || side("a"), || side("b")).unwrap();
            assert_eq!((found, order.into_inner()), (("a", "b"), expected.to_vec()));
        }
    }
}
