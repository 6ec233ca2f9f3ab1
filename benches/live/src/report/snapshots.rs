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
const OPERATIONS: [Operation; 2] = [
    ("BGSAVE", "bgsave", |s| &s.saves),
    ("load", "load", |s| &s.loads),
];

/// Maximum ratios of a data set's times to those of the Hashes, in the order of [`OPERATIONS`].
fn thresholds(data: DataSet) -> [Option<f64>; 2] {
    match data {
        DataSet::Objects(ObjectKind::CountInt, _) => [Some(1.0), Some(1.25)],
        DataSet::Rows(..) => [Some(0.25), Some(0.2)],
        _ => [None, None],
    }
}

/// The name of a data set in figures.
fn name(data: DataSet) -> &'static str {
    match data {
        DataSet::Objects(ObjectKind::Hash, _) => "hashes",
        DataSet::Rows(..) => "rows",
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
        "load, s",
        "quartiles",
        "CPU, s",
        "file, MB",
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
        cells.push(format!("{:.1}", snapshot.file_bytes / 1e6));
        table.row(&cells);
    }
    let mut section = Section {
        title: TITLE.into(),
        body: format!(
            "BGSAVE from the command to the exit of the child, and loading as the server's log reports it, of {} objects. Each \
             data set has a server of its own; snapshots are interleaved, and so are restarts. The rows are one table with \
             heavy-tailed counts. CPU time is the child's for BGSAVE, and that of the whole start for loading.\n\n{}",
            short(objects),
            table.finish()
        ),
        figures,
        ..Section::default()
    };
    for snapshot in ours {
        compare(snapshot, theirs, &mut section);
    }
    Ok(section)
}

/// Adds the ratios of a data set to the alternative.
fn compare(ours: &Snapshot, theirs: &Snapshot, section: &mut Section) {
    let label = ours.data.label();
    for ((operation, _, timings), threshold) in OPERATIONS.iter().zip(thresholds(ours.data)) {
        let (our_timings, their_timings) = (timings(ours), timings(theirs));
        let what = format!("{operation}, {label} : {}", theirs.data.label());
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
    use crate::workload::table::Rows;

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
                memory_bytes,
                saves: vec![timing()],
                loads: vec![timing()],
            }
        };
        let snapshots = [
            snapshot(DataSet::Objects(ObjectKind::CountInt, 5), 1.1, None),
            snapshot(DataSet::Rows(Rows::HeavyTail, 5), 0.1, Some(2e6)),
            snapshot(DataSet::Objects(ObjectKind::Hash, 5), 1.0, None),
        ];
        let section = section(&snapshots, 5).unwrap();
        let met: Vec<_> = section.checks.iter().map(Check::met).collect();
        assert_eq!(met, [false, true, true, true, true].map(Some));
        let figures = section.figures.to_json().unwrap();
        assert!(figures.contains("\"snapshot.rows.load-s\": 0.1"));
        assert_eq!(section.summary.len(), 4);
    }
}
