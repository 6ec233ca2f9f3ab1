//! The section on the memory of a row of a table.

use crate::measure::rows::{KINDS, RowBytes, orders};
use crate::report::chart::{self, Bar, Group};
use crate::report::check::{Check, Threshold};
use crate::report::figures::Figures;
use crate::report::section::{Section, SummaryRow, SummaryTable};
use crate::report::table::Table;
use crate::workload::ids::short;
use crate::workload::table::Rows;

/// The name in `--only`.
pub const NAME: &str = "rows";
/// The heading.
pub const TITLE: &str = "Bytes per row";

/// The alternatives: a key for each entity.
const COUNTINT: &str = "a CountInt for each, with its key";
const HASH: &str = "a Hash for each, with its key";

/// Maximum bytes per row.
fn threshold(kind: Rows) -> f64 {
    match kind {
        Rows::Random => 29.0,
        Rows::Snowflakes => 19.0,
        Rows::Plain | Rows::HeavyTail => 11.0,
    }
}

/// Maximum bytes per row of many tables: what a bar of 18 bytes leaves for an entity's other data in countd.
const TABLES: f64 = 16.5;

/// The names of [`measure::rows::orders`](crate::measure::rows::orders) in figures.
const ORDERS: [&str; 2] = ["tables-ascending", "tables-random"];

/// The name of a kind in figures.
fn name(kind: Rows) -> &'static str {
    match kind {
        Rows::Plain => "log-uniform",
        Rows::HeavyTail => "heavy-tail",
        Rows::Random => "random",
        Rows::Snowflakes => "snowflake",
    }
}

/// Formats the memory of tables of `rows` rows.
pub fn section(bytes: &RowBytes, rows: u64) -> Section {
    let n = short(rows);
    let mut table = Table::new(&["rows", "bytes"]);
    let mut section = Section {
        title: TITLE.into(),
        ..Section::default()
    };
    let mut figures = Figures::default();
    let mut bars = Vec::new();
    let bar = |label: &str, value, ours| Bar {
        label: label.into(),
        value,
        quartiles: None,
        ours,
    };
    for (kind, value) in KINDS.into_iter().zip(bytes.rows) {
        table.row(&[kind.label(), &format!("{value:.2}")]);
        figures.add(format!("row.{}", name(kind)), value, 2);
        bars.push(bar(kind.label(), value, true));
        section.summary.push(SummaryRow {
            table: SummaryTable::Memory,
            task: format!("a row of five counters: {}", kind.label()),
            ours: ("CountTab".into(), format!("{value:.2}")),
            theirs: (HASH.into(), format!("{:.2}", bytes.hash)),
            ratio: value / bytes.hash,
        });
        let what = format!("bytes per row, {}", kind.label());
        let threshold = Threshold::AtMost(threshold(kind));
        section.checks.push(Check {
            worse: value > bytes.hash,
            ..Check::absolute(what, value, "bytes", threshold)
        });
    }
    for ((tables, name), value) in orders(rows).into_iter().zip(ORDERS).zip(bytes.tables) {
        let label = format!("1,024 tables, {}", tables.ids.label());
        table.row(&[label.as_str(), &format!("{value:.2}")]);
        figures.add(format!("row.{name}"), value, 2);
        bars.push(bar(&label, value, true));
        let what = format!("bytes per row, {label}");
        section.checks.push(Check {
            worse: value > bytes.hash,
            ..Check::absolute(what, value, "bytes", Threshold::AtMost(TABLES))
        });
    }
    for (label, value) in [(COUNTINT, bytes.countint), (HASH, bytes.hash)] {
        table.row(&[label, &format!("{value:.2}")]);
        bars.push(bar(label, value, false));
    }
    section.body = format!(
        "`used_memory` after loading {n} rows of five counters into one table, row by row, minus its value before, divided by \
         {n}. Heavy tail: reads are log-normal with a median of 150 and a 99th percentile of 70,000; likes are 7 %, comments \
         2 %, favourites 1 % and reposts 0.7 % of them, rounded down. Snowflakes are inserted in random order. The rows of \
         1,024 tables, with their keys, are assigned to tables by a hash of the id and have a heavy tail of counts.\n\n{}",
        table.finish()
    );
    let group = Group {
        title: format!("{n} rows of five counters"),
        bars,
    };
    section.charts.push(chart::bars(
        "bytes-per-row",
        TITLE,
        "bytes",
        &[group],
        |v| format!("{v:.1}"),
    ));
    section.figures = figures;
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_row_has_a_threshold_and_a_figure() {
        let bytes = RowBytes {
            rows: [8.13, 29.5, 13.07],
            tables: [16.0, 16.6],
            countint: 136.39,
            hash: 152.41,
        };
        let section = section(&bytes, 10_000_000);
        let met: Vec<_> = section.checks.iter().filter_map(Check::met).collect();
        assert_eq!(met, [true, false, true, true, false]);
        let figures = section.figures.to_json().unwrap();
        assert!(figures.contains("\"row.heavy-tail\": 8.13"));
        assert!(section.body.contains("loading 10M rows"));
    }
}
