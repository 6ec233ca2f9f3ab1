//! The section on one hot entity.

use crate::measure::countd::hot::{Detection, DetectionCost, HotRates, Rate};
use crate::measure::stats::Spread;
use crate::report::check::{Check, Threshold};
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::Table;

/// The name in `--only`.
pub const NAME: &str = "countd-hot";
/// The heading.
pub const TITLE: &str = "countd: one hot entity";

/// The rate of a kind of request in a round.
type Kind = fn(&HotRates) -> Rate;

/// Likes of one entity and of many, and reads from memory and of the bare handler.
const KINDS: [(&str, &str, Kind); 5] = [
    (
        "`POST /action/like` on one entity, 64 connections",
        "likes-of-one-per-s",
        |rates| rates.likes_of_one,
    ),
    (
        "`POST /action/like` on a thousand entities, 64 connections",
        "likes-of-many-per-s",
        |rates| rates.likes_of_many,
    ),
    (
        "`GET /counter` of one entity with `hot.cache_ms`, 16 connections",
        "cached-reads-per-s",
        |rates| rates.cached,
    ),
    ("`GET /healthz`, 16 connections", "health-per-s", |rates| {
        rates.health
    }),
    (
        "a bare axum handler with the reply of `GET /counter`, 16 connections",
        "bare-per-s",
        |rates| rates.bare,
    ),
];

/// Formats the results.
pub fn section(results: &[HotRates], detection: &Detection) -> Section {
    let spread = |value: &dyn Fn(&HotRates) -> f64| Spread::of(results.iter().map(value));
    let mut table = Table::new(&[
        "",
        "requests /s",
        "quartiles",
        "µs of Redis each",
        "µs of the process each",
    ]);
    let mut figures = Figures::default();
    for (label, name, kind) in KINDS {
        let rate = spread(&|rates| kind(rates).per_second);
        let redis = spread(&|rates| kind(rates).redis_cpu * 1e6);
        let process = spread(&|rates| kind(rates).process_cpu * 1e6);
        table.row(&[
            label.to_string(),
            format!("{:.0}", rate.median()),
            format!("{:.0} .. {:.0}", rate.low(), rate.high()),
            format!("{:.1}", redis.median()),
            format!("{:.1}", process.median()),
        ]);
        figures.add(format!("countd.hot.{name}"), rate.median(), 0);
    }
    let ratio = |above: Kind, below: Kind| {
        spread(&|rates| above(rates).per_second / below(rates).per_second)
    };
    let cpu = spread(&|rates| rates.likes_of_one.redis_cpu / rates.likes_of_many.redis_cpu);
    let detected = |ratios: &[f64]| Spread::of(ratios.iter().copied());
    let of_alone = |part: fn(&DetectionCost) -> f64| Spread::of(detection.alone.iter().map(part));
    let (read, write) = (of_alone(|cost| cost.read), of_alone(|cost| cost.write));
    let second = of_alone(|cost| cost.second).median();
    let of_requests = Spread::of(detection.reads.iter().copied()).median();
    // A process whose core is busy with reads all the time.
    let share = read.median().max(write.median()) / of_requests + second;
    let interval = |ratios: &[f64]| {
        let (low, high) = detected(ratios).median_interval();
        format!("{low:.3} and {high:.3}")
    };
    let check = |what: &str, spread: Spread, threshold, is_cost: bool| Check {
        quartiles: Some((spread.low(), spread.high())),
        threshold,
        ..match is_cost {
            true => Check::cost(what.into(), spread.median(), None),
            false => Check::speed(what.into(), spread.median(), None),
        }
    };
    Section {
        title: TITLE.into(),
        body: format!(
            "Likes of different users that arrive while another one on the same entity is executed are committed as a group. The counters of a hot \
             entity can be answered from memory. countd, or the bare handler, shares the core of Redis, and the client has the other; nothing consumes the \
             events. The kinds of requests take turns, and ratios are those of a round. The cost of the detection is the CPU time of countd for \
             `GET /counter` from Redis, in pairs of rounds with `hot.enabled` on and off: from {} such ratios, the true median of one entity lies between {} \
             with a confidence of 95 %, and that of a million entities between {}. These intervals are those of this machine's noise: alone, in a process that does nothing else, the \
             detection takes {:.1} ns for a read of one of a million entities and {:.1} ns for a write, and {:.0} µs each second, where such a read takes {:.1} µs of countd.\n\n{}",
            detection.one.len(),
            interval(&detection.one),
            interval(&detection.many),
            read.median() * 1e9,
            write.median() * 1e9,
            second * 1e6,
            of_requests * 1e6,
            table.finish(),
        ),
        checks: vec![
            check(
                "countd, likes per second, one entity : a thousand entities",
                ratio(|r| r.likes_of_one, |r| r.likes_of_many),
                Threshold::AtLeast(1.7),
                false,
            ),
            check(
                "countd, server CPU of a like, one entity : a thousand entities",
                cpu,
                Threshold::AtMost(0.333),
                true,
            ),
            check(
                "countd, reads of a hot entity from memory : `GET /healthz`",
                ratio(|r| r.cached, |r| r.health),
                Threshold::AtLeast(0.95),
                false,
            ),
            check(
                "countd, reads of a hot entity from memory : bare axum handler",
                ratio(|r| r.cached, |r| r.bare),
                Threshold::None,
                false,
            ),
            Check::absolute(
                "countd, detection of hot entities, of the CPU of a process that is busy with reads".into(),
                share * 100.0,
                "%",
                Threshold::AtMost(2.0),
            ),
            check(
                "countd, CPU of a read of one entity, with : without detection of hot entities",
                detected(&detection.one),
                Threshold::AtMost(1.02),
                true,
            ),
            check(
                "countd, CPU of a read of a million entities, with : without detection of hot entities",
                detected(&detection.many),
                Threshold::AtMost(1.02),
                true,
            ),
        ],
        figures,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entity_is_compared_with_many() {
        let rate = |per_second| Rate {
            per_second,
            redis_cpu: 1.0 / per_second,
            process_cpu: 1.0 / per_second,
        };
        let rates = HotRates {
            likes_of_one: rate(40_000.0),
            likes_of_many: rate(20_000.0),
            cached: rate(30_000.0),
            health: rate(60_000.0),
            bare: rate(120_000.0),
        };
        let detection = Detection {
            one: vec![1.0, 1.03, 1.01],
            many: vec![1.04],
            reads: vec![20e-6],
            alone: vec![DetectionCost {
                read: 10e-9,
                write: 20e-9,
                second: 1e-3,
            }],
        };
        let section = section(&[rates], &detection);
        let values: Vec<f64> = section.checks.iter().map(|check| check.value).collect();
        assert_eq!(values[..4], [2.0, 0.5, 0.5, 0.25]);
        assert!((values[4] - 0.2).abs() < 1e-9);
        assert_eq!(values[5..], [1.01, 1.04]);
        let met: Vec<Option<bool>> = section.checks.iter().map(Check::met).collect();
        let expected = [
            Some(true),
            Some(false),
            Some(false),
            None,
            Some(true),
            Some(true),
            Some(false),
        ];
        assert_eq!(met, expected);
        assert!(section.body.contains("between 1.000 and 1.030"));
        let figures = section.figures.to_json().unwrap();
        assert!(figures.contains("\"countd.hot.likes-of-one-per-s\": 40000"));
    }
}
