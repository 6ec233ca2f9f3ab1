//! The results of the measurements of countd, one value per repeat.

use crate::measure::stats::Spread;
use crate::workload::events::EntityPool;

/// The throughput and cost of the log and its consumer.
pub struct ConsumerRates {
    /// Entries that `redis-benchmark` appends per second with XADD.
    pub xadd: f64,
    /// Events appended per second.
    pub append: f64,
    /// Events consumed per second.
    pub consume: f64,
    /// Write commands per 100 events.
    pub writes: f64,
    /// CPU seconds of countd per event.
    pub countd_cpu: f64,
    /// CPU seconds of the server per event.
    pub server_cpu: f64,
}

impl ConsumerRates {
    /// Events per second for appending followed by consuming.
    pub fn end_to_end(&self) -> f64 {
        1.0 / (1.0 / self.append + 1.0 / self.consume)
    }
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequestKind {
    /// Many actions that are counted asynchronously.
    Reads,
    /// Many actions that record facts and are counted synchronously.
    Likes,
    /// The counters of many entities.
    Batches,
    /// The counters of one entity.
    Single,
    /// `GET /counter` to a bare axum handler.
    Bare,
}

/// The throughput of one kind of request.
pub struct RequestRate {
    /// Actions, entities or requests per second.
    pub per_second: f64,
    /// CPU seconds of countd for each.
    pub countd_cpu: f64,
    /// CPU seconds of the server for each.
    pub server_cpu: f64,
}

/// All results.
#[derive(Default)]
pub struct CountdResults {
    /// The log and its consumer, by entity pool.
    pub consumer: Vec<(EntityPool, ConsumerRates)>,
    /// The API, by kind of request.
    pub rates: Vec<(RequestKind, RequestRate)>,
    /// Seconds from an action to its visible count, for each probe.
    pub visibility_seconds: Vec<f64>,
}

impl CountdResults {
    /// A value of the consumer for a pool, over all repeats.
    pub fn consumer_rate(&self, pool: EntityPool, value: impl Fn(&ConsumerRates) -> f64) -> Spread {
        let consumer = self.consumer.iter().filter(|rates| rates.0 == pool);
        Spread::of(consumer.map(|(_, rates)| value(rates)))
    }

    /// A value for a kind of request, over all repeats.
    pub fn rate(&self, kind: RequestKind, value: impl Fn(&RequestRate) -> f64) -> Spread {
        let rates = self.rates.iter().filter(|rate| rate.0 == kind);
        Spread::of(rates.map(|(_, rate)| value(rate)))
    }

    /// The seconds from an action to its visible count.
    pub fn visibility(&self) -> Spread {
        Spread::of(self.visibility_seconds.iter().copied())
    }
}
