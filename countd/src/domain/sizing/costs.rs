//! What an action, an event and a read cost at each part, in seconds of a core.

use super::cost::Cost;
use super::facts::MeasuredFacts;
use super::figures::{Figures, FiguresError};
use super::kafka::KafkaCosts;
use super::workload::{LogKind, Stored, Workload};

/// The costs of everything that the model knows.
#[derive(Clone, Debug)]
pub struct Costs {
    /// A request, without its entities or lines: HTTP, and one call of Redis.
    pub request: Cost,
    /// A call of one more server for the same request. That of countd is an upper bound, because concurrent requests share a pipeline.
    pub call: Cost,
    /// An entity of a read.
    pub entity: Cost,
    /// An action that records a fact, and everything that its event costs.
    pub fact: Cost,
    /// A repeatable action, until its event is in the log.
    pub append: Cost,
    /// The counting of a repeatable event, if entities have few events each.
    pub count: Cost,
    /// The counting of a repeatable event of a hot entity.
    pub count_hot: Cost,
    /// What a request costs in addition if it comes alone: then countd and Redis wait for it, and each reads and writes for it only.
    pub alone: Cost,
    /// The same for a request with actions.
    pub alone_write: Cost,
    /// Seconds that a read takes in addition if it comes alone, most of them until processes are awake.
    pub alone_latency: f64,
    /// The same for a request with actions.
    pub alone_write_latency: f64,
    /// What a partition costs in a commit that has repeatable events of it.
    pub partition: Cost,
    /// What a partition costs in a commit that has facts of it.
    pub partition_of_facts: Cost,
    /// What a second costs in which repeatable events come: all partitions are polled.
    pub second: Cost,
    /// What a second costs in which facts come.
    pub second_of_facts: Cost,
    /// What a second costs in which nothing comes.
    pub idle: Cost,
    /// Whether the costs of clusters were measured. If not, those of one server are used.
    pub measured_cluster: bool,
}

/// The request rate of the benchmark at low load, per second.
const SPARSE_REQUESTS: f64 = 200.0;
/// The largest number of masters in the benchmark of clusters.
pub const MOST_MASTERS: usize = 3;
/// The name of a single request in its figures, and the names of an item of a page, a fact and a repeatable action.
const SINGLE: &str = "single";
const ITEMS: [&str; 3] = ["feed", "like", "read"];

impl Costs {
    /// The costs with this many masters.
    ///
    /// # Errors
    /// A figure is missing.
    pub fn new(
        figures: &Figures,
        workload: &Workload,
        masters: usize,
    ) -> Result<Costs, FiguresError> {
        let pages = match (workload.statuses, workload.storage) {
            (true, _) => "feed-entities",
            (false, Stored::Table) => "batch-entities",
            (false, Stored::Object) => "object.batch-entities",
        };
        let entity = requested(figures, pages)?;
        let request =
            requested(figures, "single-reads")?.without(requested(figures, "batch-entities")?);
        let bare = Cost {
            countd: figures.get("countd.bare-reads-countd-ns")? * 1e-9,
            ..Cost::default()
        };
        let stored = match workload.storage {
            Stored::Table => "",
            Stored::Object => ".object",
        };
        // The benchmark's reads are those of hot entities in tables, and include their counting.
        let append = requested(figures, "read-actions")?.without(per(figures, "hot", "event")?);
        let append = match workload.log {
            LogKind::Streams => append,
            // Unless it was measured (below), producing a record is taken to cost countd as much as an XADD.
            LogKind::Kafka => Cost {
                redis: 0.0,
                ..append
            },
        };
        let kafka = KafkaCosts::of(figures, workload);
        let (count, count_hot) = match kafka.and_then(|kafka| kafka.counting) {
            Some(counting) => (counting.long_tail, counting.hot),
            // Unless it was measured, counting from a topic is taken to cost as much as counting from a stream.
            None => (
                per(figures, &format!("long-tail{stored}"), "event")?,
                per(figures, &format!("hot{stored}"), "event")?,
            ),
        };
        let alone = |name: &str| -> Result<Cost, FiguresError> {
            let alone = per(figures, name, "request")?;
            let busy = Cost {
                client: 0.0,
                ..request
            };
            Ok(alone.without(busy))
        };
        let (alone, alone_write) = (alone("alone-reads")?, alone("alone-likes")?);
        let second = |name: &str| -> Result<Cost, FiguresError> {
            let requests = request.plus(alone_write).times(SPARSE_REQUESTS);
            Ok(per(figures, name, "second")?.without(requests))
        };
        let second_of_facts = second("sparse-likes")?;
        let facts = MeasuredFacts {
            dense: requested(figures, "like-actions")?,
            rate: figures.get("countd.like-actions-per-s")?,
            sparse: per(figures, "sparse-likes", "action")?,
            second: second_of_facts,
        };
        let (fact, partition_of_facts) = facts.split();
        // The requests that were measured have one entity, or one fact.
        let latency = |name: &str, item: Cost| -> Result<f64, FiguresError> {
            let (alone, busy) = (
                figures.get(&format!("countd.{name}.p50-us"))?,
                request.plus(item),
            );
            Ok((alone * 1e-6 - busy.countd - busy.redis).max(0.0))
        };
        let costs = Costs {
            request,
            call: Cost {
                client: 0.0,
                ..request
            }
            .without(bare),
            entity,
            fact,
            append,
            count,
            count_hot,
            alone,
            alone_write,
            alone_latency: latency("alone-reads", entity)?,
            alone_write_latency: latency("alone-likes", fact)?,
            partition: per(figures, "sparse-reads", "action")?
                .without(append)
                .without(count),
            partition_of_facts,
            second: second("sparse-reads")?,
            second_of_facts,
            idle: per(figures, "idle", "second")?,
            measured_cluster: true,
        };
        let mut costs = costs.in_cluster(figures, masters);
        if let Some(kafka) = kafka {
            // A record does not go to Redis, so a cluster does not change its cost.
            costs.append = kafka.produce;
        }
        Ok(costs)
    }

    /// Multiplies the costs of one server by what a cluster of this size was measured to cost in addition.
    ///
    /// Requests have the ratio of as many masters, and that of [`MOST_MASTERS`] for more: a single request goes to one master however many there
    /// are, and yet its cost grew with them, probably because fewer commands share a pipeline. Items of pages and lines have the ratio of one
    /// master, because with several their figures also contain the calls to each of them, which [`call`](Self::call) has.
    fn in_cluster(mut self, figures: &Figures, masters: usize) -> Costs {
        if masters < 2 {
            return self;
        }
        let ratio = |kind: &str, masters: usize| -> Option<Cost> {
            let of = |part: &str| -> Option<f64> {
                let of = |masters| {
                    figures.optional(&format!("countd.cluster.{kind}.{masters}.{part}-us"))
                };
                let (cluster, one) = (of(masters)?, of(0)?);
                (one > 0.0).then(|| cluster / one)
            };
            Some(Cost {
                client: 1.0,
                countd: of("countd")?,
                redis: of("redis")?,
            })
        };
        let mut measured = (1..=masters.min(MOST_MASTERS)).rev();
        let single = measured.find_map(|masters| ratio(SINGLE, masters));
        let [page, like, read] = ITEMS.map(|kind| ratio(kind, 1));
        let (Some(single), Some(page), Some(like), Some(read)) = (single, page, like, read) else {
            self.measured_cluster = false;
            return self;
        };
        let apply =
            |cost: &mut Cost, ratio: Cost| *cost = cost.map(ratio, |cost, ratio| cost * ratio);
        for (cost, ratio) in [
            (&mut self.request, single),
            (&mut self.call, single),
            (&mut self.entity, page),
            (&mut self.alone, single),
            (&mut self.alone_write, single),
            (&mut self.fact, like),
            (&mut self.partition_of_facts, like),
            (&mut self.partition, read),
            (&mut self.append, read),
            (&mut self.count, read),
            (&mut self.count_hot, read),
        ] {
            apply(cost, ratio);
        }
        self
    }
}

/// The cost of an entity, an action or a request of a kind.
fn requested(figures: &Figures, kind: &str) -> Result<Cost, FiguresError> {
    let get = |part: &str| figures.get(&format!("countd.{kind}-{part}-ns"));
    Ok(Cost {
        client: get("client")? * 1e-9,
        countd: get("countd")? * 1e-9,
        redis: get("redis")? * 1e-9,
    })
}

/// The cost of an event, an action, a request or a second (`unit`). Clients have no part in it.
fn per(figures: &Figures, name: &str, unit: &str) -> Result<Cost, FiguresError> {
    let get = |part: &str| figures.get(&format!("countd.{name}.{part}-ns-per-{unit}"));
    Ok(Cost {
        client: 0.0,
        countd: get("countd")? * 1e-9,
        redis: get("redis")? * 1e-9,
    })
}

#[cfg(test)]
mod tests;
