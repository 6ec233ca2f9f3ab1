//! The section of a comparison: its ratios, and the throughput and CPU time of each side.

use std::fmt::Write;

use crate::measure::rounds::Sample;
use crate::measure::stats::Spread;
use crate::measure::throughput::{DEPTHS, MAIN_DEPTH, Outcome};
use crate::report::check::Check;
use crate::report::figures::{Figures, slug};
use crate::report::section::{Section, SummaryRow, SummaryTable};
use crate::report::table::{Table, thousands};
use crate::workload::comparison::{Ratio, Side};
use crate::workload::scripts;

/// Whether a side runs a command of CountInt. Charts highlight these.
pub fn is_ours(side: &Side) -> bool {
    ["CINT.", "CTAB.", "RBM."]
        .iter()
        .any(|family| side.label.starts_with(family))
}

/// Formats the results of a comparison.
pub fn section(outcome: &Outcome) -> Section {
    let (ratios, checks) = ratio_table(outcome);
    Section {
        title: outcome.comparison.title.clone(),
        body: format!("{}\n{ratios}\n{}", commands(outcome), side_table(outcome)),
        summary: summary(outcome).into_iter().collect(),
        checks,
        figures: figures(outcome),
        ..Section::default()
    }
}

/// The commands of all sides and the scripts that they call.
fn commands(outcome: &Outcome) -> String {
    let mut text = String::from("```\n");
    for side in &outcome.comparison.sides {
        // `<same>` is a detail of templates.
        let _ = writeln!(text, "{}", side.commands.replace("<same>", "<id>"));
    }
    for side in &outcome.comparison.sides {
        for (name, script) in scripts::called_by(&side.commands) {
            let _ = writeln!(text, "\n<script:{name}> is the SHA-1 of\n{script}");
        }
    }
    text.push_str("```\n");
    text
}

/// CountInt compared with the first alternative, unless that is also a command of CountInt.
fn summary(outcome: &Outcome) -> Option<SummaryRow> {
    let comparison = &outcome.comparison;
    let ratio = comparison.ratios.first()?;
    let (ours, theirs) = (&comparison.sides[ratio.of], &comparison.sides[ratio.to]);
    if comparison.is_control() || is_ours(theirs) {
        return None;
    }
    let throughput = outcome.main_throughput();
    let cell = |i: usize| thousands(throughput[i].median());
    Some(SummaryRow {
        table: SummaryTable::Speed,
        task: outcome.title_with_unit(),
        ours: (ours.label.clone(), cell(ratio.of)),
        theirs: (theirs.label.clone(), cell(ratio.to)),
        ratio: throughput[ratio.of].median() / throughput[ratio.to].median(),
    })
}

/// The throughput of each side at the main pipeline depth.
fn figures(outcome: &Outcome) -> Figures {
    let mut figures = Figures::default();
    let sides = &outcome.comparison.sides;
    for (side, throughput) in sides.iter().zip(outcome.main_throughput()) {
        let name = format!("{}.{}", outcome.comparison.name, slug(&side.label));
        figures.add(name, throughput.median(), 0);
    }
    figures
}

fn ratio_table(outcome: &Outcome) -> (String, Vec<Check>) {
    let mut checks = Vec::new();
    let mut table = Table::new(&[
        "pipeline depth",
        "ratio",
        "throughput",
        "quartiles of the rounds",
        "epochs",
        "by server CPU",
    ]);
    for (depth, samples) in DEPTHS.into_iter().zip(&outcome.samples) {
        for ratio in &outcome.comparison.ratios {
            let (ours, theirs) = (&samples[ratio.of], &samples[ratio.to]);
            let (cells, check) = compare(outcome, ratio, depth, ours, theirs);
            table.row(&cells);
            checks.push(check);
        }
    }
    (table.finish(), checks)
}

fn compare(
    outcome: &Outcome,
    ratio: &Ratio,
    depth: usize,
    ours: &[Sample],
    theirs: &[Sample],
) -> ([String; 6], Check) {
    let throughput_ratio = |ours: &[Sample], theirs: &[Sample]| {
        outcome.throughput(ours).median() / outcome.throughput(theirs).median()
    };
    let rounds = ours.chunks(1).zip(theirs.chunks(1));
    let paired = Spread::of(rounds.map(|(a, b)| throughput_ratio(a, b)));
    let quartiles = (paired.low(), paired.high());
    let epochs = ours
        .chunks(outcome.rounds)
        .zip(theirs.chunks(outcome.rounds));
    let epochs: Vec<String> = epochs
        .map(|(a, b)| format!("{:.2}", throughput_ratio(a, b)))
        .collect();
    let by_cpu = outcome.server_cpu(theirs).median() / outcome.server_cpu(ours).median();
    let sides = &outcome.comparison.sides;
    let name = format!("{} : {}", sides[ratio.of].label, sides[ratio.to].label);
    let value = throughput_ratio(ours, theirs);
    let cells = [
        depth.to_string(),
        name.clone(),
        format!("{value:.3}"),
        format!("{:.2} .. {:.2}", quartiles.0, quartiles.1),
        epochs.join(", "),
        format!("{by_cpu:.3}"),
    ];
    let what = format!(
        "{name}{}, pipeline depth {depth}",
        outcome.comparison.qualifier
    );
    let threshold = ratio.threshold.filter(|_| depth == MAIN_DEPTH);
    let mut check = Check {
        quartiles: Some(quartiles),
        by_cpu: Some(by_cpu),
        ..Check::speed(what, value, threshold)
    };
    if outcome.comparison.is_control() {
        check.worse = false;
    }
    (cells, check)
}

fn side_table(outcome: &Outcome) -> String {
    let unit = outcome.comparison.unit;
    let per_unit = match unit {
        "entities" => "server CPU, ns/entity",
        _ => "server CPU, ns/operation",
    };
    let mut table = Table::new(&[
        "pipeline depth",
        "command",
        &format!("{unit}/s"),
        "quartiles",
        per_unit,
        "server busy",
        "client busy",
    ]);
    for (depth, samples) in DEPTHS.into_iter().zip(&outcome.samples) {
        for (side, samples) in outcome.comparison.sides.iter().zip(samples) {
            let throughput = outcome.throughput(samples);
            let (low, high) = (thousands(throughput.low()), thousands(throughput.high()));
            table.row(&[
                depth.to_string(),
                side.label.clone(),
                thousands(throughput.median()),
                format!("{low} .. {high}"),
                thousands(outcome.server_cpu(samples).median()),
                utilisation(samples, |s| s.server_ns),
                utilisation(samples, |s| s.client_ns),
            ]);
        }
    }
    table.finish()
}

/// CPU time divided by elapsed time.
fn utilisation(samples: &[Sample], cpu: impl Fn(&Sample) -> u64) -> String {
    let shares = samples
        .iter()
        .map(|s| cpu(s) as f64 / s.wall.as_nanos() as f64);
    format!("{:.0}%", 100.0 * Spread::of(shares).median())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::programs::Programs;
    use crate::workload::comparison::Comparison;
    use crate::workload::comparisons;
    use crate::workload::scale::Scale;
    use std::time::Duration;

    /// A comparison in which side `i` takes `i + 1` ms for 1,000 operations.
    fn outcome(name: &str) -> Outcome {
        let all = comparisons::all(&Programs::for_test(), &Scale::full());
        let found = all.into_iter().find(|c: &Comparison| c.name == name);
        let comparison = found.unwrap();
        let sample = |i: usize| Sample {
            operations: 1_000,
            wall: Duration::from_millis(i as u64 + 1),
            server_ns: 1_000_000 * (i as u64 + 1),
            client_ns: 100_000,
        };
        let samples = || {
            let sides = 0..comparison.sides.len();
            sides.map(|i| vec![sample(i), sample(i)]).collect()
        };
        Outcome {
            samples: [samples(), samples()],
            rounds: 1,
            comparison,
        }
    }

    #[test]
    fn ratios_have_thresholds_at_the_main_depth_only() {
        let section = section(&outcome("incrby"));
        assert!(section.body.contains(
            "| 64 | CINT.INCRBY : HINCRBY | 2.000 | 2.00 .. 2.00 | 2.00, 2.00 | 2.000 |"
        ));
        let with_threshold = section.checks.iter().filter(|c| c.met().is_some());
        let names: Vec<&str> = with_threshold.map(|c| c.what.as_str()).collect();
        assert_eq!(
            names,
            [
                "CINT.INCRBY : HINCRBY, 1M keys, pipeline depth 64",
                "CINT.INCRBY : BITFIELD INCRBY, 1M keys, pipeline depth 64"
            ]
        );
        assert_eq!(section.summary[0].ratio, 2.0);
        let figures = section.figures.to_json().unwrap();
        assert!(figures.contains("\"incrby.cint-incrby\": 1000000"));
    }

    #[test]
    fn neither_the_control_nor_our_own_commands_are_alternatives() {
        for name in ["control", "apply"] {
            let section = section(&outcome(name));
            assert!(section.summary.is_empty(), "{name}");
        }
        let control = section(&outcome("control"));
        assert!(control.checks.iter().all(|check| !check.worse));
    }
}
