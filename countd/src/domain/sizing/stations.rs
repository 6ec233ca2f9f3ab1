//! The load as jobs of the queues: the busiest master, and a machine of countd.

use super::commits;
use super::cost::Cost;
use super::costs::Costs;
use super::placement::PARTITIONS;
use super::queue::{Jobs, Station};
use super::workload::{Deployment, LogKind, Machines, Workload};

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
    /// Seconds of a core of countd.
    pub countd: f64,
    /// Seconds of the core of a master, for its part of the request.
    pub redis: f64,
    /// CPU seconds in addition, at each part, if the request comes alone.
    pub alone: Cost,
    /// Seconds that it takes in addition if it comes alone.
    pub alone_latency: f64,
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
            alone: Cost::default(),
            alone_latency: 0.0,
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
    fn jobs(&self, share: f64, (call, alone): (f64, f64)) -> Jobs {
        let touched = self.touch(share);
        let per_call = if touched > 0.0 {
            self.each * share / touched
        } else {
            0.0
        };
        Jobs {
            alone,
            ..Jobs::new(self.requests * touched, call + per_call * self.cost)
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
    /// The share of partitions.
    partitions: f64,
    busiest: f64,
    hot: f64,
}

impl Shares {
    /// The hottest entity is on the busiest master: the worst case. `partitions` is the share of partitions that this master has.
    fn new(hot: f64, partitions: f64) -> Shares {
        Shares {
            partitions,
            busiest: hot + (1.0 - hot) * partitions,
            hot,
        }
    }

    /// The same without the load on the hottest entity.
    fn without_hot(self) -> Shares {
        Shares {
            busiest: self.busiest - self.hot,
            hot: 0.0,
            ..self
        }
    }

    /// The hottest entity alone, which has one partition.
    fn only_hot(self) -> Shares {
        Shares {
            partitions: 1.0 / PARTITIONS as f64,
            busiest: self.hot,
            hot: self.hot,
        }
    }
}

/// The actions that are counted.
struct Actions {
    /// Facts per second.
    facts: f64,
    /// Repeatable events per second.
    events: f64,
}

impl Actions {
    fn new(workload: &Workload) -> Actions {
        Actions {
            facts: workload.actions * workload.once,
            events: workload.repeatable(),
        }
    }

    /// The commits and polls of a share of the actions, at a `part`. Polls do not grow with the actions, unless there are very few.
    fn background(&self, costs: &Costs, shares: Shares, part: fn(Cost) -> f64) -> (Jobs, Jobs) {
        let hot = self.events * shares.hot;
        let [facts, events] = [self.facts, self.events].map(|actions| actions * shares.busiest);
        let counted = costs
            .count_hot
            .times(hot)
            .plus(costs.count.times(events - hot));
        let partitions =
            |events: f64, cost: Cost| cost.times(commits::partitions(events, shares.partitions));
        let commits = counted
            .plus(partitions(events, costs.partition))
            .plus(partitions(facts, costs.partition_of_facts));
        // Both kinds share the polls.
        let more = |events: f64, second: Cost| {
            let in_all = events / shares.partitions.max(f64::MIN_POSITIVE);
            second.without(costs.idle).times(commits::busy_time(in_all))
        };
        let more = more(events, costs.second).map(more(facts, costs.second_of_facts), f64::max);
        let polls = costs.idle.plus(more).times(shares.partitions);
        (
            commits::jobs(part(commits), facts + events),
            commits::polls(part(polls)),
        )
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
        let call = costs.request.redis;
        let actions = Actions::new(workload);
        let on_master = |reads_share: f64, partitions: Shares| {
            let requests = [
                reads.jobs(reads_share, (call, costs.alone.redis)),
                lines.jobs(partitions.busiest, (call, costs.alone_write.redis)),
            ];
            let (commits, polls) = actions.background(costs, partitions, |cost| cost.redis);
            Station::new(1, requests).with_background(commits, polls)
        };
        let read = request(
            (costs, costs.alone, costs.alone_latency),
            (&reads, masters),
            costs.entity.times(workload.page),
        );
        let line = costs.fact.times(workload.once);
        let line = line.plus(costs.append.times(1.0 - workload.once));
        let write = request(
            (costs, costs.alone_write, costs.alone_write_latency),
            (&lines, masters),
            line.times(workload.lines),
        );
        let on_node = |requests: f64, request: Request| Jobs {
            per_second: requests / nodes,
            seconds: request.countd,
            alone: request.alone.countd,
            client: machines.client,
        };
        let node = Shares {
            partitions: 1.0 / nodes,
            busiest: 1.0 / nodes,
            hot: workload.hot_share / nodes,
        };
        let requests = [
            on_node(reads.requests, read),
            on_node(lines.requests, write),
        ];
        let (commits, polls) = actions.background(costs, node, |cost| cost.countd);
        Stations {
            redis: on_master(of_reads.busiest, of_actions),
            hot: on_master(of_reads.hot, of_actions.only_hot()).needed_cores(),
            countd: Station::new(machines.cores, requests).with_background(commits, polls),
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
    (costs, alone, alone_latency): (&Costs, Cost, f64),
    (items, masters): (&Items, usize),
    all_items: Cost,
) -> Request {
    let calls = items.calls(masters);
    let more = costs.call.times((calls - 1.0).max(0.0));
    let all = costs.request.plus(more).plus(all_items);
    Request {
        countd: all.countd,
        redis: items
            .jobs(1.0 / masters as f64, (costs.request.redis, 0.0))
            .seconds,
        alone,
        alone_latency,
        calls,
        client: all.client,
    }
}

#[cfg(test)]
mod tests;
