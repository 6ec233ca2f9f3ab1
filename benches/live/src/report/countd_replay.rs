//! The section on the speed of rebuilds from the archive.

use crate::measure::countd::replay::ReplayRates;
use crate::measure::stats::Spread;
use crate::report::check::Check;
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::Table;
use crate::workload::scale::CountdScale;

/// The name in `--only`.
pub const NAME: &str = "countd-replay";
/// The heading.
pub const TITLE: &str = "countd: rebuild from the archive";

/// Minimum speed of a rebuild, compared with the consumer in the same run.
const MIN_RATIO: f64 = 1.0;

/// A value of a repeat.
type Value = fn(&ReplayRates) -> f64;

/// Formats the results.
pub fn section(results: &[ReplayRates], scale: &CountdScale) -> Section {
    let spread = |value: Value| Spread::of(results.iter().map(value));
    let (mut table, mut figures) = (
        Table::new(&["", "events /s", "quartiles"]),
        Figures::default(),
    );
    let rows: [(&str, &str, Value); 3] = [
        ("the consumer", "consumed-per-s", |rates| rates.consume),
        ("the consumer, with an archive", "archived-per-s", |rates| {
            rates.archive
        }),
        (
            "`countd rebuild --from earliest`",
            "rebuilt-per-s",
            |rates| rates.rebuild,
        ),
    ];
    for (label, name, value) in rows {
        let rate = spread(value);
        table.row(&[
            label.to_string(),
            format!("{:.0}", rate.median()),
            format!("{:.0} .. {:.0}", rate.low(), rate.high()),
        ]);
        figures.add(format!("countd.replay.{name}"), rate.median(), 0);
    }
    let ratio = spread(|rates| rates.rebuild / rates.consume);
    let server_cpu = spread(|rates| rates.server_cpu * 1e9).median();
    Section {
        title: TITLE.into(),
        body: format!(
            "{} read events of 1,000 hot notes are counted by `countd consume`, on one server without an archive and on another with one. \
             From that archive, `countd rebuild` computes the counters again while the consumer runs, and corrects one that was made wrong. \
             Its time is that of the whole command. The server's CPU time is {server_cpu:.0} ns per event of the rebuild.\n\n{}",
            scale.replayed_events,
            table.finish(),
        ),
        checks: vec![Check {
            quartiles: Some((ratio.low(), ratio.high())),
            ..Check::speed(
                "countd, rebuild from the archive : consumer, 1,000 hot keys".into(),
                ratio.median(),
                Some(MIN_RATIO),
            )
        }],
        figures,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::scale::Scale;

    #[test]
    fn a_rebuild_is_compared_with_the_consumer() {
        let rates = |rebuild| ReplayRates {
            consume: 600_000.0,
            archive: 500_000.0,
            rebuild,
            server_cpu: 1e-7,
        };
        let of = |rebuild| section(&[rates(rebuild)], &Scale::full().countd);
        assert_eq!(of(900_000.0).checks[0].met(), Some(true));
        assert_eq!(of(300_000.0).checks[0].met(), Some(false));
        let figures = of(900_000.0).figures.to_json().unwrap();
        assert!(figures.contains("\"countd.replay.rebuilt-per-s\": 900000"));
    }
}
