//! The section on bytes per member: tables, bars and a chart.

use std::fmt::Write;

use crate::chart::{self, Chart, Panel};
use crate::distribution::{Distribution, short};
use crate::members::{Fill, TITLE};
use crate::report::{Limit, Section, Verdict};
use crate::setform::SetForm;

/// The columns of the tables, and whether one is a curve of the chart.
const COLUMNS: [(SetForm, Fill, &str, bool); 9] = [
    (SetForm::Rbm, Fill::Scattered, "RBM", true),
    (SetForm::Rbm, Fill::Ascending, "ascending", false),
    (SetForm::Rbm, Fill::Descending, "descending", false),
    (SetForm::Rbm, Fill::Halved, "halved", false),
    (SetForm::Set, Fill::Scattered, "Set", true),
    (SetForm::Ints, Fill::Ascending, "raised intset", true),
    (SetForm::Bitmap, Fill::Scattered, "bitmap", true),
    (SetForm::Roaring, Fill::Scattered, "redis-roaring", true),
    (SetForm::Cuckoo, Fill::Scattered, "cuckoo filter", true),
];

/// The most of a Set's bytes that a set of 1 and of 10, and one of 100, may take.
const OF_SMALL_SET: f64 = 1.2;
const OF_SET_OF_100: f64 = 1.0;
/// The most bytes per member of larger sets.
const SNOWFLAKE: f64 = 8.0;
const SPARSE: f64 = 5.0;
const SPARSE_MILLION: f64 = 4.0;
/// What a plain `RoaringTreemap` takes for dense ids (heap bytes per member, of 2M ids), and the most of it.
const ROARING: [(u64, f64); 3] = [(1_000, 4.5), (100_000, 2.5), (1_000_000, 0.26)];
const OF_ROARING: f64 = 1.05;

/// Bytes per member above which nothing is drawn: a bitmap of few ids would press all else together.
const MOST_DRAWN: f64 = 1_000.0;

/// What sets of one size and distribution take.
pub struct Row {
    /// How their ids are spread.
    pub distribution: Distribution,
    /// Members of each.
    pub size: u64,
    bytes: Vec<(SetForm, Fill, f64)>,
}

impl Row {
    /// Nothing weighed yet.
    pub fn new(distribution: Distribution, size: u64) -> Row {
        Row {
            distribution,
            size,
            bytes: Vec::new(),
        }
    }

    /// Takes in a figure.
    pub fn add(&mut self, form: SetForm, fill: Fill, bytes: f64) {
        self.bytes.push((form, fill, bytes));
    }

    fn get(&self, form: SetForm, fill: Fill) -> Option<f64> {
        let found = self.bytes.iter().find(|b| b.0 == form && b.1 == fill);
        found.map(|b| b.2)
    }

    /// The worst of the ways to fill it.
    fn worst_filled(&self) -> f64 {
        let fills = [Fill::Scattered, Fill::Ascending, Fill::Descending];
        let bytes = fills
            .iter()
            .filter_map(|&fill| self.get(SetForm::Rbm, fill));
        bytes.fold(0.0, f64::max)
    }

    /// The most bytes per member, once filled and after every second was removed.
    fn limits(&self) -> (Option<f64>, Option<f64>) {
        match (self.distribution, self.size) {
            (_, ..1_000) => (None, None),
            (Distribution::Snowflake, _) => (Some(SNOWFLAKE), Some(SNOWFLAKE)),
            // What is left of a million is held to what is asked of fewer than a million.
            (Distribution::Sparse, 1_000_000) => (Some(SPARSE_MILLION), Some(SPARSE)),
            (Distribution::Sparse, _) => (Some(SPARSE), Some(SPARSE)),
            (_, size) => {
                let reference = ROARING.iter().find(|(n, _)| *n == size);
                let limit = |(_, bytes): &(u64, f64)| (bytes * OF_ROARING * 1e4).round() / 1e4;
                (reference.map(limit), None)
            }
        }
    }

    fn what(&self, state: &str) -> String {
        format!(
            "bytes per member, {}, {}{state}",
            self.distribution.name(),
            short(self.size)
        )
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = self.against_set();
        let (filled, halved) = self.limits();
        let absolute = |state: &str, value, limit| Verdict {
            limit: Limit::AtMost(limit),
            unit: "bytes",
            loses: false,
            ..Verdict::cost(self.what(state), value, None)
        };
        verdicts.extend(filled.map(|limit| absolute(", RBM", self.worst_filled(), limit)));
        let after = halved.zip(self.get(SetForm::Rbm, Fill::Halved));
        verdicts.extend(after.map(|(limit, value)| absolute(", RBM halved", value, limit)));
        verdicts
    }

    /// Small sets are held against a Set: filled alike, and after the same removals.
    fn against_set(&self) -> Vec<Verdict> {
        let bar = match self.size {
            100 => OF_SET_OF_100,
            1 | 10 => OF_SMALL_SET,
            _ => return Vec::new(),
        };
        let theirs = |fill| self.get(SetForm::Set, fill);
        let ratio = |state: &str, ours: f64, theirs: f64| Verdict {
            loses: false,
            ..Verdict::cost(self.what(state), ours / theirs, Some(bar))
        };
        let filled =
            theirs(Fill::Scattered).map(|set| ratio(", RBM : Set", self.worst_filled(), set));
        let halved = self
            .get(SetForm::Rbm, Fill::Halved)
            .zip(theirs(Fill::Halved));
        let halved = halved.map(|(ours, set)| ratio(", RBM : Set, both halved", ours, set));
        filled.into_iter().chain(halved).collect()
    }
}

/// For each alternative the sizes at which it is smaller.
fn losses(rows: &[Row]) -> Vec<String> {
    let against = |(form, fill, name, _): &(SetForm, Fill, &str, bool)| {
        let lost = rows.iter().filter_map(|row| {
            let ratio = row.worst_filled() / row.get(*form, *fill)?;
            (ratio > 1.0).then(|| format!("{ratio:.2} x at {}", short(row.size)))
        });
        let lost: Vec<String> = lost.collect();
        let what = format!(
            "bytes per member, {}, RBM : {name}: {}",
            rows[0].distribution.name(),
            lost.join(", ")
        );
        (!lost.is_empty()).then_some(what)
    };
    COLUMNS.iter().skip(4).filter_map(against).collect()
}

/// Describes what was weighed.
pub fn section(rows: &[Row], members: u64) -> Section {
    let mut body = format!(
        "`used_memory` after loading {members} members into as many sets as that takes, less what it was before, over the \
         number of members: the whole value with its key (`rbm:like:note:1234567`) and its share of the keyspace table. \
         Members come one at a time, to each set in turn, in scattered order, or ascending, or descending. *Halved*: after \
         every second by rank was removed again, bytes per member that is left. Bars hold for the worst of the orders.\n\n\
         The Set has the server's settings (an intset up to 512 integers, a hashtable above). A raised intset goes up to \
         100k only, because insertions take time proportional to its size. The bitmap begins at the smallest id. The \
         cuckoo filter is reserved for as many as it gets; it is not exact and keeps no ids. *Floor*: what information theory \
         asks for that many of those ids. For dense ids a plain `RoaringTreemap` takes 4.5, 2.5 and 0.26 bytes of heap at \
         1k, 100k and 1M. The chart ends at 1,000 bytes, which a bitmap of few ids exceeds.\n",
        members = short(members)
    );
    for rows in rows.chunk_by(|a, b| a.distribution == b.distribution) {
        table(&mut body, rows);
    }
    Section {
        title: TITLE.into(),
        body,
        verdicts: rows.iter().flat_map(Row::verdicts).collect(),
        losses: rows
            .chunk_by(|a, b| a.distribution == b.distribution)
            .flat_map(losses)
            .collect(),
        charts: vec![chart(rows)],
    }
}

fn table(body: &mut String, rows: &[Row]) {
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|(form, fill, ..)| rows.iter().any(|row| row.get(*form, *fill).is_some()))
        .collect();
    let names: Vec<&str> = columns.iter().map(|(_, _, name, _)| *name).collect();
    let _ = writeln!(
        body,
        "\n| {} | {} | floor |\n|---|{}---|",
        rows[0].distribution.label(),
        names.join(" | "),
        "---|".repeat(names.len())
    );
    for row in rows {
        let cells: Vec<String> = columns
            .iter()
            .map(|(form, fill, ..)| row.get(*form, *fill).map_or(String::new(), precise))
            .collect();
        let floor = row.distribution.floor(row.size);
        let _ = writeln!(
            body,
            "| {} | {} | {} |",
            short(row.size),
            cells.join(" | "),
            precise(floor)
        );
    }
}

/// Three digits that count.
fn precise(bytes: f64) -> String {
    match bytes {
        100.0.. => format!("{bytes:.0}"),
        10.0.. => format!("{bytes:.1}"),
        1.0.. => format!("{bytes:.2}"),
        _ => format!("{bytes:.3}"),
    }
}

fn chart(rows: &[Row]) -> Chart {
    let drawn = || COLUMNS.iter().filter(|column| column.3);
    let weighed = |form: &SetForm| rows.iter().any(|r| r.bytes.iter().any(|b| b.0 == *form));
    let drawn = || drawn().filter(|(form, ..)| weighed(form));
    let mut legend: Vec<&str> = drawn().map(|(_, _, name, _)| *name).collect();
    legend.push("floor");
    let panels = rows.chunk_by(|a, b| a.distribution == b.distribution);
    let panels: Vec<Panel> = panels.map(|rows| panel(rows, drawn())).collect();
    chart::curves("bytes-per-member", TITLE, &legend, &panels)
}

fn panel<'a>(
    rows: &[Row],
    columns: impl Iterator<Item = &'a (SetForm, Fill, &'a str, bool)>,
) -> Panel {
    let curve = |value: &dyn Fn(&Row) -> Option<f64>| {
        let points = rows.iter().filter_map(|r| Some((r.size as f64, value(r)?)));
        points.filter(|p| p.1 <= MOST_DRAWN).collect::<Vec<_>>()
    };
    let mut curves: Vec<_> = columns
        .map(|(form, fill, ..)| curve(&|row| row.get(*form, *fill)))
        .collect();
    curves.push(curve(&|row| Some(row.distribution.floor(row.size))));
    Panel {
        title: rows[0].distribution.label(),
        curves,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(distribution: Distribution, size: u64, rbm: [f64; 4], set: [f64; 2]) -> Row {
        let mut row = Row::new(distribution, size);
        for ((form, fill, ..), bytes) in COLUMNS.iter().zip(rbm) {
            row.add(*form, *fill, bytes);
        }
        row.add(SetForm::Set, Fill::Scattered, set[0]);
        row.add(SetForm::Set, Fill::Halved, set[1]);
        row
    }

    #[test]
    fn small_sets_are_held_against_a_set_and_the_worst_order_counts() {
        let row = row(
            Distribution::Snowflake,
            10,
            [10.0, 10.0, 13.0, 20.0],
            [10.0, 20.0],
        );
        let verdicts = row.verdicts();
        let found: Vec<_> = verdicts.iter().map(|v| (v.value, v.outcome())).collect();
        assert_eq!(found, [(1.3, "**not met**"), (1.0, "met")]);
    }

    #[test]
    fn large_sets_are_held_to_bytes() {
        let sparse = row(
            Distribution::Sparse,
            1_000_000,
            [3.0, 3.5, 3.0, 4.5],
            [56.0, 56.0],
        );
        let verdicts = sparse.verdicts();
        let bars: Vec<_> = verdicts
            .iter()
            .filter(|v| !v.outcome().is_empty())
            .collect();
        assert_eq!((bars[0].value, bars[0].outcome()), (3.5, "met"));
        assert_eq!((bars[1].value, bars[1].outcome()), (4.5, "met"));
        let dense = row(Distribution::Dense(2_000_000), 100_000, [2.7; 4], [60.0; 2]);
        assert_eq!(dense.verdicts()[0].outcome(), "**not met**");
    }

    #[test]
    fn losses_are_told_by_size() {
        let rows = [
            row(Distribution::Sparse, 10, [12.0; 4], [10.0; 2]),
            row(Distribution::Sparse, 100, [5.0; 4], [10.0; 2]),
        ];
        assert_eq!(
            losses(&rows),
            ["bytes per member, sparse, RBM : Set: 1.20 x at 10"]
        );
    }

    #[test]
    fn figures_keep_three_digits() {
        let shown = [488.2, 56.44, 8.25, 0.2581].map(precise);
        assert_eq!(shown, ["488", "56.4", "8.25", "0.258"]);
    }
}
