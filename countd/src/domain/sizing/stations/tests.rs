//! Tests of the queues of a load.

use super::super::figures::Figures;
use super::super::workload::testing::{machines, workload};
use super::*;

/// Costs in microseconds that are easy to add.
fn costs() -> Costs {
    let figures = Figures::embedded().expect("figures");
    let cost = |client: f64, countd: f64, redis: f64| Cost {
        client: client * 1e-6,
        countd: countd * 1e-6,
        redis: redis * 1e-6,
    };
    Costs {
        request: cost(10.0, 20.0, 8.0),
        call: cost(0.0, 5.0, 8.0),
        entity: cost(0.0, 1.0, 0.5),
        fact: cost(0.0, 3.0, 2.0),
        append: cost(0.0, 2.0, 1.0),
        count: cost(0.0, 1.0, 1.0),
        count_hot: cost(0.0, 0.5, 0.5),
        alone: Cost::default(),
        alone_write: Cost::default(),
        alone_latency: 0.0,
        alone_write_latency: 0.0,
        partition: Cost::default(),
        partition_of_facts: Cost::default(),
        second: Cost::default(),
        second_of_facts: Cost::default(),
        idle: Cost::default(),
        ..Costs::new(&figures, &workload(), 1).expect("costs")
    }
}

fn stations(workload: &Workload, masters: usize, share: f64) -> Stations {
    let deployment = Deployment {
        masters,
        nodes: 2,
        brokers: 0,
    };
    Stations::new(workload, &machines(), &costs(), deployment, share)
}

fn near(value: f64, expected: f64) {
    assert!(
        (value - expected).abs() <= 1e-9 * expected.abs(),
        "{value} instead of {expected}"
    );
}

#[test]
fn single_requests_are_added_up() {
    // 2,000 reads of 8.5 µs; 1,000 actions of 8 + (2 + 1) / 2 µs; 500 counted events of 1 µs.
    let found = stations(&workload(), 1, 1.0);
    near(found.redis.needed_cores(), 0.017 + 0.0095 + 0.0005);
    // Each machine: 1,000 reads of 21 µs, 500 actions of 20 + 2.5 µs, and 250 events.
    near(found.countd.needed_cores(), 0.021 + 0.01125 + 0.00025);
    near(found.clients, 0.03);
    near(found.read.redis, 8.5e-6);
    near(found.write.countd, 22.5e-6);
    near(found.read.calls, 1.0);
    assert_eq!(found.hot, 0.0);
}

#[test]
fn pages_go_to_several_masters() {
    let load = Workload {
        actions: 0.0,
        page: 2.0,
        ..workload()
    };
    // Of two entities, a half is on each of two masters: three quarters of the pages need one of them.
    let found = stations(&load, 2, 0.5);
    near(found.read.calls, 1.5);
    near(found.redis.needed_cores(), 2_000.0 * (0.75 * 8e-6 + 0.5e-6));
    near(found.read.countd, (20.0 + 2.5 + 2.0) * 1e-6);
    // All of a large page's masters are needed.
    let load = Workload {
        page: 500.0,
        ..load
    };
    near(stations(&load, 2, 0.5).read.calls, 2.0);
}

#[test]
fn the_hottest_entity_is_on_the_busiest_master() {
    let load = Workload {
        hot_share: 0.1,
        ..workload()
    };
    let found = stations(&load, 4, 0.25);
    // A tenth of 17 + 9.5 ms, and of 500 events half a microsecond each.
    near(found.hot, 0.0017 + 0.00095 + 0.000_025);
    let busiest: f64 = 0.1 + 0.9 * 0.25;
    let events = (0.1 * 0.5 + 0.9 * 0.25) * 500e-6;
    near(
        found.redis.needed_cores(),
        busiest * (0.017 + 0.0095) + events,
    );
    let cached = Workload {
        hot_cache: true,
        ..load
    };
    near(stations(&cached, 4, 0.25).hot, 0.000_95 + 0.000_025);
}

#[test]
fn repeatable_actions_touch_redis_only_when_counted_with_kafka() {
    let load = Workload {
        reads: 0.0,
        once: 0.0,
        log: LogKind::Kafka,
        ..workload()
    };
    let found = stations(&load, 1, 1.0);
    near(found.redis.needed_cores(), 1_000.0 * 1e-6);
    assert_eq!(found.write.calls, 0.0);
    near(found.write.countd, 22e-6);
}

#[test]
fn commits_cost_less_for_each_event_the_more_share_a_partition() {
    let with = |actions: f64, once: f64| {
        let load = Workload {
            reads: 0.0,
            actions,
            once,
            lines: 1e6,
            ..workload()
        };
        let deployment = Deployment {
            masters: 1,
            nodes: 1,
            brokers: 0,
        };
        let cost = |redis: f64| Cost {
            redis,
            ..Cost::default()
        };
        let costs = Costs {
            request: Cost::default(),
            append: Cost::default(),
            fact: Cost::default(),
            count: cost(1e-6),
            partition: cost(10e-6),
            partition_of_facts: cost(20e-6),
            ..costs()
        };
        let found = Stations::new(&load, &machines(), &costs, deployment, 1.0);
        found.redis.needed_cores() / actions
    };
    assert!((with(1.0, 0.0) - 11e-6).abs() < 1e-8);
    assert!((with(1.0, 1.0) - 20e-6).abs() < 1e-8);
    // 1,024 partitions in each interval.
    let all = 1024.0 / commits::INTERVAL;
    near(with(1e9, 0.0), 1e-6 + all * 10e-6 / 1e9);
    near(with(1e9, 1.0), all * 20e-6 / 1e9);
}

#[test]
fn polls_cost_more_when_events_come() {
    let cost = |redis: f64| Cost {
        redis,
        ..Cost::default()
    };
    let costs = Costs {
        idle: cost(0.01),
        second: cost(0.05),
        second_of_facts: cost(0.09),
        ..costs()
    };
    let polled = |facts: f64, events: f64, partitions: f64| {
        let (_, polls) =
            Actions { facts, events }
                .background(&costs, Shares::new(0.0, partitions), |cost| cost.redis);
        polls.per_second * polls.seconds
    };
    near(polled(0.0, 0.0, 1.0), 0.01);
    near(polled(0.0, 1e6, 1.0), 0.05);
    near(polled(1e6, 1e6, 1.0), 0.09);
    // Each master is polled for its partitions.
    near(polled(1e6, 0.0, 0.25), 0.0225);
    let few = polled(0.0, 10.0, 1.0);
    assert!(few > 0.01 && few < 0.03, "{few}");
}

#[test]
fn every_load_grows_with_actions_reads_and_shrinks_with_machines() {
    let random = &mut fastrand::Rng::with_seed(5);
    for _ in 0..300 {
        let load = Workload {
            actions: 10f64.powf(random.f64() * 7.0),
            reads: 10f64.powf(random.f64() * 6.0),
            lines: random.u32(1..2_000).into(),
            page: random.u32(1..500).into(),
            once: random.f64(),
            hot_share: random.f64() * 0.2,
            ..workload()
        };
        let masters = random.usize(1..200);
        let share = 1.0 / masters as f64;
        let of = |load: &Workload, masters: usize| {
            let found = stations(load, masters, 1.0 / masters as f64);
            [
                found.redis.needed_cores(),
                found.hot,
                found.countd.needed_cores(),
            ]
        };
        let now = of(&load, masters);
        let more = Workload {
            actions: load.actions * 1.5,
            ..load.clone()
        };
        let reads = Workload {
            reads: load.reads * 1.5,
            ..load.clone()
        };
        for grown in [of(&more, masters), of(&reads, masters)] {
            for (now, grown) in now.iter().zip(grown) {
                assert!(grown >= now * (1.0 - 1e-9), "{load:?}");
            }
        }
        assert!(
            of(&load, masters + 1)[0] <= now[0] * (1.0 + 1e-9),
            "{load:?} {share}"
        );
    }
}
