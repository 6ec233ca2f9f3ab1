//! What an action, an event and a read cost at each part, in seconds of a core.

use super::commits;
use super::cost::Cost;
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

/// The requests per second with which the benchmark sends few actions.
const SPARSE_REQUESTS: f64 = 200.0;
/// The name of a kind of request in the figures of the benchmark of clusters.
const CLUSTER_KINDS: [&str; 4] = ["single", "feed", "like", "read"];

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
            Stored::Object => "object.",
        };
        // The benchmark's reads are those of hot entities in tables, and include their counting.
        let append = requested(figures, "read-actions")?.without(counted(figures, "hot")?);
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
                counted(figures, &format!("long-tail.{stored}"))?,
                counted(figures, &format!("hot.{stored}"))?,
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
        let facts = Facts {
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
    /// The benchmark has at most three masters. Its pages and lines go to as many servers, which [`call`](Self::call) has already: so only
    /// the ratio of one master to a server that is not in cluster mode is taken.
    fn in_cluster(mut self, figures: &Figures, masters: usize) -> Costs {
        if masters < 2 {
            return self;
        }
        let ratio = |kind: &str, part: &str| -> Option<f64> {
            let of =
                |masters| figures.optional(&format!("countd.cluster.{kind}.{masters}.{part}-us"));
            let (cluster, one) = (of(1)?, of(0)?);
            (one > 0.0).then(|| cluster / one)
        };
        let ratios = CLUSTER_KINDS.map(|kind| {
            Some(Cost {
                client: 1.0,
                countd: ratio(kind, "countd")?,
                redis: ratio(kind, "redis")?,
            })
        });
        let [Some(single), Some(page), Some(like), Some(read)] = ratios else {
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

/// The cost of an action or of a second, if few actions come.
fn per(figures: &Figures, name: &str, unit: &str) -> Result<Cost, FiguresError> {
    let get = |part: &str| figures.get(&format!("countd.{name}.{part}-ns-per-{unit}"));
    Ok(Cost {
        client: 0.0,
        countd: get("countd")? * 1e-9,
        redis: get("redis")? * 1e-9,
    })
}

/// What facts cost at two rates: at the lower one each has a partition of its own in a commit.
struct Facts {
    /// The cost of a fact at the higher rate, with everything that a second costs.
    dense: Cost,
    /// The higher rate, per second.
    rate: f64,
    /// The cost of a fact at the lower rate, without what a second costs.
    sparse: Cost,
    /// What a second costs.
    second: Cost,
}

impl Facts {
    /// The cost of a fact and that of a partition with facts in a commit.
    fn split(&self) -> (Cost, Cost) {
        let partitions = commits::partitions(self.rate, 1.0) / self.rate;
        let dense = self.dense.without(self.second.times(1.0 / self.rate));
        let partition = self.sparse.without(dense).times(1.0 / (1.0 - partitions));
        let partition = partition.map(self.sparse, f64::min);
        let fact = self.sparse.without(partition);
        let client = self.dense.client;
        (Cost { client, ..fact }, partition)
    }
}

/// The cost of counting an event. `pool` is `hot`, `long-tail`, or one of them with `.object.`.
fn counted(figures: &Figures, pool: &str) -> Result<Cost, FiguresError> {
    let get = |part: &str| {
        figures.get(&format!(
            "countd.{}.{part}-ns-per-event",
            pool.trim_end_matches('.')
        ))
    };
    Ok(Cost {
        client: 0.0,
        countd: get("countd")? * 1e-9,
        redis: get("redis")? * 1e-9,
    })
}

#[cfg(test)]
mod tests {
    use super::super::kafka::testing::measured;
    use super::super::workload::testing::workload;
    use super::*;

    fn figures() -> Figures {
        let text = r#"{
            "countd.single-reads-client-ns": 8000, "countd.single-reads-countd-ns": 17000, "countd.single-reads-redis-ns": 8000,
            "countd.batch-entities-client-ns": 300, "countd.batch-entities-countd-ns": 700, "countd.batch-entities-redis-ns": 300,
            "countd.object.batch-entities-client-ns": 361, "countd.object.batch-entities-countd-ns": 750, "countd.object.batch-entities-redis-ns": 350,
            "countd.feed-entities-client-ns": 211, "countd.feed-entities-countd-ns": 900, "countd.feed-entities-redis-ns": 700,
            "countd.bare-reads-countd-ns": 8000,
            "countd.read-actions-client-ns": 257, "countd.read-actions-countd-ns": 2600, "countd.read-actions-redis-ns": 1800,
            "countd.like-actions-client-ns": 100, "countd.like-actions-per-s": 400000, "countd.like-actions-countd-ns": 2400, "countd.like-actions-redis-ns": 1700,
            "countd.alone-reads.countd-ns-per-request": 46300, "countd.alone-reads.redis-ns-per-request": 17700,
            "countd.alone-likes.countd-ns-per-request": 56300, "countd.alone-likes.redis-ns-per-request": 9700,
            "countd.alone-reads.p50-us": 126, "countd.alone-likes.p50-us": 128,
            "countd.sparse-reads.countd-ns-per-action": 8700, "countd.sparse-reads.redis-ns-per-action": 9600,
            "countd.sparse-reads.countd-ns-per-second": 40000000, "countd.sparse-reads.redis-ns-per-second": 60000000,
            "countd.sparse-likes.countd-ns-per-action": 2300, "countd.sparse-likes.redis-ns-per-action": 1600,
            "countd.sparse-likes.countd-ns-per-second": 40000000, "countd.sparse-likes.redis-ns-per-second": 40000000,
            "countd.idle.countd-ns-per-second": 10000000, "countd.idle.redis-ns-per-second": 20000000,
            "countd.hot.countd-ns-per-event": 1000, "countd.hot.redis-ns-per-event": 600,
            "countd.long-tail.countd-ns-per-event": 1100, "countd.long-tail.redis-ns-per-event": 1400,
            "countd.hot.object.countd-ns-per-event": 900, "countd.hot.object.redis-ns-per-event": 500,
            "countd.long-tail.object.countd-ns-per-event": 1300, "countd.long-tail.object.redis-ns-per-event": 3700
        }"#;
        Figures::parse(text).expect("figures")
    }

    /// These figures with clusters that cost half as much again as one server.
    fn with_clusters(mut figures: Figures) -> Figures {
        for kind in CLUSTER_KINDS {
            for (masters, value) in [(0, 2.0), (1, 3.0)] {
                for part in ["countd", "redis"] {
                    figures =
                        figures.with(&format!("countd.cluster.{kind}.{masters}.{part}-us"), value);
                }
            }
        }
        figures
    }

    fn assert_cost(cost: Cost, nanoseconds: [f64; 3]) {
        let found = [cost.client, cost.countd, cost.redis].map(|seconds| seconds * 1e9);
        for (found, expected) in found.iter().zip(nanoseconds) {
            assert!(
                (found - expected).abs() < 1.0,
                "{cost:?} instead of {nanoseconds:?}"
            );
        }
    }

    #[test]
    fn costs_are_those_of_the_figures() {
        let costs = Costs::new(&figures(), &workload(), 1).expect("costs");
        // 25 µs for a request, of which countd uses 17; an entity takes 1 µs, 700 ns of them in countd.
        assert_cost(costs.request, [7_700.0, 16_300.0, 7_700.0]);
        assert_cost(costs.call, [0.0, 8_300.0, 7_700.0]);
        assert_cost(costs.entity, [300.0, 700.0, 300.0]);
        assert_cost(costs.fact, [100.0, 2_300.0, 1_600.0]);
        assert_cost(costs.append, [257.0, 1_600.0, 1_200.0]);
        assert_cost(costs.count, [0.0, 1_100.0, 1_400.0]);
        assert_cost(costs.count_hot, [0.0, 1_000.0, 600.0]);
        assert_cost(costs.alone, [0.0, 30_000.0, 10_000.0]);
        assert_cost(costs.alone_write, [0.0, 40_000.0, 2_000.0]);
        // 126 µs without 17 and 8, and 128 without 16.3 + 2.3 and 7.7 + 1.6.
        let latencies = [costs.alone_latency, costs.alone_write_latency];
        assert_eq!(
            latencies.map(|seconds| (seconds * 1e7).round()),
            [1_010.0, 1_001.0]
        );
        assert_cost(costs.partition, [0.0, 6_000.0, 7_000.0]);
        assert_cost(costs.partition_of_facts, [0.0, 0.0, 0.0]);
        // Without 200 requests of 56.3 and 9.7 µs.
        assert_cost(costs.second, [0.0, 28_740_000.0, 58_060_000.0]);
        assert_cost(costs.idle, [0.0, 1e7, 2e7]);
    }

    #[test]
    fn facts_that_share_partitions_cost_less() {
        let cost = |countd: f64, redis: f64| Cost {
            client: 0.0,
            countd: countd * 1e-6,
            redis: redis * 1e-6,
        };
        // As many as partitions in each interval, of which 1 - 1/e have some.
        let rate = 1_024.0 / commits::INTERVAL;
        let of = |dense: Cost| {
            let second = cost(1e6, 2e6).times(0.1);
            let facts = Facts {
                dense: dense.plus(second.times(1.0 / rate)),
                rate,
                sparse: cost(10.0, 30.0),
                second,
            };
            facts.split()
        };
        let shared = 1.0 - (-1.0f64).exp();
        let (fact, partition) = of(cost(4.0 + 6.0 * shared, 20.0 + 10.0 * shared));
        assert_cost(fact, [0.0, 4_000.0, 20_000.0]);
        assert_cost(partition, [0.0, 6_000.0, 10_000.0]);
        // What was measured as more expensive for many has nothing that can be shared.
        let (fact, partition) = of(cost(20.0, 40.0));
        assert_cost(fact, [0.0, 10_000.0, 30_000.0]);
        assert_eq!(partition, Cost::default());
        // Facts that shared all cannot have cost less than nothing.
        let (fact, partition) = of(cost(0.0, 0.0));
        assert_eq!(fact, Cost::default());
        assert_cost(partition, [0.0, 10_000.0, 30_000.0]);
    }

    #[test]
    fn storage_statuses_and_log_select_the_figures() {
        let objects = Workload {
            storage: Stored::Object,
            ..workload()
        };
        let costs = Costs::new(&figures(), &objects, 1).expect("costs");
        assert_cost(costs.entity, [361.0, 750.0, 350.0]);
        assert_cost(costs.count, [0.0, 1_300.0, 3_700.0]);
        assert_cost(costs.count_hot, [0.0, 900.0, 500.0]);
        let feeds = Workload {
            statuses: true,
            ..workload()
        };
        assert_cost(
            Costs::new(&figures(), &feeds, 1).expect("costs").entity,
            [211.0, 900.0, 700.0],
        );
        let kafka = Workload {
            log: LogKind::Kafka,
            ..workload()
        };
        assert_cost(
            Costs::new(&figures(), &kafka, 1).expect("costs").append,
            [257.0, 1_600.0, 0.0],
        );
    }

    #[test]
    fn measured_clusters_multiply_the_costs() {
        let unknown = Costs::new(&figures(), &workload(), 2).expect("costs");
        assert!(!unknown.measured_cluster);
        assert_cost(unknown.fact, [100.0, 2_300.0, 1_600.0]);
        let figures = with_clusters(figures());
        let costs = Costs::new(&figures, &workload(), 2).expect("costs");
        assert!(costs.measured_cluster);
        assert_cost(costs.fact, [100.0, 3_450.0, 2_400.0]);
        assert_cost(costs.call, [0.0, 12_450.0, 11_550.0]);
        assert_cost(
            Costs::new(&figures, &workload(), 1).expect("costs").fact,
            [100.0, 2_300.0, 1_600.0],
        );
    }

    #[test]
    fn measured_costs_of_kafka_replace_the_assumed_ones() {
        let kafka = Workload {
            log: LogKind::Kafka,
            ..workload()
        };
        let assumed = Costs::new(&figures(), &kafka, 1).expect("costs");
        assert_cost(assumed.append, [257.0, 1_600.0, 0.0]);
        assert_cost(assumed.count, [0.0, 1_100.0, 1_400.0]);
        assert_cost(assumed.count_hot, [0.0, 1_000.0, 600.0]);
        let figures = measured(figures());
        let costs = Costs::new(&figures, &kafka, 1).expect("costs");
        assert_cost(costs.append, [400.0, 3_000.0, 0.0]);
        assert_cost(costs.count, [0.0, 1_500.0, 900.0]);
        assert_cost(costs.count_hot, [0.0, 1_200.0, 300.0]);
        assert_cost(costs.fact, [100.0, 2_300.0, 1_600.0]);
        let objects = Workload {
            storage: Stored::Object,
            ..kafka.clone()
        };
        let costs = Costs::new(&figures, &objects, 1).expect("costs");
        assert_cost(costs.append, [400.0, 3_000.0, 0.0]);
        assert_cost(costs.count, [0.0, 1_300.0, 3_700.0]);
        let costs = Costs::new(&figures, &workload(), 1).expect("costs");
        assert_cost(costs.append, [257.0, 1_600.0, 1_200.0]);
        assert_cost(costs.count, [0.0, 1_100.0, 1_400.0]);
        let costs = Costs::new(&with_clusters(figures), &kafka, 2).expect("costs");
        assert_cost(costs.append, [400.0, 3_000.0, 0.0]);
        assert_cost(costs.count, [0.0, 2_250.0, 1_350.0]);
    }

    #[test]
    fn a_missing_figure_is_named() {
        let error = Costs::new(&Figures::parse("{}").expect("figures"), &workload(), 1);
        assert!(
            matches!(error, Err(FiguresError::Missing(name)) if name.starts_with("countd.batch-entities"))
        );
    }
}
