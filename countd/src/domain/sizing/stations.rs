//! The load as jobs of the queues: the busiest master, and a machine of countd.

use super::cost::Cost;
use super::costs::Costs;
use super::queue::{Jobs, Station};
use super::workload::{Deployment, LogKind, Machines, Workload};

/// `consumer.linger_ms`: a commit has the events of this time.
const LINGER: f64 = 0.020;
/// `consumer.batch`: the most events of a commit.
const BATCH: f64 = 1_000.0;

/// The queues of a deployment.
#[derive(Clone, Debug)]
pub struct Stations {
    /// The busiest master of Redis, with one core.
    pub redis: Station,
    /// The cores of Redis that the hottest entity alone keeps busy. They are one core of one master.
    pub hot: f64,
    /// A machine of countd.
    pub countd: Station,
    /// The cores of all clients.
    pub clients: f64,
    /// A read.
    pub read: Request,
    /// A request with actions.
    pub write: Request,
}

/// What a request needs.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Seconds of a core of countd, and of its client if both share the cores.
    pub countd: f64,
    /// Seconds of the core of a master, for its part of the request.
    pub redis: f64,
    /// The masters that the request needs. They work at the same time.
    pub calls: f64,
    /// Seconds of a core of the client.
    client: f64,
}

#[cfg(test)]
impl Request {
    /// A request without a client.
    pub(super) fn for_test(countd: f64, redis: f64, calls: f64) -> Request {
        Request {
            countd,
            redis,
            calls,
            client: 0.0,
        }
    }
}

/// The items of a request (entities, or lines) that go to Redis.
struct Items {
    /// Requests per second.
    requests: f64,
    /// Items in each. Less than 1 if not all requests have any.
    each: f64,
    /// What Redis needs for one.
    cost: f64,
}

impl Items {
    /// The probability that a request has an item in a part of the data.
    fn touch(&self, share: f64) -> f64 {
        match self.each < 1.0 {
            true => self.each * share,
            false => 1.0 - (1.0 - share).powf(self.each),
        }
    }

    /// The calls of a master that has a share of the items.
    fn jobs(&self, share: f64, call: f64) -> Jobs {
        let touched = self.touch(share);
        let per_call = if touched > 0.0 {
            self.each * share / touched
        } else {
            0.0
        };
        Jobs {
            per_second: self.requests * touched,
            seconds: call + per_call * self.cost,
        }
    }

    /// The number of masters that a request needs, if each has as many items.
    fn calls(&self, masters: usize) -> f64 {
        masters as f64 * self.touch(1.0 / masters as f64)
    }
}

/// The share of a load that concerns the busiest master, and the share that concerns the hottest entity.
#[derive(Clone, Copy)]
struct Shares {
    busiest: f64,
    hot: f64,
}

impl Shares {
    /// The hottest entity is on the busiest master: the worst case. `partitions` is the share of partitions that this master has.
    fn new(hot: f64, partitions: f64) -> Shares {
        Shares {
            busiest: hot + (1.0 - hot) * partitions,
            hot,
        }
    }

    /// The same without the load on the hottest entity.
    fn without_hot(self) -> Shares {
        Shares {
            busiest: self.busiest - self.hot,
            hot: 0.0,
        }
    }
}

impl Stations {
    /// The queues of a load. `share` is the share of partitions that the busiest master has.
    pub fn new(
        workload: &Workload,
        machines: &Machines,
        costs: &Costs,
        deployment: Deployment,
        share: f64,
    ) -> Stations {
        let (masters, nodes) = (deployment.masters.max(1), deployment.nodes.max(1) as f64);
        let of_actions = Shares::new(workload.hot_share, share);
        let of_reads = match workload.hot_cache {
            true => of_actions.without_hot(),
            false => of_actions,
        };
        let (reads, lines) = (entities(workload, costs), lines(workload, costs));
        let (call, events) = (costs.request.redis, workload.repeatable());
        let count = |of_hot: f64, part: fn(Cost) -> f64| {
            of_hot * part(costs.count_hot) + (1.0 - of_hot) * part(costs.count)
        };
        let on_master = |reads_share: f64, share: f64| {
            let of_hot = (of_actions.hot / share.max(f64::MIN_POSITIVE)).min(1.0);
            let commits = commits(events * share, count(of_hot, |cost| cost.redis));
            Station::new(
                1,
                [
                    reads.jobs(reads_share, call),
                    lines.jobs(share, call),
                    commits,
                ],
            )
        };
        let read = request(
            (costs, machines),
            (&reads, masters),
            costs.entity.times(workload.page),
        );
        let line = costs.fact.times(workload.once);
        let line = line.plus(costs.append.times(1.0 - workload.once));
        let write = request(
            (costs, machines),
            (&lines, masters),
            line.times(workload.lines),
        );
        let on_node = |requests: f64, request: Request| Jobs {
            per_second: requests / nodes,
            seconds: request.countd,
        };
        let counted = count(workload.hot_share, |cost| cost.countd);
        Stations {
            redis: on_master(of_reads.busiest, of_actions.busiest),
            hot: on_master(of_reads.hot, of_actions.hot).busy_cores(),
            countd: Station::new(
                machines.cores,
                [
                    on_node(reads.requests, read),
                    on_node(lines.requests, write),
                    commits(events / nodes, counted),
                ],
            ),
            clients: reads.requests * read.client + lines.requests * write.client,
            read,
            write,
        }
    }
}

/// The entities of reads.
fn entities(workload: &Workload, costs: &Costs) -> Items {
    Items {
        requests: workload.reads,
        each: workload.page,
        cost: costs.entity.redis,
    }
}

/// The lines of requests with actions. With Kafka, repeatable ones do not go to Redis.
fn lines(workload: &Workload, costs: &Costs) -> Items {
    let appended = match workload.log {
        LogKind::Streams => 1.0 - workload.once,
        LogKind::Kafka => 0.0,
    };
    let in_redis = workload.once + appended;
    let cost = workload.once * costs.fact.redis + appended * costs.append.redis;
    Items {
        requests: workload.actions / workload.lines,
        each: workload.lines * in_redis,
        cost: if in_redis > 0.0 { cost / in_redis } else { 0.0 },
    }
}

/// A request: what it costs without its items, the calls of more masters than one, and its items, which cost `all_items`.
fn request(
    (costs, machines): (&Costs, &Machines),
    (items, masters): (&Items, usize),
    all_items: Cost,
) -> Request {
    let calls = items.calls(masters);
    let more = costs.call.times((calls - 1.0).max(0.0));
    let all = costs.request.plus(more).plus(all_items);
    let on_core = if machines.clients_share_cores {
        all.client
    } else {
        0.0
    };
    Request {
        countd: all.countd + on_core,
        redis: items
            .jobs(1.0 / masters as f64, costs.request.redis)
            .seconds,
        calls,
        client: all.client,
    }
}

/// The commits of events.
fn commits(events: f64, each: f64) -> Jobs {
    let size = (events * LINGER).clamp(1.0, BATCH);
    Jobs {
        per_second: events / size,
        seconds: size * each,
    }
}

#[cfg(test)]
mod tests;
