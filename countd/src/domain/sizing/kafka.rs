//! What Kafka as the log costs, as `scripts/bench --only countd-kafka` measures it.
//!
//! These figures are optional. Without them, the costs of streams are assumed, and neither the CPU time of brokers nor the latency of the
//! topic is known.

use super::cost::Cost;
use super::figures::Figures;
use super::workload::{LogKind, Stored, Workload};
use serde::Serialize;

/// The measured costs of Kafka as the log. The benchmark has one broker, so nothing is replicated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KafkaCosts {
    /// A repeatable action of `POST /actions`, until the topic has its event. It does not need Redis.
    pub produce: Cost,
    /// The counting of an event from the topic. `None` for objects, because the benchmark counts into tables.
    pub counting: Option<Counting>,
    /// CPU seconds of a broker for appending a record.
    pub append: f64,
    /// CPU seconds of a broker for sending a record to a consumer that keeps up.
    pub fetch: f64,
    /// Seconds from the arrival of a request to its reply, when the topic has its event: the median and the 99th percentile.
    pub confirmation: [f64; 2],
}

/// The costs of counting an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counting {
    /// If entities have few events each.
    pub long_tail: Cost,
    /// Of a hot entity.
    pub hot: Cost,
}

/// Which costs of Kafka as the log were measured. The others are assumed. Nothing is measured if streams are the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredKafka {
    /// Producing a record, the CPU time of brokers, and the latency until the topic has a record.
    pub producing: bool,
    /// Counting from the topic.
    pub counting: bool,
}

impl KafkaCosts {
    /// The costs, if Kafka is the log and the figures have all of them.
    pub fn of(figures: &Figures, workload: &Workload) -> Option<KafkaCosts> {
        if workload.log == LogKind::Streams {
            return None;
        }
        let value = |name: &str| figures.get(&format!("countd.kafka.{name}")).ok();
        let seconds = |name: &str| value(name).map(|nanoseconds| nanoseconds * 1e-9);
        let counted = |pool: &str| {
            Some(Cost {
                client: 0.0,
                countd: seconds(&format!("{pool}.counted-countd-ns"))?,
                redis: seconds(&format!("{pool}.counted-redis-ns"))?,
            })
        };
        let (append, fetch) = (
            seconds("long-tail.produced-broker-ns")?,
            seconds("long-tail.counted-broker-ns")?,
        );
        // A consumer that keeps up fetches few records at a time. An older run has not measured that.
        let at_once = seconds("long-tail.at-once-broker-ns").unwrap_or(0.0);
        let counting = match workload.storage {
            Stored::Table => Some(Counting {
                long_tail: counted("long-tail")?,
                hot: counted("hot")?,
            }),
            Stored::Object => None,
        };
        Some(KafkaCosts {
            // The client has a core of its own in this benchmark, so its CPU time is measured.
            produce: Cost {
                client: seconds("long-tail.produced-client-ns")?,
                countd: seconds("long-tail.produced-countd-ns")?,
                redis: 0.0,
            },
            counting,
            append,
            fetch: fetch.max(at_once - append),
            confirmation: [
                value("latency-p50-ms")? * 1e-3,
                value("latency-p99-ms")? * 1e-3,
            ],
        })
    }
}

impl MeasuredKafka {
    /// What is measured if these are the costs.
    pub(super) fn new(costs: Option<KafkaCosts>) -> MeasuredKafka {
        MeasuredKafka {
            producing: costs.is_some(),
            counting: costs.is_some_and(|costs| costs.counting.is_some()),
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::super::figures::Figures;

    /// The figures that [`measured`] adds.
    pub const FIGURES: [(&str, f64); 10] = [
        ("countd.kafka.long-tail.produced-client-ns", 400.0),
        ("countd.kafka.long-tail.produced-countd-ns", 3_000.0),
        ("countd.kafka.long-tail.produced-broker-ns", 2_000.0),
        ("countd.kafka.long-tail.counted-countd-ns", 1_500.0),
        ("countd.kafka.long-tail.counted-redis-ns", 900.0),
        ("countd.kafka.long-tail.counted-broker-ns", 1_000.0),
        ("countd.kafka.hot.counted-countd-ns", 1_200.0),
        ("countd.kafka.hot.counted-redis-ns", 300.0),
        ("countd.kafka.latency-p50-ms", 2.0),
        ("countd.kafka.latency-p99-ms", 9.0),
    ];

    /// These figures with those of Kafka.
    pub fn measured(figures: Figures) -> Figures {
        let add = |figures: Figures, (name, value): (&str, f64)| figures.with(name, value);
        FIGURES.into_iter().fold(figures, add)
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::testing::workload;
    use super::testing::{FIGURES, measured};
    use super::*;

    fn kafka() -> Workload {
        Workload {
            log: LogKind::Kafka,
            ..workload()
        }
    }

    fn none() -> Figures {
        Figures::parse("{}").expect("figures")
    }

    #[test]
    fn costs_are_those_of_the_figures() {
        let costs = KafkaCosts::of(&measured(none()), &kafka()).expect("measured");
        let nanoseconds = |seconds: f64| (seconds * 1e9).round();
        let of = |cost: Cost| [cost.client, cost.countd, cost.redis].map(nanoseconds);
        assert_eq!(of(costs.produce), [400.0, 3_000.0, 0.0]);
        let counting = costs.counting.expect("measured");
        assert_eq!(of(counting.long_tail), [0.0, 1_500.0, 900.0]);
        assert_eq!(of(counting.hot), [0.0, 1_200.0, 300.0]);
        let brokers = [costs.append, costs.fetch].map(nanoseconds);
        assert_eq!(brokers, [2_000.0, 1_000.0]);
        assert_eq!(costs.confirmation.map(nanoseconds), [2e6, 9e6]);
        let all = MeasuredKafka {
            producing: true,
            counting: true,
        };
        assert_eq!(MeasuredKafka::new(Some(costs)), all);
        let fetch = |at_once| {
            let name = "countd.kafka.long-tail.at-once-broker-ns";
            let figures = measured(none()).with(name, at_once);
            KafkaCosts::of(&figures, &kafka()).map(|costs| nanoseconds(costs.fetch))
        };
        assert_eq!(
            [fetch(9_000.0), fetch(2_500.0)],
            [Some(7_000.0), Some(1_000.0)]
        );
    }

    #[test]
    fn costs_are_not_measured_if_a_figure_is_missing_or_streams_are_the_log() {
        assert_eq!(MeasuredKafka::new(None), MeasuredKafka::default());
        assert_eq!(KafkaCosts::of(&none(), &kafka()), None);
        assert_eq!(KafkaCosts::of(&measured(none()), &workload()), None);
        for (name, _) in FIGURES {
            let figures = measured(none()).without(name);
            assert_eq!(KafkaCosts::of(&figures, &kafka()), None, "{name}");
        }
    }

    #[test]
    fn counting_into_objects_is_not_measured() {
        let objects = Workload {
            storage: Stored::Object,
            ..kafka()
        };
        let costs = KafkaCosts::of(&measured(none()), &objects);
        let expected = MeasuredKafka {
            producing: true,
            counting: false,
        };
        assert_eq!(MeasuredKafka::new(costs), expected);
    }
}
