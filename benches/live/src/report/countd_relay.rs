//! The section on the speed of the relay.

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

/// Formats the results.
pub fn section(results: &[RelayRates], scale: &CountdScale) -> Section {
    let spread = |value: Value| Spread::of(results.iter().map(value));
    let (mut table, mut figures) = (
        Table::new(&["", "events /s", "quartiles"]),
        Figures::default(),
    );
    let rows: [(&str, &str, Value); 3] = [
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
    for (label, name, value) in rows {
        let rate = spread(value);
        table.row(&[
            label.to_string(),
            format!("{:.0}", rate.median()),
            format!("{:.0} .. {:.0}", rate.low(), rate.high()),
        ]);
        figures.add(format!("countd.relay.{name}"), rate.median(), 0);
    }
    let ratio = spread(|rates| rates.relay / rates.consume);
    let to_application = spread(|rates| rates.relay / rates.insert);
    let relay_cpu = spread(|rates| rates.relay_cpu * 1e6).median();
    let drain = spread(|rates| rates.drain).median();
    figures.add("countd.relay.drain-s", drain, 2);
    Section {
        title: TITLE.into(),
        body: format!(
            "{} rows of an outbox table in PostgreSQL are appended to the log by `countd relay` and deleted; then `countd consume` counts the \
             events, whose ids it remembers. PostgreSQL and Redis share a core, and so do the relay and the consumer, which run one after \
             the other. The relay's CPU time is {relay_cpu:.1} µs per event. Then an application inserts rows over {APPLICATION} connections while the relay \
             runs, each in a transaction that waits for the disk; {drain:.2} s after its last one, no row is left.\n\n{}",
            scale.events,
            table.finish(),
        ),
        checks: vec![
            Check {
                quartiles: Some((ratio.low(), ratio.high())),
                ..Check::speed(
                    "countd, relay of an outbox in PostgreSQL : consumer of its events".into(),
                    ratio.median(),
                    None,
                )
            },
            Check {
                quartiles: Some((to_application.low(), to_application.high())),
                ..Check::speed(
                    "countd, relay of an outbox in PostgreSQL : application that inserts its rows"
                        .into(),
                    to_application.median(),
                    Some(1.0),
                )
            },
        ],
        figures,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::scale::Scale;

    #[test]
    fn the_relay_is_compared_with_the_consumer() {
        let rates = RelayRates {
            relay: 60_000.0,
            consume: 120_000.0,
            relay_cpu: 1e-5,
            insert: 6_000.0,
            drain: 0.1,
        };
        let section = section(&[rates], &Scale::full().countd);
        assert_eq!(section.checks[0].value, 0.5);
        assert_eq!(section.checks[1].value, 10.0);
        let figures = section.figures.to_json().unwrap();
        assert!(figures.contains("\"countd.relay.relayed-per-s\": 60000"));
    }
}
