//! The results of the measurements of countd, one value per repeat.

use crate::driver::countd::Storage;
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
    /// The counters of many entities and a user's statuses on them.
    Feeds,
    /// The counters of one entity.
    Single,
    /// `GET /counter` to a bare axum handler.
    Bare,
}

/// The throughput of one kind of request.
pub struct RequestRate {
    /// Actions, entities or requests per second.
    pub per_second: f64,
    /// CPU seconds of the client for each.
    pub client_cpu: f64,
    /// CPU seconds of countd for each.
    pub countd_cpu: f64,
    /// CPU seconds of the server for each.
    pub server_cpu: f64,
}

/// CPU seconds of countd and of the server.
#[derive(Clone, Copy)]
pub struct Cpu {
    /// Of countd.
    pub countd: f64,
    /// Of the server.
    pub server: f64,
}

impl Cpu {
    /// Combines each part with that of another.
    pub fn map(self, other: Cpu, apply: impl Fn(f64, f64) -> f64) -> Cpu {
        Cpu {
            countd: apply(self.countd, other.countd),
            server: apply(self.server, other.server),
        }
    }
}

/// The costs of a kind of action.
#[derive(Clone, Copy)]
pub struct Sparse {
    /// Of an action, counting included.
    pub action: Cpu,
    /// Of the polls and everything else, in a second in which actions come.
    pub second: Cpu,
}

/// The costs of actions, and of a countd to which nothing comes.
pub struct Few {
    /// Of reads, which are counted from the log.
    pub reads: Sparse,
    /// Of likes, which record facts.
    pub likes: Sparse,
    /// Of a second without actions.
    pub idle: Cpu,
    /// A single read that comes alone, without what the second costs.
    pub alone_reads: Alone,
    /// The request of a single like that comes alone, without what the like and the second cost.
    pub alone_likes: Alone,
}

/// A request that comes alone.
#[derive(Clone, Copy)]
pub struct Alone {
    /// Its CPU seconds.
    pub cpu: Cpu,
    /// The median of the seconds until its response, without the CPU time of the client.
    pub p50: f64,
}

/// All results.
#[derive(Default)]
pub struct CountdResults {
    /// The log and its consumer, by entity pool and storage.
    pub consumer: Vec<(EntityPool, Storage, ConsumerRates)>,
    /// The log and its consumer, of hot keys in tables with counts by day.
    pub daily: Vec<ConsumerRates>,
    /// The API, by kind of request and storage.
    pub rates: Vec<(RequestKind, Storage, RequestRate)>,
    /// Seconds from an action to its visible count, for each probe.
    pub visibility_seconds: Vec<f64>,
    /// The costs when few actions come.
    pub few: Vec<Few>,
}

impl CountdResults {
    /// A value of the consumer for a pool and a storage, over all repeats.
    pub fn consumer_rate(
        &self,
        pool: EntityPool,
        storage: Storage,
        value: impl Fn(&ConsumerRates) -> f64,
    ) -> Spread {
        let rates = self.consumer.iter();
        let rates = rates.filter(|(p, s, _)| (*p, *s) == (pool, storage));
        Spread::of(rates.map(|(.., rates)| value(rates)))
    }

    /// A value of the consumer with counts by day, over all repeats.
    pub fn daily_rate(&self, value: impl Fn(&ConsumerRates) -> f64) -> Spread {
        Spread::of(self.daily.iter().map(value))
    }

    /// A value for a kind of request with tables, over all repeats.
    pub fn rate(&self, kind: RequestKind, value: impl Fn(&RequestRate) -> f64) -> Spread {
        self.rate_with(kind, Storage::Table, value)
    }

    /// A value for a kind of request, over all repeats.
    pub fn rate_with(
        &self,
        kind: RequestKind,
        storage: Storage,
        value: impl Fn(&RequestRate) -> f64,
    ) -> Spread {
        let rates = self.rates.iter();
        let rates = rates.filter(|(k, s, _)| (*k, *s) == (kind, storage));
        Spread::of(rates.map(|(.., rate)| value(rate)))
    }

    /// The seconds from an action to its visible count.
    pub fn visibility(&self) -> Spread {
        Spread::of(self.visibility_seconds.iter().copied())
    }
}
