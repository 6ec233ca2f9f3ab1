//! The results of the measurements with Kafka, one value per repeat.

use crate::measure::stats::Spread;
use crate::workload::events::EntityPool;

/// A rate of events, and what each costs.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Events per second.
    pub per_second: f64,
    /// CPU seconds of the parts for each event.
    pub cpu: PartCosts,
}

/// The CPU seconds of each part.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartCosts {
    /// Of the client: of the requests to countd, or Kafka's performance test.
    pub client: f64,
    /// Of countd.
    pub countd: f64,
    /// Of Redis.
    pub redis: f64,
    /// Of the broker.
    pub broker: f64,
}

/// The rates with the entities of a pool.
pub struct LogRates {
    /// Kafka's producer.
    pub perf_produce: Rate,
    /// `POST /actions`.
    pub produce: Rate,
    /// Kafka's consumer, of the records that countd has produced.
    pub perf_consume: Rate,
    /// `countd consume`.
    pub consume: Rate,
    /// `countd all`, which produces and counts at once.
    pub at_once: Rate,
    /// Bytes of a record that countd has produced, key and value.
    pub record_bytes: f64,
}

impl LogRates {
    /// Events per second for producing followed by counting.
    pub fn end_to_end(&self) -> f64 {
        1.0 / (1.0 / self.produce.per_second + 1.0 / self.consume.per_second)
    }

    /// The same with Kafka's performance tests.
    pub fn perf_end_to_end(&self) -> f64 {
        1.0 / (1.0 / self.perf_produce.per_second + 1.0 / self.perf_consume.per_second)
    }
}

/// Latencies in seconds at a rate.
pub struct Latency {
    /// The highest rate of single requests.
    pub highest: f64,
    /// The rate of requests, and of records of Kafka's producer.
    pub per_second: f64,
    /// The median from the arrival of a request to its reply.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The median from sending a record to its confirmation, by Kafka's producer.
    pub perf_p50: f64,
    /// The 99th percentile.
    pub perf_p99: f64,
}

/// What happened when one of two consumers was killed.
pub struct Failover {
    /// The highest lag in events before.
    pub usual: u64,
    /// The highest lag after.
    pub peak: u64,
    /// Seconds from the kill to the highest lag: then the other one reads all partitions.
    pub taken_over: f64,
    /// Seconds from the kill until the lag was not higher than before.
    pub recovered: f64,
}

/// All results.
#[derive(Default)]
pub struct KafkaResults {
    /// The rates, by pool.
    pub throughput: Vec<(EntityPool, LogRates)>,
    /// The latencies.
    pub latency: Vec<Latency>,
    /// The failovers.
    pub failover: Vec<Failover>,
}

impl KafkaResults {
    /// A value with a pool, over all repeats.
    pub fn of(&self, pool: EntityPool, value: impl Fn(&LogRates) -> f64) -> Spread {
        let rates = self.throughput.iter().filter(|(of, _)| *of == pool);
        Spread::of(rates.map(|(_, rates)| value(rates)))
    }

    /// A latency, over all repeats.
    pub fn latency(&self, value: impl Fn(&Latency) -> f64) -> Spread {
        Spread::of(self.latency.iter().map(value))
    }

    /// A value of the failovers, over all repeats.
    pub fn failover(&self, value: impl Fn(&Failover) -> f64) -> Spread {
        Spread::of(self.failover.iter().map(value))
    }
}
