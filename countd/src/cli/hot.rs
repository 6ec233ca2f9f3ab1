//! `countd hot`.

use crate::cli::args::HotCommand;
use crate::cli::error::CommandError;
use countd::domain::config::Config;
use countd::domain::error::join_names;
use countd::maintenance::split::{SplitReport, Splitter};
use countd::redis::store::Store;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// Runs `countd hot`.
///
/// # Errors
/// The entity or the data does not allow it, another command is running, Redis failed, or stdout cannot be written.
pub async fn run(
    config: &Arc<Config>,
    store: Store,
    command: HotCommand,
) -> Result<(), CommandError> {
    match command {
        HotCommand::Split {
            entity,
            shards,
            grace,
            output,
        } => {
            let progress = output.progress();
            let splitter = Splitter::new(config, store, Duration::from_secs(grace), &progress);
            let result = splitter.split(&entity, shards).await;
            progress.finish();
            let report = result?;
            output.report(&report, |out| print(&report, out))?;
        }
        HotCommand::Merge { entity, output } => {
            let progress = output.progress();
            let splitter = Splitter::new(config, store, Duration::ZERO, &progress);
            let result = splitter.merge(&entity).await;
            progress.finish();
            let report = result?;
            output.report(&report, |out| print(&report, out))?;
        }
        HotCommand::List { output } => {
            let layout = store.layout();
            let splits = layout.splits().iter();
            let reports = splits.map(|(entity, state)| SplitReport::new(entity, Some(state)));
            let reports: Vec<SplitReport> = reports.collect();
            output.report(&reports, |out| {
                reports.iter().try_for_each(|report| print(report, out))
            })?;
        }
    }
    Ok(())
}

fn print(report: &SplitReport, out: &mut impl Write) -> io::Result<()> {
    let SplitReport {
        etype,
        eid,
        phase,
        shards,
        metrics,
        whole,
    } = report;
    match phase {
        None => writeln!(out, "{etype}:{eid}: whole")?,
        Some(phase) => {
            let metrics = join_names(metrics);
            writeln!(out, "{etype}:{eid}: {phase}, {shards} shards: {metrics}")?;
        }
    }
    for (metric, reason) in whole {
        writeln!(out, "{metric} stays whole: it {reason}")?;
    }
    Ok(())
}
