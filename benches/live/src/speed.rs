//! The comparisons' sections, and before them their charts: operations per second of everything, side by side.

use crate::Result;
use crate::chart::{self, Chart, Group};
use crate::options::Options;
use crate::report::Section;
use crate::throughput::{Outcome, measure};
use crate::{tables, workload};

/// The charts: a file, a title, and the groups of comparisons that are drawn in it.
const CHARTS: [(&str, &str, &[&str]); 5] = [
    (
        "speed-counters",
        "Counters, many keys",
        &["incrby", "batchincr", "dump", "mread", "apply"],
    ),
    (
        "speed-hot-counters",
        "Counters, few keys",
        &["hot-incrby", "hot-batchincr"],
    ),
    (
        "speed-rows",
        "Rows of a table, and keys",
        &["ctab-incrby", "ctab-batchincr", "ctab-mread"],
    ),
    ("speed-membership", "Sets: membership", &["contains"]),
    ("speed-adding", "Sets: adding", &["add", "mark"]),
];

/// Measures every comparison that was asked for.
pub fn sections(options: &Options) -> Result<Vec<Section>> {
    let mut outcomes = Vec::new();
    for stage in workload::stages(options) {
        for comparison in &stage {
            eprintln!("bench: {}", comparison.title);
        }
        outcomes.extend(measure(stage, options)?);
    }
    let charts: Vec<Chart> = CHARTS
        .iter()
        .filter_map(|(name, title, groups)| draw(name, title, groups, &outcomes))
        .collect();
    let mut sections = Vec::new();
    if !charts.is_empty() {
        sections.push(Section {
            title: "Operations per second".into(),
            body: "At depth 64: medians, and quartiles as whiskers. The sections below have the commands and the figures.\n"
                .into(),
            verdicts: Vec::new(),
            losses: Vec::new(),
            charts,
        });
    }
    sections.extend(outcomes.iter().map(tables::section));
    Ok(sections)
}

/// Draws those of a chart's comparisons that were measured, if any were.
fn draw(name: &str, title: &str, groups: &[&str], outcomes: &[Outcome]) -> Option<Chart> {
    let drawn = outcomes
        .iter()
        .filter(|o| groups.contains(&o.comparison.group));
    let groups: Vec<Group> = drawn
        .map(|outcome| Group {
            title: match outcome.comparison.unit {
                "operations" => outcome.comparison.title.clone(),
                unit => format!("{} ({unit}/s)", outcome.comparison.title),
            },
            bars: outcome.bars(),
        })
        .collect();
    (!groups.is_empty()).then(|| {
        chart::bars(
            name,
            title,
            "operations per second, pipelines of 64",
            &groups,
            chart::rate,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_comparison_but_the_control_is_drawn_once() {
        for comparison in workload::comparisons(&Options::for_test()) {
            let charts = CHARTS
                .iter()
                .filter(|(.., groups)| groups.contains(&comparison.group));
            assert_eq!(
                charts.count(),
                usize::from(!comparison.is_control()),
                "{}",
                comparison.name
            );
        }
    }
}
