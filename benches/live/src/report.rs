//! The page: what was measured, against which bar, and whether it was met.

use std::fmt::Write;

use crate::machine::Machine;
use crate::options::Options;
use crate::server::SETTINGS;
use crate::{cpu, rounds};

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
    pub title: &'static str,
    /// Its tables, in Markdown.
    pub body: String,
    /// What is held against bars, or is worth saying because we lose.
    pub verdicts: Vec<Verdict>,
}

/// One figure and what is asked of it.
pub struct Verdict {
    /// What is compared with what.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// What is asked of it.
    pub bar: Bar,
    /// The same ratio by the server's CPU time, where that was taken.
    pub by_cpu: Option<f64>,
    /// Behind the figure: "x", "bytes".
    pub unit: &'static str,
    /// Whether what a user would use instead does better.
    pub loses: bool,
}

/// What is asked of a figure.
#[derive(Clone, Copy)]
pub enum Bar {
    /// Nothing.
    None,
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Verdict {
    /// A ratio of throughputs: ours to theirs.
    pub fn speed(what: String, value: f64, bar: Option<f64>) -> Verdict {
        let bar = bar.map_or(Bar::None, Bar::AtLeast);
        Verdict {
            what,
            value,
            bar,
            by_cpu: None,
            unit: "x",
            loses: value < 1.0,
        }
    }

    /// A ratio of costs (bytes, seconds): ours to theirs.
    pub fn cost(what: String, value: f64, bar: Option<f64>) -> Verdict {
        let bar = bar.map_or(Bar::None, Bar::AtMost);
        Verdict {
            what,
            value,
            bar,
            by_cpu: None,
            unit: "x",
            loses: value > 1.0,
        }
    }

    fn figure(&self) -> String {
        format!("{:.3} {}", self.value, self.unit)
    }

    fn asked(&self) -> String {
        match self.bar {
            Bar::None => "none".into(),
            Bar::AtLeast(bar) => format!("at least {bar} {}", self.unit),
            Bar::AtMost(bar) => format!("at most {bar} {}", self.unit),
        }
    }

    /// `None` where nothing is asked.
    fn met(&self) -> Option<bool> {
        match self.bar {
            Bar::None => None,
            Bar::AtLeast(bar) => Some(self.value >= bar),
            Bar::AtMost(bar) => Some(self.value <= bar),
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
        if matches!(self.bar, Bar::None) {
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
        page.push_str("CountInt beside what a user would use instead, in one live server. ");
        page.push_str("`scripts/bench` writes this page; do not edit it.\n\n");
        if options.quick {
            page.push_str("**A quick run: figures to look at, not to quote.**\n\n");
        }
        if let Some(warning) = self.machine.warning() {
            let _ = writeln!(page, "**{warning}**\n");
        }
        page.push_str(&self.verdict_tables());
        page.push_str(&self.machine.to_markdown());
        page.push_str(&method(options));
        for section in &self.sections {
            let _ = write!(page, "\n## {}\n\n{}", section.title, section.body);
        }
        page
    }

    fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.sections.iter().flat_map(|section| &section.verdicts)
    }

    /// The bars, and below them everything that is slower or larger than its alternative.
    fn verdict_tables(&self) -> String {
        let mut text = String::from(
            "## Bars\n\n| what | measured | by server CPU | bar | |\n|---|---|---|---|---|\n",
        );
        for v in self.verdicts().filter(|v| v.met().is_some()) {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                v.what,
                v.figure(),
                v.cpu_cell(),
                v.asked(),
                v.outcome()
            );
        }
        text.push_str("\n## Where CountInt is slower or larger\n\n");
        let losses: Vec<&Verdict> = self.verdicts().filter(|v| v.loses).collect();
        if losses.is_empty() {
            text.push_str("Nowhere in this run.\n");
        }
        for v in losses {
            let _ = writeln!(text, "- {}: {}{}", v.what, v.figure(), v.cpu_remark());
        }
        text.push('\n');
        text
    }
}

/// How it was measured: the same for every section.
fn method(options: &Options) -> String {
    let settings: Vec<String> = SETTINGS
        .iter()
        .map(|s| {
            if s.is_empty() {
                "\"\"".into()
            } else {
                s.to_string()
            }
        })
        .collect();
    format!(
        "## How it was measured\n\n\
         ```sh\n{command}\n\
         redis-server {settings} --port <free> --dir <temporary> --loadmodule target/release/libcountint.so\n```\n\n\
         - The server with all its threads and children is pinned to core {server}, the client to core {client}; TCP over \
         loopback.\n\
         - Every comparison has a fresh server. Each side has its own database in that one process, with the same keys and \
         the same counts, loaded a thousand at a time in turn, so neither is favoured by how a process happens to lie in \
         memory.\n\
         - {rounds} rounds of {time} ms for each side, interleaved (A B C, C B A, ...), after one to warm up. Both sides of \
         a round are asked for the same ids, picked at random among a million (or two, where it says so).\n\
         - {connections} connections, each with one batch under way: 64 operations, or 1 (\"depth\"). Commands are encoded \
         before the run, only the ids change; the client counts replies and fails the run on an error reply.\n\
         - *throughput* is the median over the rounds, with its quartiles; its ratio is the ratio of the medians, with the \
         quartiles of the ratios of each round.\n\
         - *server CPU* is the time that the server's main thread spent on a core (`/proc/PID/schedstat`), reading and \
         writing the sockets included. It does not depend on how fast the client is, so it is the steadier figure. Ratios \
         of throughput by it are theirs to ours, so that more is better there too.\n\
         - *busy* is CPU time over elapsed time. Where the server is not busy (about 100%), the client or the wait for it bounds the \
         throughput, and the CPU time is what to look at.\n",
        command = options.command_line(),
        settings = settings.join(" "),
        server = cpu::SERVER_CORE,
        client = cpu::CLIENT_CORE,
        rounds = options.rounds(),
        time = options.round_time().as_millis(),
        connections = rounds::CONNECTIONS,
    )
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
