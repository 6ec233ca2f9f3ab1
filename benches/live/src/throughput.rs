//! Runs one comparison at both depths and writes its section.

use std::fmt::Write;

use crate::options::Options;
use crate::report::{Section, Verdict, thousands};
use crate::rounds::{Runner, Sample, interleave};
use crate::server::{Server, Workdir};
use crate::stats::Spread;
use crate::workload::{Comparison, Ratio};
use crate::{Result, dataset};

/// Pipelined, as the bars ask, and not.
const DEPTHS: [usize; 2] = [64, 1];
/// The depth at which the bars hold.
const BAR_DEPTH: usize = 64;

/// Loads a fresh server, measures, and describes what came out.
pub fn measure(comparison: &'static Comparison, options: &Options) -> Result<Section> {
    let dir = Workdir::new()?;
    let server = Server::start(options, &dir)?;
    dataset::load(&server, &comparison.data())?;
    let mut tables = Tables::new(comparison);
    for depth in DEPTHS {
        let mut runners = connect(comparison, &server, depth)?;
        let samples = interleave(
            &server,
            &mut runners,
            options.rounds(),
            options.round_time(),
        )?;
        tables.add(depth, &samples);
    }
    Ok(tables.into_section())
}

fn connect(comparison: &Comparison, server: &Server, depth: usize) -> Result<Vec<Runner>> {
    let sides = comparison.sides.iter();
    sides
        .map(|side| Runner::new(server, side, depth, comparison.pick))
        .collect()
}

/// The two tables of a section, growing with each depth.
struct Tables {
    comparison: &'static Comparison,
    sides: String,
    ratios: String,
    verdicts: Vec<Verdict>,
}

impl Tables {
    fn new(comparison: &'static Comparison) -> Tables {
        let unit = comparison.unit;
        let sides = format!(
            "| depth | command | {unit}/s | quartiles | server CPU, ns/{} | server busy | client busy |\n\
             |---|---|---|---|---|---|---|\n",
            unit_of_one(unit)
        );
        let ratios = String::from(
            "| depth | ratio | throughput | quartiles of the rounds | by server CPU | bar | |\n\
             |---|---|---|---|---|---|---|\n",
        );
        Tables {
            comparison,
            sides,
            ratios,
            verdicts: Vec::new(),
        }
    }

    fn add(&mut self, depth: usize, samples: &[Vec<Sample>]) {
        for (side, samples) in self.comparison.sides.iter().zip(samples) {
            let speed = Spread::of(samples.iter().map(|s| self.per_second(s)));
            let _ = writeln!(
                self.sides,
                "| {depth} | {} | {} | {} .. {} | {} | {:.0}% | {:.0}% |",
                side.label,
                thousands(speed.median()),
                thousands(speed.low()),
                thousands(speed.high()),
                thousands(Spread::of(samples.iter().map(|s| self.cpu(s))).median()),
                100.0 * busy(samples, |s| s.server_ns),
                100.0 * busy(samples, |s| s.client_ns),
            );
        }
        for ratio in self.comparison.ratios {
            self.add_ratio(depth, samples, ratio);
        }
    }

    fn add_ratio(&mut self, depth: usize, samples: &[Vec<Sample>], ratio: &Ratio) {
        let (ours, theirs) = (&samples[ratio.of], &samples[ratio.to]);
        let median = |samples: &[Sample], of: &dyn Fn(&Sample) -> f64| {
            Spread::of(samples.iter().map(of)).median()
        };
        let speed = |s: &Sample| self.per_second(s);
        let cpu = |s: &Sample| self.cpu(s);
        let paired = Spread::of(ours.iter().zip(theirs).map(|(a, b)| speed(a) / speed(b)));
        let sides = self.comparison.sides;
        let name = format!("{} : {}", sides[ratio.of].label, sides[ratio.to].label);
        let mut verdict = Verdict::speed(
            format!("{name}, depth {depth}{}", self.distinction()),
            median(ours, &speed) / median(theirs, &speed),
            ratio.bar.filter(|_| depth == BAR_DEPTH),
        );
        let by_cpu = median(theirs, &cpu) / median(ours, &cpu);
        verdict.by_cpu = Some(by_cpu);
        let _ = writeln!(
            self.ratios,
            "| {depth} | {name} | {:.3} | {:.2} .. {:.2} | {by_cpu:.3} | {} | {} |",
            verdict.value,
            paired.low(),
            paired.high(),
            verdict.bar_cell(),
            verdict.outcome(),
        );
        if !self.comparison.is_control() {
            self.verdicts.push(verdict);
        }
    }

    /// What tells this comparison from another of the same commands.
    fn distinction(&self) -> &'static str {
        if self.comparison.name == "contains-half" {
            ", half misses"
        } else {
            ""
        }
    }

    fn per_second(&self, sample: &Sample) -> f64 {
        (sample.operations * self.comparison.units) as f64 / sample.wall.as_secs_f64()
    }

    /// The server's nanoseconds per unit.
    fn cpu(&self, sample: &Sample) -> f64 {
        sample.server_ns as f64 / (sample.operations * self.comparison.units) as f64
    }

    fn into_section(self) -> Section {
        let mut body = String::from("```\n");
        for side in self.comparison.sides {
            let _ = writeln!(body, "{}", side.commands);
        }
        let _ = write!(body, "```\n\n{}\n{}", self.ratios, self.sides);
        Section {
            title: self.comparison.title,
            body,
            verdicts: self.verdicts,
        }
    }
}

/// The share of the elapsed time that was spent on a core.
fn busy(samples: &[Sample], time: impl Fn(&Sample) -> u64) -> f64 {
    Spread::of(
        samples
            .iter()
            .map(|s| time(s) as f64 / s.wall.as_nanos() as f64),
    )
    .median()
}

fn unit_of_one(unit: &str) -> &str {
    if unit == "entities" {
        "entity"
    } else {
        "operation"
    }
}
