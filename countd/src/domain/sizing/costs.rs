//! What an action, an event and a read cost at each part, in seconds of a core.

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
    /// Whether the costs of clusters were measured. If not, those of one server are used.
    pub measured_cluster: bool,
}

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
        let costs = Costs {
            request,
            call: Cost {
                client: 0.0,
                ..request
            }
            .without(bare),
            entity,
            fact: requested(figures, "like-actions")?,
            append,
            count,
            count_hot,
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
            (&mut self.fact, like),
            (&mut self.append, read),
            (&mut self.count, read),
            (&mut self.count_hot, read),
        ] {
            apply(cost, ratio);
        }
        self
    }
}

/// The cost of an entity, an action or a request of a kind. Clients share the core of countd, which is busy: what countd does not use is theirs.
fn requested(figures: &Figures, kind: &str) -> Result<Cost, FiguresError> {
    let get = |what: &str| figures.get(&format!("countd.{kind}-{what}"));
    let (rate, countd) = (get("per-s")?, get("countd-ns")? * 1e-9);
    Ok(Cost {
        client: if rate > 0.0 {
            (1.0 / rate - countd).max(0.0)
        } else {
            0.0
        },
        countd,
        redis: get("redis-ns")? * 1e-9,
    })
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
            "countd.single-reads-per-s": 40000, "countd.single-reads-countd-ns": 17000, "countd.single-reads-redis-ns": 8000,
            "countd.batch-entities-per-s": 1000000, "countd.batch-entities-countd-ns": 700, "countd.batch-entities-redis-ns": 300,
            "countd.object.batch-entities-per-s": 900000, "countd.object.batch-entities-countd-ns": 750, "countd.object.batch-entities-redis-ns": 350,
            "countd.feed-entities-per-s": 900000, "countd.feed-entities-countd-ns": 900, "countd.feed-entities-redis-ns": 700,
            "countd.bare-reads-countd-ns": 8000,
            "countd.read-actions-per-s": 350000, "countd.read-actions-countd-ns": 2600, "countd.read-actions-redis-ns": 1800,
            "countd.like-actions-per-s": 400000, "countd.like-actions-countd-ns": 2400, "countd.like-actions-redis-ns": 1700,
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
        assert_cost(costs.fact, [100.0, 2_400.0, 1_700.0]);
        assert_cost(costs.append, [257.0, 1_600.0, 1_200.0]);
        assert_cost(costs.count, [0.0, 1_100.0, 1_400.0]);
        assert_cost(costs.count_hot, [0.0, 1_000.0, 600.0]);
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
        assert_cost(unknown.fact, [100.0, 2_400.0, 1_700.0]);
        let figures = with_clusters(figures());
        let costs = Costs::new(&figures, &workload(), 2).expect("costs");
        assert!(costs.measured_cluster);
        assert_cost(costs.fact, [100.0, 3_600.0, 2_550.0]);
        assert_cost(costs.call, [0.0, 12_450.0, 11_550.0]);
        assert_cost(
            Costs::new(&figures, &workload(), 1).expect("costs").fact,
            [100.0, 2_400.0, 1_700.0],
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
        assert_cost(costs.fact, [100.0, 2_400.0, 1_700.0]);
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
