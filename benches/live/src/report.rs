//! The page: what was measured, against which bar, and whether it was met.

use std::fmt::Write;

use crate::chart::Chart;
use crate::machine::Machine;
use crate::method::method;
use crate::options::Options;

/// A whole run.
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// What was measured.
    pub sections: Vec<Section>,
}

/// One measurement's part of the page.
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Its tables, in Markdown.
    pub body: String,
    /// What is held against bars, or is worth saying because we lose.
    pub verdicts: Vec<Verdict>,
    /// Where we lose, beside the verdicts that say so themselves.
    pub losses: Vec<String>,
    /// Drawn above the tables.
    pub charts: Vec<Chart>,
}

/// One figure and what is asked of it.
pub struct Verdict {
    /// What is compared with what.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// What is asked of it.
    pub limit: Limit,
    /// Its quartiles, where it was measured in rounds.
    pub range: Option<(f64, f64)>,
    /// The same ratio by the server's CPU time, where that was taken.
    pub by_cpu: Option<f64>,
    /// Behind the figure: "x", "bytes".
    pub unit: &'static str,
    /// Whether what a user would use instead does better.
    pub loses: bool,
}

/// What is asked of a figure.
#[derive(Clone, Copy)]
pub enum Limit {
    /// Nothing.
    None,
    /// Nothing but to be near 1: a thing compared with itself.
    Control,
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Verdict {
    /// A ratio of throughputs: ours to theirs.
    pub fn speed(what: String, value: f64, bar: Option<f64>) -> Verdict {
        let limit = bar.map_or(Limit::None, Limit::AtLeast);
        Verdict {
            what,
            value,
            limit,
            range: None,
            by_cpu: None,
            unit: "x",
            loses: value < 1.0,
        }
    }

    /// A ratio of costs (bytes, seconds): ours to theirs.
    pub fn cost(what: String, value: f64, bar: Option<f64>) -> Verdict {
        let limit = bar.map_or(Limit::None, Limit::AtMost);
        Verdict {
            what,
            value,
            limit,
            range: None,
            by_cpu: None,
            unit: "x",
            loses: value > 1.0,
        }
    }

    fn figure(&self) -> String {
        format!("{:.3} {}", self.value, self.unit)
    }

    fn asked(&self) -> String {
        match self.limit {
            Limit::None => "none".into(),
            Limit::Control => "should be 1".into(),
            Limit::AtLeast(bar) => format!("at least {bar} {}", self.unit),
            Limit::AtMost(bar) => format!("at most {bar} {}", self.unit),
        }
    }

    /// `None` where nothing is asked.
    fn met(&self) -> Option<bool> {
        match self.limit {
            Limit::None | Limit::Control => None,
            Limit::AtLeast(bar) => Some(self.value >= bar),
            Limit::AtMost(bar) => Some(self.value <= bar),
        }
    }

    /// The last column of a table.
    pub fn outcome(&self) -> &'static str {
        match self.met() {
            None => "",
            Some(true) => "met",
            Some(false) => "**not met**",
        }
    }

    fn range_cell(&self) -> String {
        self.range.map_or(String::new(), |(low, high)| {
            format!("{low:.2} .. {high:.2}")
        })
    }

    fn is_control(&self) -> bool {
        matches!(self.limit, Limit::Control)
    }

    fn cpu_cell(&self) -> String {
        self.by_cpu
            .map_or(String::new(), |ratio| format!("{ratio:.3} x"))
    }

    fn cpu_remark(&self) -> String {
        self.by_cpu.map_or(String::new(), |ratio| {
            format!(" ({ratio:.3} x by server CPU)")
        })
    }

    /// The bar as a table shows it.
    pub fn bar_cell(&self) -> String {
        if matches!(self.limit, Limit::None) {
            String::new()
        } else {
            self.asked()
        }
    }
}

impl Report {
    /// The figures that have a bar, for the terminal.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for verdict in self.verdicts().filter(|v| v.met().is_some()) {
            let outcome = if verdict.met() == Some(true) {
                "met"
            } else {
                "NOT MET"
            };
            let _ = writeln!(
                text,
                "{:<60} {:>12}  {:<18} {outcome}",
                verdict.what,
                verdict.figure(),
                verdict.asked()
            );
        }
        text
    }

    /// The whole page.
    pub fn to_markdown(&self, options: &Options) -> String {
        let mut page = String::from("# Benchmarks\n\n");
        page.push_str(
            "CountInt beside what a user would use instead, each in a live server of its own. ",
        );
        page.push_str("`scripts/bench` writes this page; do not edit it.\n\n");
        if options.quick {
            page.push_str("**A quick run, with fewer rounds and fewer data: figures to look at, not to quote.**\n\n");
        }
        if let Some(warning) = self.machine.warning() {
            let _ = writeln!(page, "**{warning}**\n");
        }
        page.push_str(&self.verdict_tables());
        page.push_str(&self.machine.to_markdown());
        page.push_str(&method(options));
        for section in &self.sections {
            let _ = write!(page, "\n## {}\n\n", section.title);
            for chart in &section.charts {
                let _ = writeln!(page, "![{}](charts/{}.svg)\n", chart.title, chart.name);
            }
            page.push_str(&section.body);
        }
        page
    }

    /// All charts, to be written beside the page.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.sections.iter().flat_map(|section| &section.charts)
    }

    fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.sections.iter().flat_map(|section| &section.verdicts)
    }

    /// The bars, and below them everything that is slower or larger than its alternative.
    fn verdict_tables(&self) -> String {
        let mut text = String::from(
            "## Bars\n\n| what | measured | quartiles | by server CPU | bar | |\n|---|---|---|---|---|---|\n",
        );
        for v in self
            .verdicts()
            .filter(|v| v.met().is_some() || v.is_control())
        {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} |",
                v.what,
                v.figure(),
                v.range_cell(),
                v.cpu_cell(),
                v.asked(),
                v.outcome()
            );
        }
        text.push_str("\n## Where CountInt is slower or larger\n\n");
        let losing = |v: &Verdict| format!("{}: {}{}", v.what, v.figure(), v.cpu_remark());
        let mut losses: Vec<String> = Vec::new();
        for section in &self.sections {
            losses.extend(section.verdicts.iter().filter(|v| v.loses).map(losing));
            losses.extend(section.losses.iter().cloned());
        }
        if losses.is_empty() {
            text.push_str("Nowhere in this run.\n");
        }
        for loss in losses {
            let _ = writeln!(text, "- {loss}");
        }
        text.push('\n');
        text
    }
}

/// A whole number with a comma for each thousand.
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_says_plainly_whether_the_bar_is_met() {
        let speed = |value| Verdict::speed("x".into(), value, Some(1.1));
        assert_eq!((speed(1.1).outcome(), speed(1.1).loses), ("met", false));
        assert_eq!(
            (speed(1.05).outcome(), speed(1.05).loses),
            ("**not met**", false)
        );
        assert!(speed(0.99).loses);
        let cost = |value| Verdict::cost("x".into(), value, Some(1.25));
        assert_eq!((cost(1.2).outcome(), cost(1.2).loses), ("met", true));
        assert_eq!(cost(1.3).outcome(), "**not met**");
        assert_eq!(Verdict::cost("x".into(), 9.0, None).outcome(), "");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands(0.4), "0");
        assert_eq!(thousands(999.0), "999");
        assert_eq!(thousands(1_234_567.2), "1,234,567");
    }
}
