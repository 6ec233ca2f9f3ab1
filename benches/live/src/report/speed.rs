//! The charts of the comparisons: the throughput of all sides.

use crate::measure::throughput::Outcome;
use crate::report::chart::{self, Bar, Chart, Group};
use crate::report::comparison::is_ours;
use crate::report::section::Section;

/// The charts: file name, title, and the groups of comparisons in it.
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
        &["ctab-incrby", "ctab-batchincr", "ctab-mread", "ctab-page"],
    ),
    ("speed-membership", "Sets: membership", &["contains"]),
    ("speed-adding", "Sets: adding", &["add", "mark", "mmark"]),
];

/// The section of the charts. `None` if no comparison in a chart was measured.
pub fn section(outcomes: &[Outcome]) -> Option<Section> {
    let charts: Vec<Chart> = CHARTS
        .iter()
        .filter_map(|(name, title, groups)| draw(name, title, groups, outcomes))
        .collect();
    (!charts.is_empty()).then(|| Section {
        title: "Operations per second".into(),
        body: "At pipeline depth 64: medians, with quartiles as whiskers. The sections below have the commands and the values.\n"
            .into(),
        charts,
        ..Section::default()
    })
}

/// Draws the comparisons of a chart that were measured, if any.
fn draw(name: &str, title: &str, groups: &[&str], outcomes: &[Outcome]) -> Option<Chart> {
    let drawn = outcomes
        .iter()
        .filter(|o| groups.contains(&o.comparison.group));
    let groups: Vec<Group> = drawn.map(group).collect();
    (!groups.is_empty()).then(|| {
        chart::bars(
            name,
            title,
            "operations per second, pipeline depth 64",
            &groups,
            chart::rate,
        )
    })
}

fn group(outcome: &Outcome) -> Group {
    let sides = outcome.comparison.sides.iter();
    let bars = sides
        .zip(outcome.main_throughput())
        .map(|(side, throughput)| Bar {
            label: side.label.clone(),
            value: throughput.median(),
            quartiles: Some((throughput.low(), throughput.high())),
            ours: is_ours(side),
        });
    Group {
        title: outcome.title_with_unit(),
        bars: bars.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::programs::Programs;
    use crate::workload::comparisons;
    use crate::workload::scale::Scale;

    #[test]
    fn every_comparison_but_the_control_is_in_one_chart() {
        for comparison in comparisons::all(&Programs::for_test(), &Scale::full()) {
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
