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
    near(found.redis.busy_cores(), 0.017 + 0.0095 + 0.0005);
    // Each machine: 1,000 reads of 21 µs, 500 actions of 20 + 2.5 µs, and 250 events.
    near(found.countd.busy_cores(), 0.021 + 0.01125 + 0.00025);
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
    near(found.redis.busy_cores(), 2_000.0 * (0.75 * 8e-6 + 0.5e-6));
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
        found.redis.busy_cores(),
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
    near(found.redis.busy_cores(), 1_000.0 * 1e-6);
    assert_eq!(found.write.calls, 0.0);
    near(found.write.countd, 22e-6);
}

#[test]
fn clients_can_share_the_cores_of_countd() {
    let shared = Machines {
        clients_share_cores: true,
        ..machines()
    };
    let deployment = Deployment {
        masters: 1,
        nodes: 1,
        brokers: 0,
    };
    let busy = |machines: &Machines| {
        Stations::new(&workload(), machines, &costs(), deployment, 1.0)
            .countd
            .busy_cores()
    };
    near(busy(&shared) - busy(&machines()), 0.03);
}

#[test]
fn commits_have_the_events_of_a_linger() {
    assert_eq!(
        commits(10.0, 1e-6),
        Jobs {
            per_second: 10.0,
            seconds: 1e-6
        }
    );
    near(commits(10_000.0, 1e-6).seconds, 200e-6);
    near(commits(1e6, 1e-6).seconds, 1e-3);
    near(commits(1e6, 1e-6).per_second, 1e3);
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
                found.redis.busy_cores(),
                found.hot,
                found.countd.busy_cores(),
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
