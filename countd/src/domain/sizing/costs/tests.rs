//! Tests of the costs.

use super::super::cost::testing::assert_cost;
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
    for kind in ITEMS.into_iter().chain([SINGLE]) {
        for (masters, value) in [(0, 2.0), (1, 3.0)] {
            for part in ["countd", "redis"] {
                figures =
                    figures.with(&format!("countd.cluster.{kind}.{masters}.{part}-us"), value);
            }
        }
    }
    figures
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
fn single_requests_cost_what_as_many_masters_were_measured_to_cost() {
    let mut figures = with_clusters(figures());
    for (masters, countd, redis) in [(2, 4.0, 5.0), (3, 5.0, 6.0)] {
        for (part, value) in [("countd", countd), ("redis", redis)] {
            figures = figures.with(&format!("countd.cluster.single.{masters}.{part}-us"), value);
            // Items of lines keep the ratio of one master.
            figures = figures.with(&format!("countd.cluster.like.{masters}.{part}-us"), 9.0);
        }
    }
    let of = |masters| Costs::new(&figures, &workload(), masters).expect("costs");
    assert_cost(of(1).request, [7_700.0, 16_300.0, 7_700.0]);
    assert_cost(of(2).request, [7_700.0, 32_600.0, 19_250.0]);
    // Of more masters than were measured, those of the most.
    for masters in [3, 4, 1_024] {
        let costs = of(masters);
        assert_cost(costs.request, [7_700.0, 40_750.0, 23_100.0]);
        assert_cost(costs.call, [0.0, 20_750.0, 23_100.0]);
        assert_cost(costs.alone, [0.0, 75_000.0, 30_000.0]);
        assert_cost(costs.fact, [100.0, 3_450.0, 2_400.0]);
    }
    // A run that did not measure three has those of two.
    let figures = figures.without("countd.cluster.single.3");
    let costs = Costs::new(&figures, &workload(), 3).expect("costs");
    assert!(costs.measured_cluster);
    assert_cost(costs.request, [7_700.0, 32_600.0, 19_250.0]);
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
