//! The section on the prefilter.

use crate::measure::countd::hot::Rate;
use crate::measure::countd::prefilter::{FACTS, PrefilterRates};
use crate::measure::stats::Spread;
use crate::report::check::{Check, Threshold};
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::{Table, thousands};

/// The name in `--only`.
pub const NAME: &str = "countd-prefilter";
/// The heading.
pub const TITLE: &str = "countd: statuses of users who never acted";

/// The rate of a kind of request in a round.
type Kind = fn(&PrefilterRates) -> Rate;

/// Pages and single statuses, each with and without the prefilter.
const KINDS: [(&str, &str, Kind); 4] = [
    (
        "`POST /status/batch`, pages of 100, 16 connections, with the prefilter",
        "page.with",
        |rates| rates.page.with,
    ),
    (
        "`POST /status/batch`, pages of 100, 16 connections, without it",
        "page.without",
        |rates| rates.page.without,
    ),
    (
        "`GET /status`, 64 connections, with the prefilter",
        "single.with",
        |rates| rates.single.with,
    ),
    (
        "`GET /status`, 64 connections, without it",
        "single.without",
        |rates| rates.single.without,
    ),
];

/// Formats the results.
pub fn section(results: &[PrefilterRates]) -> Section {
    let spread = |value: &dyn Fn(&PrefilterRates) -> f64| Spread::of(results.iter().map(value));
    let mut table = Table::new(&[
        "",
        "statuses /s",
        "quartiles",
        "ns of Redis each",
        "ns of countd each",
    ]);
    let mut figures = Figures::default();
    for (label, name, kind) in KINDS {
        let rate = spread(&|rates| kind(rates).per_second);
        let redis = spread(&|rates| kind(rates).redis_cpu * 1e9);
        let process = spread(&|rates| kind(rates).process_cpu * 1e9);
        table.row(&[
            label.to_string(),
            format!("{:.0}", rate.median()),
            format!("{:.0} .. {:.0}", rate.low(), rate.high()),
            format!("{:.1}", redis.median()),
            format!("{:.0}", process.median()),
        ]);
        let figure = |what| format!("countd.prefilter.{name}.{what}");
        figures.add(figure("statuses-per-s"), rate.median(), 0);
        figures.add(figure("redis-ns-per-status"), redis.median(), 1);
    }
    let core = spread(&|rates| 100.0 * rates.page.with.redis_cpu * rates.page.with.per_second);
    let pages = spread(&|rates| rates.page.with.redis_cpu / rates.page.without.redis_cpu);
    let singles = spread(&|rates| rates.single.with.redis_cpu / rates.single.without.redis_cpu);
    let speed = spread(&|rates| rates.page.with.per_second / rates.page.without.per_second);
    let check = |what: &str, spread: Spread, of: fn(String, f64, Option<f64>) -> Check| Check {
        quartiles: Some((spread.low(), spread.high())),
        ..of(what.into(), spread.median(), None)
    };
    Section {
        title: TITLE.into(),
        body: format!(
            "A flood of statuses of `like` on a million entities, which have {} likes of other users: each request is of another user, who never \
             acted. One process of countd has `prefilter.enabled` on, the other one off. They take turns, and ratios are those of a round. countd shares \
             the core of Redis, and the client has the other; nothing consumes the events, and users have no limit. With the prefilter, all requests that \
             wait share one `PING` to Redis, at most one in 2 ms, and only the facts that the filter cannot exclude, fewer than one in a thousand, are read from Redis: \
             what Redis does hardly grows with the flood, and a request waits for up to 2 ms. So many connections are not enough to use all of countd's \
             core. CPU times are those of a status, of which a page has 100.\n\n{}",
            thousands(FACTS as f64),
            table.finish(),
        ),
        checks: vec![
            Check {
                quartiles: Some((core.low(), core.high())),
                ..Check::absolute(
                    "countd, share of the core of Redis under a flood of statuses in pages of 100, with the prefilter".into(),
                    core.median(),
                    "%",
                    Threshold::AtMost(5.0),
                )
            },
            check(
                "countd, server CPU of a status in pages of 100, with : without the prefilter",
                pages,
                Check::cost,
            ),
            // One PING in 2 ms is shared by what 64 connections send.
            check(
                "countd, server CPU of a single status, with : without the prefilter",
                singles,
                Check::cost,
            ),
            check(
                "countd, statuses per second in pages of 100, with : without the prefilter",
                speed,
                Check::speed,
            ),
        ],
        figures,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::countd::prefilter::Pair;

    #[test]
    fn statuses_with_the_prefilter_are_compared_with_those_without() {
        let rate = |per_second, redis_cpu| Rate {
            per_second,
            redis_cpu,
            process_cpu: 2e-6,
        };
        let round = |page_redis_cpu| PrefilterRates {
            page: Pair {
                with: rate(400_000.0, page_redis_cpu),
                without: rate(200_000.0, 998.4e-9),
            },
            single: Pair {
                with: rate(10_000.0, 2e-6),
                without: rate(40_000.0, 8e-6),
            },
        };
        let few = section(&[round(31.2e-9)]);
        let values: Vec<f64> = few.checks.iter().map(|check| check.value).collect();
        assert!((values[0] - 1.248).abs() < 1e-9);
        assert_eq!(values[1..], [0.03125, 0.25, 2.0]);
        let met = |section: &Section| -> Vec<Option<bool>> {
            section.checks.iter().map(Check::met).collect()
        };
        assert_eq!(met(&few), [Some(true), None, None, None]);
        let many = section(&[round(160e-9)]);
        assert_eq!(met(&many)[0], Some(false));
        assert!(
            few.body
                .contains("| 400000 | 400000 .. 400000 | 31.2 | 2000 |")
        );
        let figures = few.figures.to_json().unwrap();
        assert!(figures.contains("\"countd.prefilter.page.with.redis-ns-per-status\": 31.2"));
        assert!(figures.contains("\"countd.prefilter.single.without.statuses-per-s\": 40000"));
    }
}
