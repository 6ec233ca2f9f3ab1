//! The page: a summary, the sections, the method, and the regression thresholds.

use std::fmt::Write;

use crate::report::chart::Chart;
use crate::report::check::Check;
use crate::report::figures::Figures;
use crate::report::section::{Section, SummaryTable};
use crate::report::table::Table;
use crate::workload::comparisons::objects::BATCH_TO_BITFIELD;

/// The heading of the list of cases in which CountInt is slower or larger.
pub const SLOWER: &str = "Where CountInt is slower or larger";
/// The text in place of an empty list.
pub const NOWHERE: &str = "Nowhere in this run.";
/// The heading of the section on the method, the first one after those of measurements.
pub const METHOD: &str = "How it was measured";
/// The heading of the table of thresholds.
pub const THRESHOLDS: &str = "Regression thresholds";

/// A run with its results.
pub struct Report {
    /// Whether it was a quick run.
    pub quick: bool,
    /// A warning about the machine's load, if any.
    pub warning: Option<String>,
    /// The section on the method.
    pub method: String,
    /// The section on the machine and the versions.
    pub machine: String,
    /// What was measured.
    pub sections: Vec<Section>,
}

impl Report {
    /// The checks that have a threshold, for the terminal.
    pub fn terminal_summary(&self) -> String {
        let mut text = String::new();
        for check in self.checks() {
            let Some(met) = check.met() else { continue };
            let _ = writeln!(
                text,
                "{:<60} {:>12}  {:<18} {}",
                check.what,
                check.value_cell(),
                check.threshold_cell(),
                if met { "met" } else { "NOT MET" }
            );
        }
        text
    }

    /// The whole page.
    pub fn to_markdown(&self) -> String {
        let mut page = String::from(
            "# Benchmarks\n\n\
             CountInt beside the data structures that a user would choose instead, each in a live server of its own. \
             `scripts/bench` writes this page and the [figures](benchmarks.json) that other pages quote; do not edit them.\n\n",
        );
        if self.quick {
            page.push_str(
                "**A quick run with fewer rounds and less data: not for publication.**\n\n",
            );
        }
        if let Some(warning) = &self.warning {
            let _ = writeln!(page, "**{warning}**\n");
        }
        page.push_str(&self.summary());
        page.push_str(&self.slower_or_larger());
        for section in &self.sections {
            let _ = write!(page, "## {}\n\n", section.title);
            for chart in &section.charts {
                let _ = writeln!(page, "![{}](charts/{}.svg)\n", chart.title, chart.name);
            }
            let _ = writeln!(page, "{}", section.body);
        }
        let _ = writeln!(page, "{}\n{}", self.method, self.machine);
        page.push_str(&self.thresholds());
        page
    }

    /// All charts.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.sections.iter().flat_map(|section| &section.charts)
    }

    /// All figures.
    pub fn figures(&self) -> Figures {
        let mut all = Figures::default();
        for section in &self.sections {
            all.extend(&section.figures);
        }
        all
    }

    /// All checks.
    pub fn checks(&self) -> impl Iterator<Item = &Check> {
        self.sections.iter().flat_map(|section| &section.checks)
    }

    /// CountInt compared with the most common alternative.
    fn summary(&self) -> String {
        let mut text = String::from("## Summary\n\n");
        for kind in SummaryTable::ALL {
            let rows = self.sections.iter().flat_map(|section| &section.summary);
            let rows: Vec<_> = rows.filter(|row| row.table == kind).collect();
            if rows.is_empty() {
                continue;
            }
            let mut table = Table::new(&["task", "CountInt", "", "alternative", "", "ratio"]);
            for row in rows {
                table.row(&[
                    &row.task,
                    &row.ours.0,
                    &row.ours.1,
                    &row.theirs.0,
                    &row.theirs.1,
                    &ratio_cell(row.ratio),
                ]);
            }
            let _ = writeln!(text, "### {}\n\n{}", kind.title(), table.finish());
        }
        text
    }

    /// The cases in which CountInt is slower or larger than the alternative.
    fn slower_or_larger(&self) -> String {
        let mut text = format!("## {SLOWER}\n\n");
        let mut remarks: Vec<String> = Vec::new();
        for section in &self.sections {
            let worse = section.checks.iter().filter(|check| check.worse);
            remarks.extend(worse.map(Check::remark));
            remarks.extend(section.remarks.iter().cloned());
        }
        if remarks.is_empty() {
            text.push_str(NOWHERE);
            text.push('\n');
        }
        for remark in remarks {
            let _ = writeln!(text, "- {remark}");
        }
        text.push('\n');
        text
    }

    fn thresholds(&self) -> String {
        let mut table = Table::new(&[
            "what",
            "measured",
            "quartiles",
            "by server CPU",
            "threshold",
            "",
        ]);
        for check in self.checks().filter(|check| check.met().is_some()) {
            table.row(&check.cells());
        }
        format!(
            "## {THRESHOLDS}\n\n\
             A value beyond its threshold is reported here and does not fail the run. Ratios are CountInt's value divided by \
             the alternative's.\n\n\
             The threshold of `CINT.BATCHINCR` of five to `BITFIELD` of five is {BATCH_TO_BITFIELD} x: the command has 12 \
             arguments to parse, and that is what a plain C module with the same syntax reaches.\n\n{}",
            table.finish()
        )
    }
}

/// A ratio with at least two significant digits, but for very small ones.
fn ratio_cell(ratio: f64) -> String {
    let decimals = if ratio < 0.1 { 3 } else { 2 };
    format!("{ratio:.decimals$} x")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::section::SummaryRow;

    fn report() -> Report {
        let mut section = Section {
            title: "Bytes".into(),
            body: "Text.\n".into(),
            checks: vec![
                Check::cost("a : b".into(), 1.2, Some(1.1)),
                Check::cost("a : c".into(), 0.5, None),
            ],
            ..Section::default()
        };
        section.summary.push(SummaryRow {
            table: SummaryTable::Memory,
            task: "one".into(),
            ours: ("A".into(), "12".into()),
            theirs: ("B".into(), "10".into()),
            ratio: 1.2,
        });
        section.figures.add("a", 12.0, 0);
        Report {
            quick: false,
            warning: Some("Busy.".into()),
            method: "## How it was measured\n".into(),
            machine: "## Machine and versions\n".into(),
            sections: vec![section],
        }
    }

    #[test]
    fn comparisons_come_first_and_thresholds_last() {
        let page = report().to_markdown();
        let headings: Vec<&str> = page.lines().filter(|l| l.starts_with("## ")).collect();
        assert_eq!(
            headings,
            [
                "## Summary",
                "## Where CountInt is slower or larger",
                "## Bytes",
                "## How it was measured",
                "## Machine and versions",
                "## Regression thresholds"
            ]
        );
        assert!(page.contains("| one | A | 12 | B | 10 | 1.20 x |\n"));
        assert!(page.contains("- a : b: 1.200 x\n") && !page.contains("- a : c"));
        assert!(page.ends_with("| a : b | 1.200 x |  |  | at most 1.1 x | **not met** |\n"));
        assert!(!page.contains("\n\n\n"), "{page}");
    }

    #[test]
    fn the_terminal_gets_the_thresholds_only() {
        let text = report().terminal_summary();
        assert!(text.contains("a : b") && text.contains("NOT MET") && !text.contains("a : c"));
    }
}
