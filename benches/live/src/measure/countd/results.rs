//! What was measured of countd: a value for each repeat.

use crate::measure::stats::Spread;
use crate::workload::events::EntityPool;

/// The log and the consumer.
pub struct Flow {
    /// Entries per second that `redis-benchmark` appends with XADD.
    pub xadd: f64,
    /// Events per second that are appended.
    pub append: f64,
    /// Events per second that are counted.
    pub consume: f64,
    /// Write commands per 100 events.
    pub writes: f64,
    /// CPU seconds of countd per event.
    pub countd_cpu: f64,
    /// CPU seconds of the server per event.
    pub server_cpu: f64,
}

impl Flow {
    /// Events per second when appending and counting take turns.
    pub fn through(&self) -> f64 {
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
    /// The log and the consumer.
    pub flows: Vec<(EntityPool, Flow)>,
    /// The API.
    pub rates: Vec<(RequestKind, RequestRate)>,
    /// Seconds from an action to its visible count, for each probe.
    pub visible: Vec<f64>,
}

impl CountdResults {
    /// One value of the flows of a pool.
    pub fn flow(&self, pool: EntityPool, value: impl Fn(&Flow) -> f64) -> Spread {
        let flows = self.flows.iter().filter(|flow| flow.0 == pool);
        Spread::of(flows.map(|(_, flow)| value(flow)))
    }

    /// One value of the rates of a kind of request.
    pub fn rate(&self, kind: RequestKind, value: impl Fn(&RequestRate) -> f64) -> Spread {
        let rates = self.rates.iter().filter(|rate| rate.0 == kind);
        Spread::of(rates.map(|(_, rate)| value(rate)))
    }

    /// The seconds from an action to its visible count.
    pub fn visibility(&self) -> Spread {
        Spread::of(self.visible.iter().copied())
    }
}
