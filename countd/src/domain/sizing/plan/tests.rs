//! Tests of whole plans.

use super::super::kafka::testing::measured;
use super::super::workload::testing::{machines, workload};
use super::super::workload::{LogKind, Stored};
use super::*;

fn figures() -> Figures {
    Figures::embedded().expect("figures")
}

fn plan_of(workload: &Workload) -> Plan {
    plan(&figures(), workload, &machines(), Fixed::default()).expect("a plan")
}

#[test]
fn a_small_load_needs_one_master_and_two_machines() {
    let plan = plan_of(&workload());
    let expected = Deployment {
        masters: 1,
        nodes: 2,
        brokers: 0,
    };
    assert_eq!(plan.deployment, expected);
    assert_eq!((plan.redis_servers, plan.masters_because), (2, None));
    assert!(
        plan.limits
            .iter()
            .all(|limit| limit.used < machines().target)
    );
}

#[test]
fn masters_are_as_many_as_memory_or_cpu_needs() {
    let data = plan_of(&Workload {
        entities: 1e9,
        facts: 3.0,
        ..workload()
    });
    assert_eq!(data.masters_because, Some(Resource::RedisMemory));
    let usable = machines().redis_memory * machines().memory_target;
    assert!(data.busiest_memory <= usable);
    assert!(data.memory.total() > usable * (data.deployment.masters - 1) as f64 / 2.0);
    let load = plan_of(&Workload {
        reads: 400_000.0,
        ..workload()
    });
    assert_eq!(load.masters_because, Some(Resource::RedisCpu));
    let mut limits = load.limits.iter();
    let cpu = limits.find(|limit| limit.resource == Resource::RedisCpu);
    assert!(cpu.is_some_and(|cpu| cpu.used <= machines().target));
}

#[test]
fn given_numbers_are_not_computed() {
    let fixed = Fixed {
        masters: Some(3),
        nodes: Some(5),
        brokers: Some(7),
    };
    let kafka = Workload {
        log: LogKind::Kafka,
        ..workload()
    };
    let of = |workload: &Workload| plan(&figures(), workload, &machines(), fixed).expect("a plan");
    let expected = Deployment {
        masters: 3,
        nodes: 5,
        brokers: 7,
    };
    assert_eq!(of(&kafka).deployment, expected);
    assert_eq!(of(&workload()).deployment.brokers, 0);
    let overloaded = of(&Workload {
        reads: 1e7,
        ..workload()
    });
    assert_eq!(overloaded.latency.read, None);
    assert!(overloaded.limits[0].used > 1.0);
}

#[test]
fn an_entity_that_needs_more_than_a_core_is_named() {
    let hot = Workload {
        reads: 200_000.0,
        hot_share: 0.9,
        ..workload()
    };
    let error = plan(&figures(), &hot, &machines(), Fixed::default()).expect_err("too hot");
    let SizingError::TooLarge(limit) = &error else {
        panic!("{error}");
    };
    assert_eq!(limit.resource, Resource::HotEntity);
    assert!(error.to_string().contains("hottest entity"), "{error}");
    assert!(
        plan(
            &figures(),
            &Workload {
                hot_cache: true,
                ..hot
            },
            &machines(),
            Fixed::default()
        )
        .is_ok()
    );
}

#[test]
fn the_first_limit_is_the_one_that_breaks_first() {
    let load = |growth: f64| Workload {
        actions: 1_000.0 * growth,
        reads: 100_000.0 * growth,
        outage: 0.0,
        ..workload()
    };
    let plan = plan_of(&load(1.0));
    let fixed = Fixed {
        masters: Some(plan.deployment.masters),
        nodes: Some(plan.deployment.nodes),
        brokers: None,
    };
    let (first, second) = (&plan.limits[0], &plan.limits[1]);
    assert!(first.growth() <= second.growth() && first.growth() > 1.0);
    let grown = |growth: f64| {
        let load = load(first.growth() * growth);
        super::plan(&figures(), &load, &machines(), fixed).expect("a plan")
    };
    assert!(grown(0.99).limits[0].used < 1.0);
    let broken = grown(1.01).limits[0];
    assert!(broken.resource == first.resource && broken.used > 1.0);
}

#[test]
fn the_error_of_the_model_is_that_of_the_figures() {
    let error = |figures: &Figures| ModelError::of(figures, LogKind::Streams, 1);
    let mut figures = Figures::parse("{}").expect("figures");
    assert_eq!(error(&figures), None);
    for (what, value) in [("cpu", 5.0), ("p50", 12.0), ("p99", 30.0)] {
        figures = figures.with(&format!("countd.sizing.{what}-error-percent"), value);
    }
    let expected = ModelError {
        cpu_percent: 5.0,
        p50_percent: 12.0,
        p99_percent: 30.0,
    };
    assert_eq!(error(&figures), Some(expected));
    // Of a cluster and of Kafka, if they were compared.
    let cpu = |figures: &Figures, log, masters| {
        let error = ModelError::of(figures, log, masters);
        error.map(|error| error.cpu_percent)
    };
    assert_eq!(cpu(&figures, LogKind::Streams, 3), Some(5.0));
    for (name, value) in [("cluster", 40.0), ("kafka", 60.0)] {
        figures = figures.with(&format!("countd.sizing.{name}.cpu-error-percent"), value);
    }
    assert_eq!(cpu(&figures, LogKind::Streams, 1), Some(5.0));
    assert_eq!(cpu(&figures, LogKind::Streams, 3), Some(40.0));
    assert_eq!(cpu(&figures, LogKind::Kafka, 1), Some(60.0));
}

#[test]
fn measured_figures_of_kafka_limit_brokers_and_delay_writes() {
    let load = Workload {
        actions: 300_000.0,
        lines: 1_000.0,
        once: 0.0,
        retention: 60.0,
        log: LogKind::Kafka,
        ..workload()
    };
    let machines = Machines {
        broker_cores: 1,
        ..machines()
    };
    let of = |figures: &Figures| plan(figures, &load, &machines, Fixed::default()).expect("a plan");
    let cpu = |plan: &Plan| {
        let mut limits = plan.limits.iter();
        let found = limits.find(|limit| limit.resource == Resource::BrokerCpu);
        found.map(|limit| limit.used)
    };
    let unmeasured = figures().without("countd.kafka.");
    let assumed = of(&unmeasured);
    assert_eq!(assumed.measured_kafka, MeasuredKafka::default());
    assert_eq!((assumed.deployment.brokers, cpu(&assumed)), (3, None));
    let figures = measured(unmeasured);
    let found = of(&figures);
    assert!(found.measured_kafka.producing && found.measured_kafka.counting);
    // 2.1 cores are more than 60 % of three.
    assert_eq!(found.deployment.brokers, 4);
    assert!((cpu(&found).expect("a limit") - 0.525).abs() < 1e-9);
    let p50 = |plan: &Plan| plan.latency.write.expect("stable").p50;
    let at_once = of(&figures.with("countd.kafka.latency-p50-ms", 0.0));
    assert!((p50(&found) - p50(&at_once) - 2.0).abs() < 1e-9);
}

#[test]
fn a_plan_grows_with_its_load_and_holds_its_targets() {
    let random = &mut fastrand::Rng::with_seed(9);
    for _ in 0..60 {
        let load = Workload {
            entities: 10f64.powf(3.0 + random.f64() * 6.0),
            actions: 10f64.powf(random.f64() * 5.5),
            reads: 10f64.powf(random.f64() * 5.5),
            lines: random.u32(1..1_000).into(),
            page: random.u32(1..100).into(),
            once: random.f64(),
            hot_share: random.f64() * 0.01,
            storage: if random.bool() {
                Stored::Table
            } else {
                Stored::Object
            },
            log: if random.bool() {
                LogKind::Streams
            } else {
                LogKind::Kafka
            },
            ..workload()
        };
        let Ok(plan) = plan(&figures(), &load, &machines(), Fixed::default()) else {
            continue;
        };
        for limit in &plan.limits {
            let target = match limit.resource {
                Resource::HotEntity | Resource::Partitions => 1.0,
                _ => machines().target,
            };
            assert!(limit.used <= target + 1e-9, "{load:?}: {limit:?}");
        }
        assert!(plan.latency.read.is_some() && plan.latency.write.is_some());
        assert!(plan.memory.total() >= load.entities * 16.0);
        let grown = Workload {
            actions: load.actions * 2.0,
            reads: load.reads * 2.0,
            entities: load.entities * 2.0,
            ..load
        };
        if let Ok(more) = super::plan(&figures(), &grown, &machines(), Fixed::default()) {
            assert!(more.deployment.masters >= plan.deployment.masters);
            assert!(more.deployment.nodes >= plan.deployment.nodes);
            assert!(more.deployment.brokers >= plan.deployment.brokers);
        }
    }
}
