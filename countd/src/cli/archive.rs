//! `countd archive` and `countd restore`.

use crate::cli::args::ArchiveCommand;
use crate::cli::error::CommandError;
use crate::cli::output::Output;
use countd::domain::config::{Config, LogKind};
use countd::domain::day;
use countd::domain::keys::Partition;
use countd::domain::progress::{Progress, Update};
use countd::log::archive::{
    Archive, ArchiveError, Baseline, Before, PruneReport, accept_loss, baselines, prune,
};
use countd::maintenance::restore::restore;
use countd::redis::layout::StoredLayout;
use countd::redis::store::Store;
use serde::Serialize;
use serde_json::json;
use std::io::Write;
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

/// Refuses what reads streams only: with Kafka, repeatable events are in the topic.
pub(super) fn require_streams(config: &Config) -> Result<(), CommandError> {
    match config.log.kind {
        LogKind::Streams => Ok(()),
        LogKind::Kafka => {
            let problem = "not with log.kind = \"kafka\": the archive has no events of the topic, whose retention keeps them";
            Err(CommandError::Unsuccessful(problem.to_owned()))
        }
    }
}

/// Runs the commands that do not need Redis: `countd archive list`, `verify` and `prune`.
///
/// # Errors
/// The archive cannot be read, or is damaged.
pub fn inspect(config: &Config, command: ArchiveCommand) -> Result<(), CommandError> {
    match command {
        ArchiveCommand::List { archive, output } => list(&directory(config, archive)?, output),
        ArchiveCommand::Verify { archive, output } => verify(&directory(config, archive)?, output),
        ArchiveCommand::Prune {
            before,
            archive,
            output,
        } => {
            let dir = directory(config, archive)?;
            let before = match day::parse(&before) {
                Some(day) => Before::Time(day * day::DAY_MS),
                None => Before::Baseline(before),
            };
            let progress = output.progress();
            let report = prune(&dir, &before, &progress)?;
            progress.finish();
            output.report(&report, |out| {
                let PruneReport {
                    chunks,
                    segments,
                    baselines,
                } = report;
                writeln!(
                    out,
                    "deleted {chunks} chunks, {segments} segments and {baselines} baselines"
                )
            })?;
            Ok(())
        }
        ArchiveCommand::Baseline { .. }
        | ArchiveCommand::AcceptLoss { .. }
        | ArchiveCommand::End { .. } => Ok(()),
    }
}

/// The archived offsets of a partition.
#[derive(Serialize)]
struct ArchivedRange {
    partition: Partition,
    first: u64,
    last: u64,
}

/// Runs `countd archive list`.
fn list(dir: &Path, output: Output) -> Result<(), CommandError> {
    let archive = Archive::open(dir)?;
    let baselines = baselines(dir)?;
    let mut ranges = Vec::new();
    for (partition, coverage) in &archive.coverage {
        // What was pruned ends with an empty range.
        let of_partition = coverage.ranges.iter().filter(|(from, next)| from < next);
        ranges.extend(of_partition.map(|(from, next)| ArchivedRange {
            partition: *partition,
            first: *from,
            last: next - 1,
        }));
    }
    let report = json!({ "baselines": baselines, "ranges": ranges });
    output.report(&report, |out| {
        for name in &baselines {
            writeln!(out, "baseline {name}")?;
        }
        for range in &ranges {
            let ArchivedRange {
                partition,
                first,
                last,
            } = range;
            writeln!(out, "partition {partition}: offsets {first} to {last}")?;
        }
        Ok(())
    })?;
    Ok(())
}

/// A baseline that was read.
#[derive(Serialize)]
struct ReadBaseline {
    name: String,
    entities: u64,
}

/// Reads all baselines. Fails if one is damaged.
fn read_baselines(dir: &Path, progress: &dyn Progress) -> Result<Vec<ReadBaseline>, ArchiveError> {
    let names = baselines(dir)?;
    let mut total = 0;
    for name in &names {
        total += Baseline::open(dir, name)?.size();
    }
    let (mut read, mut before, mut all_entities) = (Vec::new(), 0, 0);
    for name in names {
        let mut baseline = Baseline::open(dir, &name)?;
        let mut entities = 0;
        loop {
            let page = baseline.next_page()?;
            let count = page.as_ref().map_or(0, |page| page.rows.len() as u64);
            entities += count;
            all_entities += count;
            let done = before + baseline.read();
            let update = Update::new("reading baselines", done, "bytes").of(total);
            progress.update(&update.with(&[("entities", all_entities)]));
            if page.is_none() {
                break;
            }
        }
        before += baseline.size();
        read.push(ReadBaseline { name, entities });
    }
    Ok(read)
}

/// Runs `countd archive verify`.
fn verify(dir: &Path, output: Output) -> Result<(), CommandError> {
    let progress = output.progress();
    let read = read_baselines(dir, &progress)?;
    let archive = Archive::open(dir)?;
    let (mut entries, chunks) = (0, archive.len());
    for at in 0..chunks {
        entries += archive.read(at)?.len();
        let update = Update::new("reading", at as u64 + 1, "chunks");
        progress.update(&update.of(chunks as u64));
    }
    progress.finish();
    for (partition, coverage) in &archive.coverage {
        let first = coverage.ranges.first().map_or(1, |(from, _)| *from);
        coverage.check_from(*partition, first)?;
    }
    let report = json!({ "chunks": chunks, "entries": entries, "baselines": read });
    output.report(&report, |out| {
        for ReadBaseline { name, entities } in &read {
            writeln!(out, "baseline {name} with {entities} entities")?;
        }
        writeln!(out, "{chunks} chunks with {entries} entries")
    })?;
    Ok(())
}

/// Runs `countd archive end`.
///
/// # Errors
/// Redis failed.
pub async fn end(store: &Store, output: Output) -> Result<(), CommandError> {
    StoredLayout::record_archive(&mut store.commands(), &store.keys(), false)
        .await
        .map_err(|error| CommandError::Store(error.into()))?;
    output.report(&json!({ "ended": "archive" }), |out| {
        writeln!(out, "counted entries are not archived any more")
    })?;
    Ok(())
}

/// Runs `countd archive accept-loss`.
///
/// # Errors
/// Redis failed.
pub async fn accept(store: &Store, output: Output) -> Result<(), CommandError> {
    accept_loss(store).await?;
    output.report(&json!({ "accepted": "loss" }), |out| {
        writeln!(
            out,
            "countd can be started with this data; what only the archive has will be replaced"
        )
    })?;
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
    output: Output,
) -> Result<(), CommandError> {
    require_streams(config)?;
    let dir = directory(config, archive)?;
    let progress = output.progress();
    let report = restore(store, config, &dir, &progress).await?;
    progress.finish();
    let (entries, chunks) = (report.replayed, report.chunks);
    output.report(&report, |out| {
        writeln!(
            out,
            "restored: {entries} entries of {chunks} chunks were replayed"
        )
    })?;
    Ok(())
}

impl From<ArchiveError> for CommandError {
    fn from(error: ArchiveError) -> CommandError {
        CommandError::Unsuccessful(error.to_string())
    }
}
