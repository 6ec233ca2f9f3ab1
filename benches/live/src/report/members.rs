//! The section on the memory of a member of a set.

use crate::measure::members::{Fill, MemberBytes};
use crate::report::chart::{self, Chart, Panel};
use crate::report::check::{Check, Threshold};
use crate::report::figures::{Figures, slug};
use crate::report::section::{Section, SummaryRow, SummaryTable};
use crate::report::table::{Table, three_digit_decimals, three_digits};
use crate::workload::ids::{Distribution, short};
use crate::workload::set_kind::SetKind;

/// The name in `--only`.
pub const NAME: &str = "members";
/// The heading.
pub const TITLE: &str = "Bytes per member";

/// The columns of the tables, and whether the chart shows them.
const COLUMNS: [(SetKind, Fill, &str, bool); 9] = [
    (SetKind::Rbm, Fill::Random, "RBM", true),
    (SetKind::Rbm, Fill::Ascending, "ascending", false),
    (SetKind::Rbm, Fill::Descending, "descending", false),
    (SetKind::Rbm, Fill::Halved, "halved", false),
    (SetKind::Set, Fill::Random, "Set", true),
    (SetKind::Intset, Fill::Ascending, "raised intset", true),
    (SetKind::Bitmap, Fill::Random, "bitmap", true),
    (SetKind::Roaring, Fill::Random, "redis-roaring", true),
    (SetKind::Cuckoo, Fill::Random, "cuckoo filter", true),
];

/// Maximum ratios of an RBM to a Set of 1 or 10 members, and of 100.
const TO_SMALL_SET: f64 = 1.2;
const TO_SET_OF_100: f64 = 1.0;
/// Maximum bytes per member of larger sets.
const SNOWFLAKE: f64 = 8.0;
const SPARSE: f64 = 5.0;
const SPARSE_MILLION: f64 = 4.0;
/// The heap bytes per member of a `RoaringTreemap` of dense ids (of 2M), by size, and the maximum ratio to them.
const TREEMAP: [(u64, f64); 3] = [(1_000, 4.5), (100_000, 2.5), (1_000_000, 0.26)];
const TO_TREEMAP: f64 = 1.05;

/// The upper limit of the chart's scale. Bitmaps of few ids exceed it.
const MAX_DRAWN: f64 = 1_000.0;

/// Bytes per member of an RBM in its worst fill order.
fn worst_order(row: &MemberBytes) -> f64 {
    let orders = [Fill::Random, Fill::Ascending, Fill::Descending];
    let bytes = orders
        .iter()
        .filter_map(|&fill| row.get(SetKind::Rbm, fill));
    bytes.fold(0.0, f64::max)
}

/// The thresholds in bytes per member: after filling, and after every second member was removed.
fn thresholds(row: &MemberBytes) -> (Option<f64>, Option<f64>) {
    match (row.distribution, row.size) {
        (_, ..1_000) => (None, None),
        (Distribution::Snowflake, _) => (Some(SNOWFLAKE), Some(SNOWFLAKE)),
        // After the removals, a set of a million has 500,000 members: the threshold of smaller sets applies.
        (Distribution::Sparse, 1_000_000) => (Some(SPARSE_MILLION), Some(SPARSE)),
        (Distribution::Sparse, _) => (Some(SPARSE), Some(SPARSE)),
        (_, size) => {
            let reference = TREEMAP.iter().find(|(n, _)| *n == size);
            let threshold = |(_, bytes): &(u64, f64)| (bytes * TO_TREEMAP * 1e4).round() / 1e4;
            (reference.map(threshold), None)
        }
    }
}

fn what(row: &MemberBytes, state: &str) -> String {
    format!(
        "bytes per member, {}, {}{state}",
        row.distribution.name(),
        short(row.size)
    )
}

fn checks(row: &MemberBytes) -> Vec<Check> {
    let mut checks = set_checks(row);
    let (filled, halved) = thresholds(row);
    let absolute = |state: &str, value, max| {
        Check::absolute(what(row, state), value, "bytes", Threshold::AtMost(max))
    };
    checks.extend(filled.map(|max| absolute(", RBM", worst_order(row), max)));
    let halved = halved.zip(row.get(SetKind::Rbm, Fill::Halved));
    checks.extend(halved.map(|(max, value)| absolute(", RBM halved", value, max)));
    checks
}

/// Small sets are compared with a Set: after the same insertions, and after the same removals.
fn set_checks(row: &MemberBytes) -> Vec<Check> {
    let max = match row.size {
        100 => TO_SET_OF_100,
        1 | 10 => TO_SMALL_SET,
        _ => return Vec::new(),
    };
    let theirs = |fill| row.get(SetKind::Set, fill);
    let ratio = |state: &str, ours: f64, theirs: f64| Check {
        // `remarks` lists these ratios.
        worse: false,
        ..Check::cost(what(row, state), ours / theirs, Some(max))
    };
    let filled = theirs(Fill::Random).map(|set| ratio(", RBM : Set", worst_order(row), set));
    let halved = row
        .get(SetKind::Rbm, Fill::Halved)
        .zip(theirs(Fill::Halved));
    let halved = halved.map(|(ours, set)| ratio(", RBM : Set, both halved", ours, set));
    filled.into_iter().chain(halved).collect()
}

/// For each alternative, the sizes at which it is smaller.
fn remarks(rows: &[MemberBytes]) -> Vec<String> {
    let compare = |(kind, fill, name, _): &(SetKind, Fill, &str, bool)| {
        let larger = rows.iter().filter_map(|row| {
            let ratio = worst_order(row) / row.get(*kind, *fill)?;
            (ratio > 1.0).then(|| format!("{ratio:.2} x at {}", short(row.size)))
        });
        let larger: Vec<String> = larger.collect();
        let what = format!(
            "bytes per member, {}, RBM : {name}: {}",
            rows[0].distribution.name(),
            larger.join(", ")
        );
        (!larger.is_empty()).then_some(what)
    };
    COLUMNS.iter().skip(4).filter_map(compare).collect()
}

/// Formats the memory of sets with `members` members in total.
pub fn section(rows: &[MemberBytes], members: u64) -> Section {
    let mut body = format!(
        "`used_memory` after loading {members} members into sets of the size given, minus its value before, divided by the \
         number of members: the value with its key (`rbm:like:note:1234567`) and its share of the keyspace's dictionary. \
         Members are added one at a time, to each set in turn, in random, ascending or descending order. *Halved*: bytes per \
         remaining member after every second member by rank was removed. Thresholds apply to the worst order.\n\n\
         The Set has the server's default settings (an intset up to 512 integers, a hashtable above). A raised intset \
         (`set-max-intset-entries`) has at most 100k members, because insertions take linear time. The bitmap starts at the \
         smallest id. The cuckoo filter is reserved for its final size; it has false positives and cannot list its members. \
         *Lower bound*: the information-theoretic minimum for that many of those ids. For dense ids a plain `RoaringTreemap` \
         takes 4.5, 2.5 and 0.26 bytes of heap at 1k, 100k and 1M. The chart ends at 1,000 bytes, which a bitmap of few ids \
         exceeds.\n",
        members = short(members)
    );
    let mut section = Section {
        title: TITLE.into(),
        ..Section::default()
    };
    for rows in rows.chunk_by(|a, b| a.distribution == b.distribution) {
        body.push('\n');
        body.push_str(&table(rows));
        section.remarks.extend(remarks(rows));
    }
    section.body = body;
    section.summary = rows.iter().filter_map(summary).collect();
    section.checks = rows.iter().flat_map(checks).collect();
    section.figures = figures(rows);
    section.charts.push(chart(rows));
    section
}

/// The sizes in the summary.
const SUMMARY_SIZES: [u64; 3] = [10, 1_000, 1_000_000];

/// An RBM compared with a Set with default settings.
fn summary(row: &MemberBytes) -> Option<SummaryRow> {
    if !SUMMARY_SIZES.contains(&row.size) {
        return None;
    }
    let ours = row.get(SetKind::Rbm, Fill::Random)?;
    let theirs = row.get(SetKind::Set, Fill::Random)?;
    Some(SummaryRow {
        table: SummaryTable::Memory,
        task: format!(
            "a member of a set of {}: {}",
            short(row.size),
            row.distribution.label()
        ),
        ours: ("RBM".into(), three_digits(ours)),
        theirs: ("Set".into(), three_digits(theirs)),
        ratio: ours / theirs,
    })
}

fn figures(rows: &[MemberBytes]) -> Figures {
    let mut figures = Figures::default();
    for row in rows {
        for (kind, fill, name, _) in COLUMNS {
            let Some(bytes) = row.get(kind, fill) else {
                continue;
            };
            let (distribution, size) = (row.distribution.name(), short(row.size).to_lowercase());
            let name = format!("member.{distribution}.{size}.{}", slug(name));
            figures.add(name, bytes, three_digit_decimals(bytes));
        }
    }
    figures
}

fn table(rows: &[MemberBytes]) -> String {
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|(kind, fill, ..)| rows.iter().any(|row| row.get(*kind, *fill).is_some()))
        .collect();
    let mut headings = vec![rows[0].distribution.label()];
    headings.extend(columns.iter().map(|(_, _, name, _)| name.to_string()));
    headings.push("lower bound".into());
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    for row in rows {
        let mut cells = vec![short(row.size)];
        cells.extend(
            columns
                .iter()
                .map(|(kind, fill, ..)| row.get(*kind, *fill).map_or(String::new(), three_digits)),
        );
        cells.push(three_digits(row.distribution.entropy_bound(row.size)));
        table.row(&cells);
    }
    table.finish()
}

fn chart(rows: &[MemberBytes]) -> Chart {
    let drawn = || COLUMNS.iter().filter(|column| column.3);
    let measured = |kind: &SetKind| rows.iter().any(|r| r.bytes.iter().any(|b| b.0 == *kind));
    let drawn = || drawn().filter(|(kind, ..)| measured(kind));
    let mut legend: Vec<&str> = drawn().map(|(_, _, name, _)| *name).collect();
    legend.push("lower bound");
    let panels = rows.chunk_by(|a, b| a.distribution == b.distribution);
    let panels: Vec<Panel> = panels.map(|rows| panel(rows, drawn())).collect();
    chart::curves("bytes-per-member", TITLE, &legend, &panels)
}

fn panel<'a>(
    rows: &[MemberBytes],
    columns: impl Iterator<Item = &'a (SetKind, Fill, &'a str, bool)>,
) -> Panel {
    let curve = |value: &dyn Fn(&MemberBytes) -> Option<f64>| {
        let points = rows.iter().filter_map(|r| Some((r.size as f64, value(r)?)));
        points.filter(|p| p.1 <= MAX_DRAWN).collect::<Vec<_>>()
    };
    let mut curves: Vec<_> = columns
        .map(|(kind, fill, ..)| curve(&|row| row.get(*kind, *fill)))
        .collect();
    curves.push(curve(&|row| Some(row.distribution.entropy_bound(row.size))));
    Panel {
        title: rows[0].distribution.label(),
        curves,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(distribution: Distribution, size: u64, rbm: [f64; 4], set: [f64; 2]) -> MemberBytes {
        let columns = COLUMNS.iter().zip(rbm);
        let mut bytes: Vec<_> = columns.map(|(column, b)| (column.0, column.1, b)).collect();
        bytes.push((SetKind::Set, Fill::Random, set[0]));
        bytes.push((SetKind::Set, Fill::Halved, set[1]));
        MemberBytes {
            distribution,
            size,
            bytes,
        }
    }

    fn met(row: &MemberBytes) -> Vec<(f64, Option<bool>)> {
        checks(row).iter().map(|c| (c.value, c.met())).collect()
    }

    #[test]
    fn small_sets_are_compared_with_a_set_in_the_worst_order() {
        let row = row(
            Distribution::Snowflake,
            10,
            [10.0, 10.0, 13.0, 20.0],
            [10.0, 20.0],
        );
        assert_eq!(met(&row), [(1.3, Some(false)), (1.0, Some(true))]);
    }

    #[test]
    fn large_sets_have_thresholds_in_bytes() {
        let sparse = row(
            Distribution::Sparse,
            1_000_000,
            [3.0, 3.5, 3.0, 4.5],
            [56.0, 56.0],
        );
        assert_eq!(met(&sparse), [(3.5, Some(true)), (4.5, Some(true))]);
        let dense = row(Distribution::Dense(2_000_000), 100_000, [2.7; 4], [60.0; 2]);
        assert_eq!(met(&dense), [(2.7, Some(false))]);
    }

    #[test]
    fn remarks_name_the_sizes() {
        let rows = [
            row(Distribution::Sparse, 10, [12.0; 4], [10.0; 2]),
            row(Distribution::Sparse, 100, [5.0; 4], [10.0; 2]),
        ];
        assert_eq!(
            remarks(&rows),
            ["bytes per member, sparse, RBM : Set: 1.20 x at 10"]
        );
    }

    #[test]
    fn figures_are_named_by_distribution_size_and_column() {
        let rows = [row(
            Distribution::Sparse,
            1_000,
            [4.42, 4.27, 4.27, 4.85],
            [56.3; 2],
        )];
        let figures = section(&rows, 1_000_000).figures.to_json().unwrap();
        assert!(figures.contains("\"member.sparse.1k.rbm\": 4.42"));
        assert!(figures.contains("\"member.sparse.1k.set\": 56.3"));
    }
}
