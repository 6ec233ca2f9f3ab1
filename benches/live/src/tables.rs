//! The section of a comparison: its ratios, and what each side did.

use std::fmt::Write;

use crate::report::{Limit, Section, Verdict, thousands};
use crate::rounds::Sample;
use crate::scripts;
use crate::stats::Spread;
use crate::throughput::{BAR_DEPTH, DEPTHS, Outcome};
use crate::workload::Ratio;

/// Describes what came out.
pub fn section(outcome: &Outcome) -> Section {
    let comparison = &outcome.comparison;
    let mut body = String::from("```\n");
    for side in &comparison.sides {
        // Which of the ids is picked anew is the template's affair.
        let _ = writeln!(body, "{}", side.commands.replace("<same>", "<id>"));
    }
    for side in &comparison.sides {
        for (name, script) in scripts::called_by(&side.commands) {
            let _ = writeln!(body, "\n<script:{name}> is the SHA-1 of\n{script}");
        }
    }
    body.push_str("```\n\n");
    let (ratios, verdicts) = ratio_table(outcome);
    let _ = write!(body, "{ratios}\n{}", side_table(outcome));
    Section {
        title: comparison.title.clone(),
        body,
        verdicts,
        losses: Vec::new(),
        charts: Vec::new(),
    }
}

fn ratio_table(outcome: &Outcome) -> (String, Vec<Verdict>) {
    let mut verdicts = Vec::new();
    let mut table = String::from(
        "| depth | ratio | throughput | quartiles of the rounds | epochs | by server CPU | bar | |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (depth, samples) in DEPTHS.into_iter().zip(&outcome.samples) {
        for ratio in &outcome.comparison.ratios {
            let (ours, theirs) = (&samples[ratio.of], &samples[ratio.to]);
            let (line, verdict) = compare(outcome, ratio, depth, ours, theirs);
            table.push_str(&line);
            verdicts.push(verdict);
        }
    }
    (table, verdicts)
}

/// One line of the table of ratios.
fn compare(
    outcome: &Outcome,
    ratio: &Ratio,
    depth: usize,
    ours: &[Sample],
    theirs: &[Sample],
) -> (String, Verdict) {
    let median = |samples: &[Sample], of: &dyn Fn(&Sample) -> f64| {
        Spread::of(samples.iter().map(of)).median()
    };
    let speed = |s: &Sample| outcome.per_second(s);
    let cpu = |s: &Sample| outcome.cpu(s);
    let paired = Spread::of(ours.iter().zip(theirs).map(|(a, b)| speed(a) / speed(b)));
    let epochs: Vec<String> = ours
        .chunks(outcome.rounds)
        .zip(theirs.chunks(outcome.rounds))
        .map(|(a, b)| format!("{:.2}", median(a, &speed) / median(b, &speed)))
        .collect();
    let sides = &outcome.comparison.sides;
    let name = format!("{} : {}", sides[ratio.of].label, sides[ratio.to].label);
    let mut verdict = Verdict::speed(
        format!("{name}{}, depth {depth}", outcome.comparison.distinction),
        median(ours, &speed) / median(theirs, &speed),
        ratio.bar.filter(|_| depth == BAR_DEPTH),
    );
    let by_cpu = median(theirs, &cpu) / median(ours, &cpu);
    verdict.by_cpu = Some(by_cpu);
    verdict.range = Some((paired.low(), paired.high()));
    if outcome.comparison.is_control() {
        verdict.limit = Limit::Control;
        verdict.loses = false;
    }
    let line = format!(
        "| {depth} | {name} | {:.3} | {:.2} .. {:.2} | {} | {by_cpu:.3} | {} | {} |\n",
        verdict.value,
        paired.low(),
        paired.high(),
        epochs.join(", "),
        verdict.bar_cell(),
        verdict.outcome(),
    );
    (line, verdict)
}

fn side_table(outcome: &Outcome) -> String {
    let unit = outcome.comparison.unit;
    let mut table = format!(
        "| depth | command | {unit}/s | quartiles | server CPU, ns/{} | server busy | client busy |\n\
         |---|---|---|---|---|---|---|\n",
        if unit == "entities" {
            "entity"
        } else {
            "operation"
        }
    );
    for (depth, samples) in DEPTHS.into_iter().zip(&outcome.samples) {
        for (side, samples) in outcome.comparison.sides.iter().zip(samples) {
            let speed = Spread::of(samples.iter().map(|s| outcome.per_second(s)));
            let _ = writeln!(
                table,
                "| {depth} | {} | {} | {} .. {} | {} | {:.0}% | {:.0}% |",
                side.label,
                thousands(speed.median()),
                thousands(speed.low()),
                thousands(speed.high()),
                thousands(Spread::of(samples.iter().map(|s| outcome.cpu(s))).median()),
                100.0 * busy(samples, |s| s.server_ns),
                100.0 * busy(samples, |s| s.client_ns),
            );
        }
    }
    table
}

/// The share of the elapsed time that was spent on a core.
fn busy(samples: &[Sample], time: impl Fn(&Sample) -> u64) -> f64 {
    let shares = samples
        .iter()
        .map(|s| time(s) as f64 / s.wall.as_nanos() as f64);
    Spread::of(shares).median()
}
