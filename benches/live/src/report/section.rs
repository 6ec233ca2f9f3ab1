//! A section of the page: the text, tables, charts and checks of one measurement.

use crate::report::chart::Chart;
use crate::report::check::Check;
use crate::report::figures::Figures;

/// A section of the page.
#[derive(Default)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// Markdown: text and tables.
    pub body: String,
    /// Rows of the summary tables at the top of the page.
    pub summary: Vec<SummaryRow>,
    /// Values with a threshold, and ratios at which the alternative is better.
    pub checks: Vec<Check>,
    /// Further lines for the list of alternatives that are better.
    pub remarks: Vec<String>,
    /// Charts, shown above the body.
    pub charts: Vec<Chart>,
    /// Figures that other documents may quote.
    pub figures: Figures,
}

/// CountInt compared with one alternative.
pub struct SummaryRow {
    /// The table to which it belongs.
    pub table: SummaryTable,
    /// The task.
    pub task: String,
    /// CountInt: its name and value.
    pub ours: (String, String),
    /// The alternative: its name and value.
    pub theirs: (String, String),
    /// The value of CountInt divided by that of the alternative.
    pub ratio: f64,
}

/// The summary tables.
#[derive(Clone, Copy, PartialEq)]
pub enum SummaryTable {
    /// Operations per second.
    Speed,
    /// Bytes.
    Memory,
    /// Seconds to save and to load.
    Snapshots,
}

impl SummaryTable {
    /// All, in the order of the page.
    pub const ALL: [SummaryTable; 3] = [
        SummaryTable::Speed,
        SummaryTable::Memory,
        SummaryTable::Snapshots,
    ];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            SummaryTable::Speed => "Operations per second, pipeline depth 64 (more is better)",
            SummaryTable::Memory => "Bytes each, keys included (less is better)",
            SummaryTable::Snapshots => "Seconds to save and to load a snapshot (less is better)",
        }
    }
}
