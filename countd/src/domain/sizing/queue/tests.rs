//! Tests of queues: known values, properties, and a simulation.

use super::*;

fn jobs(per_second: f64, seconds: f64) -> Jobs {
    Jobs::new(per_second, seconds)
}

fn assert_near(value: f64, expected: f64, relative: f64) {
    let difference = (value - expected).abs();
    assert!(
        difference <= relative * expected.abs() + 1e-12,
        "{value} instead of {expected}"
    );
}

/// The mean waiting time.
fn mean(station: &Station) -> f64 {
    let waits = station.wait().expect("stable");
    waits.iter().map(|wait| wait.mean()).sum()
}

/// The quantile of the waiting time of one part.
fn quantile_of(station: &Station, share: f64) -> f64 {
    let [requests, background] = station.wait().expect("stable");
    quantile([requests, background, Wait::NONE, Wait::NONE], share)
}

#[test]
fn jobs_that_come_alone_cost_more_the_more_a_part_is_idle() {
    let of = |per_second| {
        let alone = 30e-6;
        Station::new(
            1,
            [Jobs {
                alone,
                ..jobs(per_second, 10e-6)
            }],
        )
    };
    // Of few jobs nearly each comes alone: 40 µs.
    assert_near(of(1.0).busy_cores(), 40e-6, 1e-3);
    // 0.5 is needed, 1.5 more if all came alone: 0.5 + 1.5 * 0.2 = 0.8.
    assert_near(of(50_000.0).idle_share(), 0.2, 1e-12);
    assert_near(of(50_000.0).busy_cores(), 0.8, 1e-12);
    assert_near(of(50_000.0).utilization(), 0.5, 1e-12);
    // Without idle time none does.
    assert_near(of(99_999.0).busy_cores(), 1.0, 1e-4);
    assert_near(of(200_000.0).busy_cores(), 2.0, 1e-12);
    assert_eq!(of(200_000.0).wait(), None);
}

#[test]
fn one_server_waits_as_pollaczek_and_khinchine_say() {
    // M/D/1 at a utilization of 0.5: half of a service time. E[W] = λ E[S²] / (2 (1 - ρ)) = 50 * 1e-4 / (2 * 0.5) = 0.005.
    let station = Station::new(1, [jobs(50.0, 0.01)]);
    assert_near(station.utilization(), 0.5, 1e-12);
    assert_near(mean(&station), 0.005, 1e-12);
    // Two classes: ρ = 0.1 + 0.4, E[W] = (10 * 1e-4 + 10 * 16e-4) / (2 * 0.5) = 0.017.
    let station = Station::new(1, [jobs(10.0, 0.01), jobs(10.0, 0.04)]);
    assert_near(mean(&station), 0.017, 1e-12);
    // The same if one of them is the background.
    let of =
        |growing, constant| Station::new(1, [jobs(10.0, 0.01)]).with_background(growing, constant);
    for (growing, constant) in [(10.0, 0.0), (0.0, 10.0), (4.0, 6.0)] {
        let station = of(jobs(growing, 0.04), jobs(constant, 0.04));
        assert_near(mean(&station), 0.017, 1e-12);
        assert_near(station.utilization(), 0.5, 1e-12);
        assert_near(station.constant_share(), constant * 0.04, 1e-12);
    }
}

#[test]
fn several_servers_wait_as_erlang_says() {
    // Erlang C with two servers and a load of 1: 1/3.
    assert_near(erlang_c(2, 1.0), 1.0 / 3.0, 1e-12);
    // With one server: the utilization.
    assert_near(erlang_c(1, 0.7), 0.7, 1e-12);
    // A table of Erlang's formula: 10 servers, 8 Erlangs, 0.40918.
    assert_near(erlang_c(10, 8.0), 0.409_18, 1e-4);
    // M/D/2 of 1 Erlang: half of C / (c μ - λ) = 1/3 / (200 - 100) / 2.
    let station = Station::new(2, [jobs(100.0, 0.01)]);
    assert_near(mean(&station), 1.0 / 600.0, 1e-12);
}

#[test]
fn an_overloaded_part_has_no_waiting_time() {
    assert_eq!(Station::new(1, [jobs(100.0, 0.01)]).wait(), None);
    assert_eq!(Station::new(2, [jobs(300.0, 0.01)]).wait(), None);
    assert_eq!(Station::new(1, []).wait(), Some([Wait::NONE; 2]));
}

#[test]
fn the_quantile_of_one_waiting_time_is_that_of_an_exponential_distribution() {
    let wait = Wait {
        probability: 0.5,
        rate: 10.0,
    };
    // 0.5 exp(-10 t) = 0.01.
    let expected = 50f64.ln() / 10.0;
    for waits in [
        [wait, Wait::NONE, Wait::NONE, Wait::NONE],
        [Wait::NONE, Wait::NONE, Wait::NONE, wait],
    ] {
        assert_near(quantile(waits, 0.99), expected, 1e-9);
        assert_eq!(quantile(waits, 0.5), 0.0);
    }
    assert_eq!(quantile([Wait::NONE; 4], 0.99), 0.0);
}

#[test]
fn the_quantile_of_a_sum_is_that_of_an_erlang_distribution() {
    // Two equal exponential times: (1 + x) exp(-x) = 0.01 at x = 6.638352.
    let wait = Wait {
        probability: 1.0,
        rate: 1e4,
    };
    let sum = quantile([wait, wait, Wait::NONE, Wait::NONE], 0.99);
    assert_near(sum, 6.638_352e-4, 1e-6);
    // Very different rates: the slow one alone.
    let fast = Wait { rate: 1e9, ..wait };
    assert_near(
        quantile([fast, wait, fast, Wait::NONE], 0.99),
        100f64.ln() * 1e-4,
        1e-3,
    );
}

#[test]
fn the_longest_of_several_is_bounded_by_their_sum_of_probabilities() {
    let wait = Wait {
        probability: 0.4,
        rate: 10.0,
    };
    let (constant, longest) = wait.longest_of(2.0);
    assert_eq!((constant, longest.probability), (0.0, 0.8));
    let (constant, longest) = wait.longest_of(5.0);
    assert_near(constant, 2f64.ln() / 10.0, 1e-12);
    assert_eq!(longest.probability, 1.0);
}

#[test]
fn waiting_times_grow_with_the_load_and_shrink_with_cores() {
    let random = &mut fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let (seconds, cores) = (10f64.powf(random.f64() * 4.0 - 6.0), random.usize(1..64));
        let long = seconds * (1.0 + 50.0 * random.f64());
        let load = |share: f64| {
            let each = share * cores as f64 / 2.0;
            [jobs(each / seconds, seconds), jobs(each / long, long)]
        };
        let p99 = |cores, share| quantile_of(&Station::new(cores, load(share)), 0.99);
        let (low, high) = (random.f64() * 0.9, random.f64() * 0.09);
        assert!(p99(cores, low) <= p99(cores, low + high) * (1.0 + 1e-6));
        assert!(p99(cores + 1, low) <= p99(cores, low) * (1.0 + 1e-6));
        let station = Station::new(cores, load(low));
        let [median, tail] = [0.5, 0.99].map(|share| quantile_of(&station, share));
        assert!(median <= tail);
    }
}

/// Waiting times of a queue with one server and two constant service times, by Lindley's recursion, in ascending order.
fn simulate(classes: [Jobs; 2], jobs: usize) -> Vec<f64> {
    let random = &mut fastrand::Rng::with_seed(11);
    let arrivals = classes[0].per_second + classes[1].per_second;
    let mut wait = 0.0f64;
    let mut waits: Vec<f64> = (0..jobs)
        .map(|_| {
            let is_first = random.f64() * arrivals < classes[0].per_second;
            let service = classes[usize::from(!is_first)].seconds;
            let gap = -(1.0 - random.f64()).ln() / arrivals;
            let waited = wait;
            wait = (wait + service - gap).max(0.0);
            waited
        })
        .collect();
    waits.sort_by(f64::total_cmp);
    waits
}

#[test]
fn the_approximation_is_near_a_simulation() {
    // Requests of 10 µs, and commits of a millisecond that take a third of the time.
    for utilization in [0.3, 0.6, 0.8] {
        let classes = [
            jobs(utilization * 2.0 / 3.0 / 10e-6, 10e-6),
            jobs(utilization / 3.0 / 1e-3, 1e-3),
        ];
        let waits = simulate(classes, 500_000);
        let [requests, commits] = classes;
        let station = Station::new(1, [requests]).with_background(commits, jobs(0.0, 0.0));
        let simulated = waits.iter().sum::<f64>() / waits.len() as f64;
        assert_near(mean(&station), simulated, 0.1);
        let measured = waits[waits.len() * 99 / 100];
        // Commits take a constant time, whose tail is overestimated.
        assert_near(quantile_of(&station, 0.99), measured, 0.5);
    }
}
