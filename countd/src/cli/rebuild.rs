//! `countd rebuild` and `countd archive baseline`.

use crate::cli::archive::directory;
use crate::cli::args::RebuildCommand;
use crate::cli::error::CommandError;
use crate::cli::output::Output;
use countd::domain::config::{Config, LogKind};
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
    let baseline = (command.from != EARLIEST).then_some(command.from);
    let dir = match (config.log.kind, &baseline) {
        // The topic has all entries.
        (LogKind::Kafka, None) => PathBuf::new(),
        _ => directory(config, command.archive)?,
    };
    let options = Options {
        dir,
        baseline,
        dry_run: command.dry_run,
        restart: command.restart,
    };
    let progress = command.output.progress();
    let report = rebuild(store, config, &options, &progress).await?;
    progress.finish();
    command.output.report(&report, |out| print(&report, out))?;
    Ok(report.left())
}

/// Prints a table.
fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{} entries were read", report.replayed)?;
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
    output: Output,
) -> Result<(), CommandError> {
    let dir = directory(config, archive)?;
    let progress = output.progress();
    let report = take_baseline(store, config, &dir, &progress).await?;
    progress.finish();
    let (name, entities) = (&report.name, report.entities);
    output.report(&report, |out| writeln!(out, "{name}: {entities} entities"))?;
    Ok(())
}
