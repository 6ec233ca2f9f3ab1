//! `countd archive` and `countd restore`.

use crate::cli::args::ArchiveCommand;
use crate::cli::error::CommandError;
use crate::cli::progress::ProgressLine;
use countd::domain::config::Config;
use countd::domain::day;
use countd::log::archive::{
    Archive, ArchiveError, Baseline, Before, PruneReport, accept_loss, baselines, prune,
};
use countd::maintenance::restore::restore;
use countd::redis::layout::StoredLayout;
use countd::redis::store::Store;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of the archive.
pub(super) fn directory(config: &Config, given: Option<PathBuf>) -> Result<PathBuf, CommandError> {
    let configured = || config.log.archive.dir().map(Path::to_owned);
    given.or_else(configured).ok_or_else(|| {
        let problem = "no archive: set log.archive.dir, or give --archive";
        CommandError::Unsuccessful(problem.to_owned())
    })
}

/// Runs the commands that do not need Redis: `countd archive list`, `verify` and `prune`.
///
/// # Errors
/// The archive cannot be read, or is damaged.
pub fn inspect(config: &Config, command: ArchiveCommand) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    match command {
        ArchiveCommand::List { archive } => {
            let dir = directory(config, archive)?;
            let archive = Archive::open(&dir)?;
            for name in baselines(&dir)? {
                writeln!(out, "baseline {name}")?;
            }
            for (partition, coverage) in &archive.coverage {
                let ranges = coverage.ranges.iter();
                // What was pruned ends with an empty range.
                for (from, next) in ranges.filter(|(from, next)| from < next) {
                    writeln!(out, "partition {partition}: offsets {from} to {}", next - 1)?;
                }
            }
        }
        ArchiveCommand::Verify { archive } => {
            let dir = directory(config, archive)?;
            for name in baselines(&dir)? {
                let mut baseline = Baseline::open(&dir, &name)?;
                let mut entities = 0;
                while let Some(page) = baseline.next_page()? {
                    entities += page.rows.len();
                }
                writeln!(out, "baseline {name} with {entities} entities")?;
            }
            let archive = Archive::open(&dir)?;
            let mut entries = 0;
            for at in 0..archive.len() {
                entries += archive.read(at)?.len();
            }
            for (partition, coverage) in &archive.coverage {
                let first = coverage.ranges.first().map_or(1, |(from, _)| *from);
                coverage.check_from(*partition, first)?;
            }
            writeln!(out, "{} chunks with {entries} entries", archive.len())?;
        }
        ArchiveCommand::Prune { before, archive } => {
            let dir = directory(config, archive)?;
            let before = match day::parse(&before) {
                Some(day) => Before::Time(day * day::DAY_MS),
                None => Before::Baseline(before),
            };
            let PruneReport {
                chunks,
                segments,
                baselines,
            } = prune(&dir, &before)?;
            writeln!(
                out,
                "deleted {chunks} chunks, {segments} segments and {baselines} baselines"
            )?;
        }
        ArchiveCommand::Baseline { .. } | ArchiveCommand::AcceptLoss | ArchiveCommand::End => {}
    }
    Ok(())
}

/// Runs `countd archive end`.
///
/// # Errors
/// Redis failed.
pub async fn end(store: &Store) -> Result<(), CommandError> {
    StoredLayout::record_archive(&mut store.commands(), &store.keys(), false)
        .await
        .map_err(|error| CommandError::Store(error.into()))?;
    writeln!(io::stdout(), "counted entries are not archived any more")?;
    Ok(())
}

/// Runs `countd archive accept-loss`.
///
/// # Errors
/// Redis failed.
pub async fn accept(store: &Store) -> Result<(), CommandError> {
    accept_loss(store).await?;
    writeln!(
        io::stdout(),
        "countd can be started with this data; what only the archive has will be replaced"
    )?;
    Ok(())
}

/// Runs `countd restore`.
///
/// # Errors
/// The restore stopped. It continues if the command is run again.
pub async fn run_restore(
    config: &Arc<Config>,
    store: &Store,
    archive: Option<PathBuf>,
) -> Result<(), CommandError> {
    let dir = directory(config, archive)?;
    let mut line = ProgressLine::new();
    let progress = |chunk: usize, chunks: usize| {
        line.show("applying chunks", chunk as u64, Some(chunks as u64));
    };
    let report = restore(store, config, &dir, progress).await?;
    line.finish();
    let (entries, chunks) = (report.replayed, report.chunks);
    writeln!(
        io::stdout(),
        "restored: {entries} entries of {chunks} chunks were replayed"
    )?;
    Ok(())
}

impl From<ArchiveError> for CommandError {
    fn from(error: ArchiveError) -> CommandError {
        CommandError::Unsuccessful(error.to_string())
    }
}
