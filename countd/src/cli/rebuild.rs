//! `countd rebuild` and `countd archive baseline`.

use crate::cli::archive::directory;
use crate::cli::args::RebuildCommand;
use crate::cli::error::CommandError;
use countd::domain::config::Config;
use countd::maintenance::rebuild::{Options, Report, rebuild, take_baseline};
use countd::redis::store::Store;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two lines of progress within a step.
const INTERVAL: Duration = Duration::from_secs(2);
/// What `--from` names if the rebuild starts with the first entry.
const EARLIEST: &str = "earliest";

/// Shows the progress of a command: a bar on a terminal, lines otherwise.
struct ProgressLine {
    bar: Option<ProgressBar>,
    step: String,
    began: Instant,
    printed: Option<Instant>,
}

impl ProgressLine {
    fn new() -> ProgressLine {
        ProgressLine {
            bar: io::stderr().is_terminal().then(ProgressBar::no_length),
            step: String::new(),
            began: Instant::now(),
            printed: None,
        }
    }

    /// Shows how much of a step is done, and how long the rest may take if all of it is known.
    fn show(&mut self, step: &str, done: u64, all: Option<u64>) {
        let is_new = self.step != step;
        if is_new {
            (self.step, self.began) = (step.to_owned(), Instant::now());
        }
        if let Some(bar) = &self.bar {
            if is_new {
                bar.reset();
                let template = match all {
                    Some(_) => "{msg}: {wide_bar} {human_pos}/{human_len}, {per_sec}, {eta}",
                    None => "{spinner} {msg}: {human_pos}, {per_sec}",
                };
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style);
                }
                bar.set_message(step.to_owned());
            }
            if let Some(all) = all {
                bar.set_length(all);
            }
            bar.set_position(done);
            return;
        }
        let is_due = self.printed.is_none_or(|at| at.elapsed() >= INTERVAL);
        if is_new || is_due {
            self.printed = Some(Instant::now());
            eprintln!("{}", line(step, (done, all), self.began.elapsed()));
        }
    }
}

/// A line of progress.
fn line(step: &str, (done, all): (u64, Option<u64>), elapsed: Duration) -> String {
    match all {
        None => format!("{step}: {done}"),
        Some(all) if done == 0 || done >= all => format!("{step}: {done} of {all}"),
        Some(all) => {
            let left = elapsed.mul_f64((all - done) as f64 / done as f64);
            format!(
                "{step}: {done} of {all}, about {} s left",
                left.as_secs() + 1
            )
        }
    }
}

/// Runs `countd rebuild`. Returns the number of counters that differ still.
///
/// # Errors
/// The rebuild stopped. It continues if the command is run again.
pub async fn run(
    config: &Arc<Config>,
    store: &Store,
    command: RebuildCommand,
) -> Result<u64, CommandError> {
    let options = Options {
        dir: directory(config, command.archive)?,
        baseline: (command.from != EARLIEST).then_some(command.from),
        dry_run: command.dry_run,
        restart: command.restart,
    };
    let mut line = ProgressLine::new();
    let mut progress = |step: &str, done, all| line.show(step, done, all);
    let report = rebuild(store, config, &options, &mut progress).await?;
    if let Some(bar) = &line.bar {
        bar.finish_and_clear();
    }
    let mut out = io::stdout().lock();
    match command.json {
        true => writeln!(
            out,
            "{}",
            serde_json::to_string(&report).unwrap_or_default()
        )?,
        false => print(&report, &mut out)?,
    }
    Ok(report.left())
}

/// Prints a table.
fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{} entries were read from the archive",
        report.replayed
    )?;
    let width = report.metrics.keys().map(|name| name.as_str().len()).max();
    let width = width.unwrap_or(0).max("metric".len());
    writeln!(
        out,
        "{:width$} {:>12} {:>12} {:>12} {:>12}",
        "metric", "compared", "differing", "corrected", "difference"
    )?;
    for (name, of) in &report.metrics {
        writeln!(
            out,
            "{:width$} {:>12} {:>12} {:>12} {:>12}",
            name.as_str(),
            of.compared,
            of.differing,
            of.corrected,
            of.difference
        )?;
    }
    Ok(())
}

/// Runs `countd archive baseline`.
///
/// # Errors
/// The baseline cannot be written.
pub async fn baseline(
    config: &Arc<Config>,
    store: &Store,
    archive: Option<PathBuf>,
) -> Result<(), CommandError> {
    let dir = directory(config, archive)?;
    let mut line = ProgressLine::new();
    let mut progress = |step: &str, done, all| line.show(step, done, all);
    let report = take_baseline(store, config, &dir, &mut progress).await?;
    if let Some(bar) = &line.bar {
        bar.finish_and_clear();
    }
    let (name, entities) = (report.name, report.entities);
    writeln!(io::stdout(), "{name}: {entities} entities")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_estimate_the_time_that_is_left() {
        let elapsed = Duration::from_secs(10);
        assert_eq!(line("s", (5, None), elapsed), "s: 5");
        assert_eq!(line("s", (0, Some(9)), elapsed), "s: 0 of 9");
        let expected = "s: 250 of 1000, about 31 s left";
        assert_eq!(line("s", (250, Some(1000)), elapsed), expected);
    }
}
