//! The section on saving and loading.

use crate::error::Result;
use crate::measure::snapshots::{Snapshot, Timing};
use crate::measure::stats::Spread;
use crate::report::check::Check;
use crate::report::figures::Figures;
use crate::report::section::{Section, SummaryRow, SummaryTable};
use crate::report::table::Table;
use crate::workload::dataset::{DataSet, ObjectKind};
use crate::workload::ids::short;

/// The name in `--only`.
pub const NAME: &str = "persistence";
/// The heading.
pub const TITLE: &str = "Snapshots";

/// Maximum ratio of the file size of a table to its memory.
const FILE_TO_MEMORY: f64 = 1.1;

/// The operations: name, name in figures, timings.
type Operation = (&'static str, &'static str, fn(&Snapshot) -> &[Timing]);
const OPERATIONS: [Operation; 4] = [
    ("BGSAVE", "bgsave", |s| &s.saves),
    ("BGSAVE without compression", "bgsave-uncompressed", |s| {
        &s.uncompressed_saves
    }),
    ("load", "load", |s| &s.loads),
    ("load of commands", "aof-load", |s| &s.aof_loads),
];

/// Maximum ratios of a data set's times to those of the Hashes, in the order of [`OPERATIONS`].
fn thresholds(data: DataSet) -> [Option<f64>; OPERATIONS.len()] {
    match data {
        DataSet::Objects(ObjectKind::CountInt, _) => [Some(1.0), None, Some(1.25), None],
        DataSet::Rows(..) => [Some(0.25), None, Some(0.2), None],
        _ => [None; OPERATIONS.len()],
    }
}

/// Maximum ratio of the times of many tables to those of a CountInt for each of their entities.
const TABLES_TO_COUNTINTS: f64 = 0.1;

/// The name of a data set in figures.
fn name(data: DataSet) -> &'static str {
    match data {
        DataSet::Objects(ObjectKind::Hash, _) => "hashes",
        DataSet::Rows(..) => "rows",
        DataSet::Tables(_) => "tables",
        DataSet::Entities(_) => "entities",
        _ => "countints",
    }
}

/// Formats the snapshots of `objects` objects; the last data set is the alternative.
pub fn section(snapshots: &[Snapshot], objects: u64) -> Result<Section> {
    let (theirs, ours) = snapshots.split_last().ok_or("no snapshot was measured")?;
    let mut table = Table::new(&[
        "",
        "BGSAVE, s",
        "quartiles",
        "CPU, s",
        "without compression, s",
        "quartiles",
        "CPU, s",
        "load, s",
        "quartiles",
        "CPU, s",
        "load of commands, s",
        "quartiles",
        "CPU, s",
        "file, MB",
        "file of commands, MB",
    ]);
    let mut figures = Figures::default();
    for snapshot in snapshots {
        let mut cells = vec![snapshot.data.label().to_string()];
        for (_, key, timings) in OPERATIONS {
            let wall = spread(timings(snapshot), |t| t.wall);
            let cpu = spread(timings(snapshot), |t| t.cpu);
            cells.push(format!("{:.3}", wall.median()));
            cells.push(format!("{:.3} .. {:.3}", wall.low(), wall.high()));
            cells.push(format!("{:.3}", cpu.median()));
            let figure = format!("snapshot.{}.{key}-s", name(snapshot.data));
            figures.add(figure, wall.median(), 3);
        }
        for bytes in [snapshot.file_bytes, snapshot.aof_bytes] {
            cells.push(format!("{:.1}", bytes / 1e6));
        }
        table.row(&cells);
    }
    let mut section = Section {
        title: TITLE.into(),
        body: format!(
            "BGSAVE from the command to the exit of the child, and loading as the server's log reports it, of {} objects: from \
             the snapshot, and from an append-only file of commands (`aof-use-rdb-preamble no`). Each data set has a server of \
             its own; snapshots are interleaved, and so are restarts. The rows are in one table with sequential ids, or in 1,024 \
             with snowflake ids of three years, with heavy-tailed counts. CPU time is the child's for BGSAVE, and that of the whole start for loading. The server compresses what it saves (LZF) unless \
             `rdbcompression` is `no`. Rows are packed already, so it takes most of their time and saves little.\n\n{}",
            short(objects),
            table.finish()
        ),
        figures,
        ..Section::default()
    };
    for snapshot in ours {
        // The ids of Hashes are shorter than those of the entities.
        if !matches!(snapshot.data, DataSet::Entities(_)) {
            compare(snapshot, theirs, &mut section);
        }
    }
    let find = |wanted| ours.iter().find(|snapshot| name(snapshot.data) == wanted);
    if let (Some(tables), Some(entities)) = (find("tables"), find("entities")) {
        for (operation, _, timings) in OPERATIONS {
            let what = what(operation, tables, entities);
            let (ours, theirs) = (timings(tables), timings(entities));
            let check = ratio(what, ours, theirs, Some(TABLES_TO_COUNTINTS));
            section.checks.push(check);
        }
    }
    Ok(section)
}

/// The name of a ratio.
fn what(operation: &str, ours: &Snapshot, theirs: &Snapshot) -> String {
    format!(
        "{operation}, {} : {}",
        ours.data.label(),
        theirs.data.label()
    )
}

/// Adds the ratios of a data set to the alternative.
fn compare(ours: &Snapshot, theirs: &Snapshot, section: &mut Section) {
    let label = ours.data.label();
    for ((operation, _, timings), threshold) in OPERATIONS.iter().zip(thresholds(ours.data)) {
        let (our_timings, their_timings) = (timings(ours), timings(theirs));
        let what = what(operation, ours, theirs);
        let check = ratio(what, our_timings, their_timings, threshold);
        let seconds = |timings: &[Timing]| format!("{:.3}", spread(timings, |t| t.wall).median());
        section.summary.push(SummaryRow {
            table: SummaryTable::Snapshots,
            task: operation.to_string(),
            ours: (label.into(), seconds(our_timings)),
            theirs: (theirs.data.label().into(), seconds(their_timings)),
            ratio: check.value,
        });
        section.checks.push(check);
    }
    if let Some(memory) = ours.memory_bytes {
        let what = format!("{label}, bytes of the file : bytes in memory");
        let ratio = ours.file_bytes / memory;
        section
            .checks
            .push(Check::cost(what, ratio, Some(FILE_TO_MEMORY)));
    }
}

fn ratio(what: String, ours: &[Timing], theirs: &[Timing], threshold: Option<f64>) -> Check {
    let ratio = |of| spread(ours, of).median() / spread(theirs, of).median();
    let paired = Spread::of(ours.iter().zip(theirs).map(|(a, b)| a.wall / b.wall));
    Check {
        by_cpu: Some(ratio(|t| t.cpu)),
        quartiles: Some((paired.low(), paired.high())),
        ..Check::cost(what, ratio(|t| t.wall), threshold)
    }
}

fn spread(timings: &[Timing], of: fn(&Timing) -> f64) -> Spread {
    Spread::of(timings.iter().map(of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::table::{Rows, Tables};

    #[test]
    fn each_data_set_is_compared_with_the_last() {
        let snapshot = |data, seconds, memory_bytes| {
            let timing = || Timing {
                wall: seconds,
                cpu: seconds,
            };
            Snapshot {
                data,
                file_bytes: 1e6,
                aof_bytes: 1e6,
                memory_bytes,
                saves: vec![timing()],
                uncompressed_saves: vec![timing()],
                loads: vec![timing()],
                aof_loads: vec![timing()],
            }
        };
        let snapshots = [
            snapshot(DataSet::Objects(ObjectKind::CountInt, 5), 1.1, None),
            snapshot(DataSet::Rows(Rows::HeavyTail, 5), 0.1, Some(2e6)),
            snapshot(DataSet::Tables(Tables::ascending(5)), 0.1, Some(2e6)),
            snapshot(DataSet::Entities(Tables::ascending(5)), 1.1, None),
            snapshot(DataSet::Objects(ObjectKind::Hash, 5), 1.0, None),
        ];
        let section = section(&snapshots, 5).unwrap();
        let met: Vec<_> = section.checks.iter().filter_map(Check::met).collect();
        // Two of CountInts and rows each, the files of rows and tables, and four of tables to CountInts.
        let expected = [false, true, true, true, true, true, true, true, true, true];
        assert_eq!(met, expected);
        let figures = section.figures.to_json().unwrap();
        assert!(figures.contains("\"snapshot.rows.load-s\": 0.1"));
        assert_eq!(section.summary.len(), 12);
    }
}
