//! The section on the error of the model of `countd size`.

use crate::measure::countd::sizing::{Compared, LEVELS, Load, Measured};
use crate::measure::stats::Spread;
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::Table;

/// The name in `--only`.
pub const NAME: &str = "countd-sizing";
/// The heading.
pub const TITLE: &str = "countd: the model of countd size";

/// The error in per cent that stands for a load that the model calls overloaded.
const OVERLOADED: f64 = 1_000.0;

/// A compared value.
type Value = fn(&Measured) -> Compared;
const CPU: [Value; 2] = [|one| one.countd_cpu, |one| one.redis_cpu];
const P50: Value = |one| one.p50;
const P99: Value = |one| one.p99;

pub(super) fn label(load: Load) -> &'static str {
    match load {
        Load::Reads => "`GET /counter`",
        Load::Likes => "`POST /action/like`",
        Load::Mixed => "80 % `GET /counter`, 20 % `POST /action/read`",
        Load::Batches => "`POST /actions` with 1,000 reads",
    }
}

/// The medians of the repeats.
pub(super) fn medians<T>(results: &[&T], value: fn(&T) -> Compared) -> Compared {
    let of = |part: &dyn Fn(Compared) -> Option<f64>| {
        let found: Vec<f64> = results.iter().filter_map(|one| part(value(one))).collect();
        (!found.is_empty()).then(|| Spread::of(found).median())
    };
    Compared {
        measured: of(&|compared| Some(compared.measured)).unwrap_or(f64::NAN),
        predicted: of(&|compared| compared.predicted),
    }
}

/// A value in microseconds: measured, and that of the model.
pub(super) fn cell(compared: Compared, decimals: usize) -> String {
    let number = |seconds: f64| format!("{:.decimals$}", seconds * 1e6);
    let model = compared.predicted.map_or("overloaded".to_owned(), number);
    format!("{}, {model}", number(compared.measured))
}

/// The difference from the measured value in per cent of it.
pub(super) fn error(compared: Compared) -> f64 {
    compared.predicted.map_or(OVERLOADED, |predicted| {
        let difference = (predicted / compared.measured - 1.0).abs();
        (difference * 100.0).min(OVERLOADED)
    })
}

/// Formats the results.
pub fn section(results: &[Measured]) -> Section {
    let mut table = Table::new(&[
        "",
        "of the capacity",
        "requests /s",
        "client, µs of CPU each",
        "countd, µs of CPU each: measured, model",
        "Redis, µs of CPU each",
        "p50, µs",
        "p99, µs",
    ]);
    let mut errors = [0.0f64; 3];
    for load in Load::ALL {
        for level in LEVELS {
            let chosen = results
                .iter()
                .filter(|one| (one.load, one.level) == (load, level));
            let chosen: Vec<&Measured> = chosen.collect();
            if chosen.is_empty() {
                continue;
            }
            let median = |value: fn(&Measured) -> f64| {
                Spread::of(chosen.iter().map(|one| value(one))).median()
            };
            let (rate, client) = (median(|one| one.per_second), median(|one| one.client_cpu));
            let [countd, redis] = CPU.map(|value| medians(&chosen, value));
            let [p50, p99] = [P50, P99].map(|value| medians(&chosen, value));
            table.row(&[
                label(load).to_owned(),
                format!("{:.0} %", level * 100.0),
                format!("{rate:.0}"),
                format!("{:.1}", client * 1e6),
                cell(countd, 1),
                cell(redis, 1),
                cell(p50, 0),
                cell(p99, 0),
            ]);
            let found = [error(countd).max(error(redis)), error(p50), error(p99)];
            for (worst, found) in errors.iter_mut().zip(found) {
                *worst = worst.max(found);
            }
        }
    }
    let mut figures = Figures::default();
    for (name, error) in ["cpu", "p50", "p99"].into_iter().zip(errors) {
        figures.add(format!("countd.sizing.{name}-error-percent"), error, 0);
    }
    let [cpu, p50, p99] = errors;
    Section {
        title: TITLE.into(),
        body: format!(
            "Open-loop load: Poisson arrivals, at shares of the capacity that a core has if each request finds it idle. Latency is the time from the arrival to the reply. One core runs Redis, the other `countd all` and the client, which sends and reads \
             before countd runs; what it uses of the core is measured, and the model adds it to each request. Reconciliation, which the model leaves out, is \
             off. The model predicts from the figures with which countd was built. Cells have the measured value and that \
             of the model.\n\n{}\nThe largest differences are {cpu:.0} % of the CPU time, {p50:.0} % of the median and {p99:.0} % of the 99th percentile \
             ({OVERLOADED:.0} %: the model calls the load too high).\n",
            table.finish(),
        ),
        figures,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_errors_are_figures() {
        let compared = |measured: f64, predicted: f64| Compared {
            measured,
            predicted: Some(predicted),
        };
        let one = |load, p99| Measured {
            load,
            level: LEVELS[0],
            per_second: 1_000.0,
            client_cpu: 30e-6,
            countd_cpu: compared(20e-6, 18e-6),
            redis_cpu: compared(10e-6, 8e-6),
            p50: compared(100e-6, 100e-6),
            p99,
        };
        let overloaded = Compared {
            measured: 1e-3,
            predicted: None,
        };
        let found = section(&[
            one(Load::Reads, compared(1e-3, 1.5e-3)),
            one(Load::Likes, compared(1e-3, 0.9e-3)),
        ]);
        let json = found.figures.to_json().unwrap();
        for expected in [("cpu", 20), ("p50", 0), ("p99", 50)] {
            let line = format!(
                "\"countd.sizing.{}-error-percent\": {}",
                expected.0, expected.1
            );
            assert!(json.contains(&line), "{json}");
        }
        assert!(
            found
                .body
                .contains("| 30.0 | 20.0, 18.0 | 10.0, 8.0 | 100, 100 | 1000, 1500 |"),
            "{}",
            found.body
        );
        let found = section(&[one(Load::Mixed, overloaded)]);
        assert!(found.body.contains("1000, overloaded"));
        assert!(
            found
                .figures
                .to_json()
                .unwrap()
                .contains("\"countd.sizing.p99-error-percent\": 1000")
        );
    }
}
