//! The section on the speed of the relay.

use crate::driver::database::DatabaseKind;
use crate::measure::countd::relay::{APPLICATION, RelayRates};
use crate::measure::stats::Spread;
use crate::report::check::Check;
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::Table;
use crate::workload::scale::CountdScale;

/// The name in `--only`.
pub const NAME: &str = "countd-relay";
/// The heading.
pub const TITLE: &str = "countd: relay of an outbox";

/// A value of a repeat.
type Value = fn(&RelayRates) -> f64;

/// The rows of the table: the label, the name in figures, and the value.
const ROWS: [(&str, &str, Value); 3] = [
    (
        "`countd relay`, from the table into the log",
        "relayed-per-s",
        |rates| rates.relay,
    ),
    (
        "`countd consume`, from the log into the counters",
        "consumed-per-s",
        |rates| rates.consume,
    ),
    (
        "the application, a row in each transaction, while the relay runs",
        "inserted-per-s",
        |rates| rates.insert,
    ),
];

/// Formats the results.
pub fn section(results: &[(DatabaseKind, RelayRates)], scale: &CountdScale) -> Section {
    let spread = |kind, value: Value| {
        let of = results.iter().filter(|(other, _)| *other == kind);
        Spread::of(of.map(|(_, rates)| value(rates)))
    };
    let (mut table, mut figures, mut checks) = (
        Table::new(&["database", "", "events /s", "quartiles"]),
        Figures::default(),
        Vec::new(),
    );
    let mut text = Vec::new();
    for kind in DatabaseKind::ALL {
        let spread = |value| spread(kind, value);
        for (label, name, value) in ROWS {
            let rate = spread(value);
            table.row(&[
                kind.label().to_owned(),
                label.to_owned(),
                format!("{:.0}", rate.median()),
                format!("{:.0} .. {:.0}", rate.low(), rate.high()),
            ]);
            figures.add(figure(kind, name), rate.median(), 0);
        }
        let relay_cpu = spread(|rates| rates.relay_cpu * 1e6).median();
        let drain = spread(|rates| rates.drain).median();
        figures.add(figure(kind, "drain-s"), drain, 2);
        text.push(format!(
            "With {}, the relay's CPU time is {relay_cpu:.1} µs per event, and no row is left {drain:.2} s after the application's last one.",
            kind.label()
        ));
        checks.extend([
            check(
                kind,
                "consumer of its events",
                &spread(|rates| rates.relay / rates.consume),
                None,
            ),
            check(
                kind,
                "application that inserts its rows",
                &spread(|rates| rates.relay / rates.insert),
                Some(1.0),
            ),
        ]);
    }
    Section {
        title: TITLE.into(),
        body: format!(
            "{} rows of an outbox table in PostgreSQL or MariaDB are appended to the log by `countd relay` and deleted; then `countd consume` \
             counts the events, whose ids it remembers. The database and Redis share a core, and so do the relay and the consumer, which run \
             one after the other. Then an application (`pgbench`, `mariadb-slap`) inserts rows over {APPLICATION} connections while the relay \
             runs, each in a transaction that waits for the disk. {}\n\n{}",
            scale.events,
            text.join(" "),
            table.finish(),
        ),
        checks,
        figures,
        ..Section::default()
    }
}

/// The name of a figure. Those of PostgreSQL, which was the first, do not contain its name.
fn figure(kind: DatabaseKind, name: &str) -> String {
    match kind {
        DatabaseKind::Postgres => format!("countd.relay.{name}"),
        DatabaseKind::MariaDb => format!("countd.relay.mariadb.{name}"),
    }
}

/// The ratio of the relay to something else.
fn check(kind: DatabaseKind, other: &str, ratio: &Spread, min: Option<f64>) -> Check {
    let what = format!("countd, relay of an outbox in {} : {other}", kind.label());
    Check {
        quartiles: Some((ratio.low(), ratio.high())),
        ..Check::speed(what, ratio.median(), min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::scale::Scale;

    #[test]
    fn the_relay_is_compared_with_the_consumer_and_the_application() {
        let rates = |relay| RelayRates {
            relay,
            consume: 120_000.0,
            relay_cpu: 1e-5,
            insert: 6_000.0,
            drain: 0.1,
        };
        let results = [
            (DatabaseKind::MariaDb, rates(3_000.0)),
            (DatabaseKind::Postgres, rates(60_000.0)),
        ];
        let section = section(&results, &Scale::full().countd);
        let ratios: Vec<f64> = section.checks.iter().map(|check| check.value).collect();
        assert_eq!(ratios, [0.5, 10.0, 0.025, 0.5]);
        let met: Vec<Option<bool>> = section.checks.iter().map(Check::met).collect();
        assert_eq!(met, [None, Some(true), None, Some(false)]);
        let figures = section.figures.to_json().unwrap();
        assert!(figures.contains("\"countd.relay.relayed-per-s\": 60000"));
        assert!(figures.contains("\"countd.relay.mariadb.relayed-per-s\": 3000"));
    }
}
