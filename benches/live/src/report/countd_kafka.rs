//! The section on Kafka as the log.

use crate::measure::countd::kafka::failover::EVENTS_PER_SECOND;
use crate::measure::countd::kafka::latency::LEVEL;
use crate::measure::countd::kafka::results::{
    Failover, KafkaResults, Latency, LogRates, PartCosts, Rate,
};
use crate::measure::countd::kafka::setup::{RECORD_BYTES, TOPIC_PARTITIONS};
use crate::measure::stats::Spread;
use crate::report::check::{Check, Threshold};
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::{Table, thousands};
use crate::workload::events::EntityPool;
use crate::workload::scale::CountdScale;

/// The name in `--only`.
pub const NAME: &str = "countd-kafka";
/// The heading.
pub const TITLE: &str = "countd: Kafka as the log";

/// Minimum throughput on hot keys in thousands of events per second.
const MIN_COUNTED: f64 = 300.0;
/// Minimum throughput of `POST /actions` into the topic in thousands of actions per second.
const MIN_PRODUCED: f64 = 150.0;

/// The pools, each with its name in figures.
const POOLS: [(EntityPool, &str); 2] = [
    (EntityPool::Hot, "hot"),
    (EntityPool::LongTail, "long-tail"),
];

/// What one side does: a label, a name in figures, and its rate.
type Side = (&'static str, &'static str, fn(&LogRates) -> Rate);

const SIDES: [Side; 5] = [
    ("`POST /actions` into the topic", "produced", |rates| {
        rates.produce
    }),
    ("`kafka-producer-perf-test`", "perf-produced", |rates| {
        rates.perf_produce
    }),
    ("`countd consume`", "counted", |rates| rates.consume),
    ("`kafka-consumer-perf-test`", "perf-consumed", |rates| {
        rates.perf_consume
    }),
    ("`countd all`, both at once", "at-once", |rates| {
        rates.at_once
    }),
];

/// The parts whose CPU time is shown, each with its name in figures.
type Part = (&'static str, fn(&PartCosts) -> f64);

const PARTS: [Part; 4] = [
    ("client", |cpu| cpu.client),
    ("countd", |cpu| cpu.countd),
    ("redis", |cpu| cpu.redis),
    ("broker", |cpu| cpu.broker),
];

/// Formats the results.
pub fn section(results: &KafkaResults, scale: &CountdScale) -> Section {
    let mut figures = Figures::default();
    let rates = rate_table(results, &mut figures);
    let latency = latency_table(results, &mut figures);
    let failover = failover_text(results, &mut figures);
    let bytes = results.of(EntityPool::Hot, |rates| rates.record_bytes);
    let highest = results.latency(|found| found.highest).median();
    Section {
        title: TITLE.into(),
        body: format!(
            "One core runs Redis and countd, or in their place a performance test of Kafka; the other runs the broker (one node, KRaft, the \
             options of its own scripts) and the clients of countd. Everything is restarted {} times; values are medians, and the order of the \
             sides alternates. Topics have {TOPIC_PARTITIONS} partitions.\n\n\
             *Produced*: {} reads in requests of 1,000 lines over 4 connections, each confirmed when the topic has all of its events; after a \
             tenth of them as a warm-up. `kafka-producer-perf-test` sends as many records of {RECORD_BYTES} bytes without keys, with `acks=all`, \
             idempotence and the `linger.ms=1` of countd. *Counted*: `countd consume` with its default configuration, from the first counted events that are seen to the last event \
             of the filled topic; the sum of the counters is compared with the number of events. `kafka-consumer-perf-test` fetches the same records \
             ({:.0} bytes each, key and value) and drops them; its time for joining a group is left out. *One after the other* is producing and counting, by the same core. *At once* is one process that does both, so that it fetches few records at a time; \
             [the threshold](#regression-thresholds) of {MIN_COUNTED:.0} thousand/s is one for counting alone. The client is the process that sends requests, or the performance test, from the start of its virtual machine on. Neither test of \
             Kafka parses an event, chooses its partition by a key, or counts.\n\n{rates}\n\
             Latency at {:.0}% of the {} single requests per second that countd bears here, which arrive at random times: from the arrival of a `POST /action/read` \
             to its reply, when all in-sync replicas have the event. Kafka's producer sends records at the same rate; its latency is in whole \
             milliseconds, from sending to the confirmation, without HTTP. It cannot warm up first: its p99 is that of the start of its virtual machine.\n\n{latency}\n{failover}",
            scale.repeats,
            scale.events,
            bytes.median(),
            LEVEL * 100.0,
            thousands(highest),
        ),
        checks: checks(results),
        figures,
        ..Section::default()
    }
}

fn rate_table(results: &KafkaResults, figures: &mut Figures) -> String {
    let mut table = Table::new(&[
        "",
        "events /s",
        "quartiles",
        "client CPU, ns each",
        "countd",
        "Redis",
        "broker",
    ]);
    for (pool, of_pool) in POOLS {
        for (label, name, side) in SIDES {
            let rate = results.of(pool, |rates| side(rates).per_second);
            let costs = PARTS.map(|(part, cost)| {
                let cost = results.of(pool, |rates| cost(&side(rates).cpu) * 1e9);
                (part, cost.median())
            });
            let mut cells = vec![
                format!("{label}, {}", pool.label()),
                format!("{:.0}", rate.median()),
                quartiles(&rate),
            ];
            figures.add(
                format!("countd.kafka.{of_pool}.{name}-per-s"),
                rate.median(),
                0,
            );
            for (part, cost) in costs {
                cells.push(match cost.round() {
                    0.0 => String::new(),
                    cost => format!("{cost:.0}"),
                });
                figures.add(
                    format!("countd.kafka.{of_pool}.{name}-{part}-ns"),
                    cost.max(0.0),
                    0,
                );
            }
            table.row(&cells);
        }
        for (label, name, value) in [
            (
                "countd, one after the other",
                "end-to-end",
                LogRates::end_to_end as fn(&LogRates) -> f64,
            ),
            (
                "Kafka's tests, one after the other",
                "perf-end-to-end",
                LogRates::perf_end_to_end,
            ),
        ] {
            let rate = results.of(pool, value);
            let mut cells = vec![
                format!("{label}, {}", pool.label()),
                format!("{:.0}", rate.median()),
                quartiles(&rate),
            ];
            cells.extend(PARTS.map(|_| String::new()));
            table.row(&cells);
            figures.add(
                format!("countd.kafka.{of_pool}.{name}-per-s"),
                rate.median(),
                0,
            );
        }
    }
    table.finish()
}

fn quartiles(rate: &Spread) -> String {
    format!("{:.0} .. {:.0}", rate.low(), rate.high())
}

fn latency_table(results: &KafkaResults, figures: &mut Figures) -> String {
    let mut table = Table::new(&["", "per second", "p50, ms", "p99, ms"]);
    let rate = results.latency(|found| found.per_second).median();
    type Value = fn(&Latency) -> f64;
    let rows: [(&str, &str, [Value; 2]); 2] = [
        (
            "`POST /action/read` into the topic",
            "latency",
            [|found| found.p50, |found| found.p99],
        ),
        (
            "`kafka-producer-perf-test`",
            "perf-latency",
            [|found| found.perf_p50, |found| found.perf_p99],
        ),
    ];
    for (label, name, values) in rows {
        let [p50, p99] = values.map(|value| results.latency(value).median() * 1e3);
        table.row(&[
            label.to_owned(),
            format!("{rate:.0}"),
            format!("{p50:.1}"),
            format!("{p99:.1}"),
        ]);
        figures.add(format!("countd.kafka.{name}-p50-ms"), p50, 1);
        figures.add(format!("countd.kafka.{name}-p99-ms"), p99, 1);
    }
    figures.add("countd.kafka.latency-per-s", rate, 0);
    table.finish()
}

fn failover_text(results: &KafkaResults, figures: &mut Figures) -> String {
    let median = |value: fn(&Failover) -> f64| results.failover(value).median();
    let (usual, peak) = (
        median(|found| found.usual as f64),
        median(|found| found.peak as f64),
    );
    let (taken_over, recovered) = (
        median(|found| found.taken_over),
        median(|found| found.recovered),
    );
    figures.add("countd.kafka.failover-usual-lag", usual, 0);
    figures.add("countd.kafka.failover-peak-lag", peak, 0);
    figures.add("countd.kafka.failover-taken-over-seconds", taken_over, 1);
    figures.add("countd.kafka.failover-recovered-seconds", recovered, 1);
    format!(
        "A consumer's death: two `countd consume` count a steady {} events/s, and one of them is killed with SIGKILL. Before, the lag is at most {} events. \
         It is highest {taken_over:.1} s after the kill, with {} events, when the other one reads all partitions (`consumer.session_timeout_ms` is 5 s); \
         after {recovered:.1} s it is as before. Every event is counted once.\n",
        thousands(EVENTS_PER_SECOND as f64),
        thousands(usual),
        thousands(peak),
    )
}

fn checks(results: &KafkaResults) -> Vec<Check> {
    let hot = EntityPool::Hot;
    let at_least = |what: &str, side: fn(&LogRates) -> Rate, threshold| {
        let rate = results.of(hot, |rates| side(rates).per_second / 1e3);
        Check {
            quartiles: Some((rate.low(), rate.high())),
            ..Check::absolute(
                what.into(),
                rate.median(),
                "thousand/s",
                Threshold::AtLeast(threshold),
            )
        }
    };
    let ratio = |what: &str, pool, value: fn(&LogRates) -> f64| {
        let ratio = results.of(pool, value);
        Check {
            quartiles: Some((ratio.low(), ratio.high())),
            ..Check::speed(what.into(), ratio.median(), None)
        }
    };
    let p99 = results.latency(|found| found.p99 / found.perf_p99.max(1e-3));
    vec![
        at_least(
            "countd, events counted from Kafka, 1,000 hot keys",
            |rates| rates.consume,
            MIN_COUNTED,
        ),
        at_least(
            "countd, POST /actions into Kafka, 1,000 hot keys",
            |rates| rates.produce,
            MIN_PRODUCED,
        ),
        ratio(
            "countd, events counted from Kafka, 1,000 hot keys : kafka-consumer-perf-test, which drops them",
            hot,
            |rates| rates.consume.per_second / rates.perf_consume.per_second,
        ),
        ratio(
            "countd, events counted from Kafka, long tail : kafka-consumer-perf-test, which drops them",
            EntityPool::LongTail,
            |rates| rates.consume.per_second / rates.perf_consume.per_second,
        ),
        ratio(
            "countd, POST /actions into Kafka : kafka-producer-perf-test",
            hot,
            |rates| rates.produce.per_second / rates.perf_produce.per_second,
        ),
        ratio(
            "countd, events produced and counted, one after the other, 1,000 hot keys : Kafka's performance tests",
            hot,
            |rates| rates.end_to_end() / rates.perf_end_to_end(),
        ),
        Check {
            quartiles: Some((p99.low(), p99.high())),
            ..Check::cost(
                "countd, POST /action/read into Kafka, p99 : kafka-producer-perf-test".into(),
                p99.median(),
                None,
            )
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::scale::Scale;

    fn rates(factor: f64) -> LogRates {
        let rate = |per_second| Rate {
            per_second,
            cpu: PartCosts {
                client: 1e-6,
                countd: 2e-6,
                redis: 1e-9 / 4.0,
                broker: 3e-6,
            },
        };
        LogRates {
            perf_produce: rate(400_000.0),
            produce: rate(200_000.0 * factor),
            perf_consume: rate(1_200_000.0),
            consume: rate(300_000.0 * factor),
            at_once: rate(90_000.0 * factor),
            record_bytes: 189.6,
        }
    }

    fn results() -> KafkaResults {
        KafkaResults {
            throughput: vec![
                (EntityPool::Hot, rates(1.0)),
                (EntityPool::LongTail, rates(0.5)),
            ],
            latency: vec![Latency {
                highest: 16_000.0,
                per_second: 8_000.0,
                p50: 0.0021,
                p99: 0.009,
                perf_p50: 0.002,
                perf_p99: 0.006,
            }],
            failover: vec![Failover {
                usual: 1_200,
                peak: 61_000,
                taken_over: 5.4,
                recovered: 6.3,
            }],
        }
    }

    #[test]
    fn countd_is_compared_with_the_tests_of_kafka() {
        let section = section(&results(), &Scale::full().countd);
        let values: Vec<f64> = section.checks.iter().map(|check| check.value).collect();
        assert_eq!(values[..5], [300.0, 200.0, 0.25, 0.125, 0.5]);
        assert!((values[5] - 0.4).abs() < 1e-9 && (values[6] - 1.5).abs() < 1e-9);
        assert_eq!(section.checks[0].met(), Some(true));
        assert!(section.checks[2..].iter().all(|check| check.worse));
        let body = &section.body;
        assert!(body.contains("| `countd consume`, 1,000 hot keys | 300000 | 300000 .. 300000 | 1000 | 2000 |  | 3000 |\n"), "{body}");
        assert!(
            body.contains("(190 bytes each, key and value)") && body.contains("50% of the 16,000")
        );
    }

    #[test]
    fn rates_below_the_bars_are_not_met() {
        let mut results = results();
        results.throughput[0].1 = rates(0.7);
        let section = section(&results, &Scale::full().countd);
        let met: Vec<_> = section.checks.iter().filter_map(Check::met).collect();
        assert_eq!(met, [false, false]);
    }

    #[test]
    fn every_result_is_a_figure() {
        let section = section(&results(), &Scale::full().countd);
        let figures = section.figures.to_json().unwrap();
        for (name, value) in [
            ("hot.counted-per-s", "300000"),
            ("long-tail.counted-per-s", "150000"),
            ("hot.produced-per-s", "200000"),
            ("hot.perf-consumed-per-s", "1200000"),
            ("hot.end-to-end-per-s", "120000"),
            ("hot.counted-countd-ns", "2000"),
            ("hot.produced-broker-ns", "3000"),
            ("latency-p99-ms", "9.0"),
            ("perf-latency-p99-ms", "6.0"),
            ("failover-peak-lag", "61000"),
            ("failover-recovered-seconds", "6.3"),
        ] {
            let line = format!("\"countd.kafka.{name}\": {value}");
            assert!(figures.contains(&line), "{line}: {figures}");
        }
    }
}
