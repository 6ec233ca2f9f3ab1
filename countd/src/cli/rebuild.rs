//! `countd rebuild` and `countd archive baseline`.

use crate::cli::archive::directory;
use crate::cli::args::RebuildCommand;
use crate::cli::error::CommandError;
use crate::cli::progress::ProgressLine;
use countd::domain::config::Config;
use countd::maintenance::rebuild::{Options, Report, rebuild, take_baseline};
use countd::redis::store::Store;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// What `--from` names if the rebuild starts with the first entry.
const EARLIEST: &str = "earliest";

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
    line.finish();
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
    line.finish();
    let (name, entities) = (report.name, report.entities);
    writeln!(io::stdout(), "{name}: {entities} entities")?;
    Ok(())
}
