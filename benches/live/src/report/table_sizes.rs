//! The section on operations on whole tables.

use crate::measure::table_sizes::{REPEATS, TableTimes};
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::Table;
use crate::workload::ids::short;

/// The name in `--only`.
pub const NAME: &str = "table-sizes";
/// The heading.
pub const TITLE: &str = "Whole tables";

/// Formats the times of each size.
pub fn section(all: &[TableTimes]) -> Section {
    let mut table = Table::new(&[
        "rows",
        "memory, MB",
        "BGSAVE",
        "load",
        "COPY",
        "MIGRATE",
        "CTAB.RESIZE",
        "DEL",
        "UNLINK",
    ]);
    let mut figures = Figures::default();
    for times in all {
        let rows = short(times.rows);
        let name = |what: &str| format!("table.{}.{what}", rows.to_lowercase());
        let mut cells = vec![rows.clone(), format!("{:.2}", times.bytes / 1e6)];
        figures.add(name("memory-mb"), times.bytes / 1e6, 2);
        for (what, value) in [
            ("bgsave-ms", times.bgsave),
            ("load-ms", times.load),
            ("copy-ms", times.copy),
            ("migrate-ms", times.migrate),
            ("resize-ms", times.resize),
            ("del-ms", times.del),
            ("unlink-ms", times.unlink),
        ] {
            cells.push(format!("{value:.1}"));
            figures.add(name(what), value, 1);
        }
        table.row(&cells);
    }
    Section {
        title: TITLE.into(),
        body: format!(
            "One table of five counters with sequential ids and heavy-tailed counts, filled a row at a time. Milliseconds, \
             medians of {REPEATS}: BGSAVE from the command to the exit of the child, loading as the server's log reports it, the \
             others as the time until the reply, during which the server does nothing else. MIGRATE goes to another server on \
             this machine; RESIZE removes one of six counters, which is 0 in all rows.\n\n{}",
            table.finish()
        ),
        figures,
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_part_of_the_names_of_figures() {
        let times = TableTimes {
            rows: 10_000,
            bytes: 81_000.0,
            bgsave: 5.6,
            load: 0.04,
            copy: 0.1,
            migrate: 1.2,
            resize: 0.1,
            del: 0.1,
            unlink: 0.1,
        };
        let section = section(&[times]);
        assert!(
            section
                .body
                .ends_with("| 10k | 0.08 | 5.6 | 0.0 | 0.1 | 1.2 | 0.1 | 0.1 | 0.1 |\n")
        );
        let figures = section.figures.to_json().unwrap();
        assert!(figures.contains("\"table.10k.migrate-ms\": 1.2"));
    }
}
