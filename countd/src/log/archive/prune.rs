//! Deletes the oldest part of an archive.

use super::baseline::{Baseline, baselines};
use super::error::ArchiveError;
use super::index::{Index, IndexLine};
use super::reader::Archive;
use crate::domain::keys::Partition;
use crate::domain::progress::{Progress, Update};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How the names of segments end.
const SEGMENT: &str = ".seg";

/// What is deleted.
#[derive(Clone, Debug)]
pub enum Before {
    /// What was archived before a time, in milliseconds since 1970.
    Time(u64),
    /// What a rebuild from this baseline does not need.
    Baseline(String),
}

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PruneReport {
    /// Chunks.
    pub chunks: usize,
    /// Files of segments.
    pub segments: usize,
    /// Baselines.
    pub baselines: usize,
}

/// Deletes the oldest chunks of an archive, segments of which no chunk is left, and older baselines. Processes may write to the archive
/// meanwhile. If this is interrupted, the archive is usable, and it can be repeated.
///
/// # Errors
/// The archive cannot be read or written, or there is no such baseline.
pub fn prune(
    dir: &Path,
    before: &Before,
    progress: &dyn Progress,
) -> Result<PruneReport, ArchiveError> {
    let index = Index::of(dir);
    let lock = index.lock()?;
    let archive = Archive::open(dir)?;
    let offsets = match before {
        Before::Time(_) => BTreeMap::new(),
        Before::Baseline(name) => offsets_of(dir, name, progress)?,
    };
    let lines = archive.lines();
    let (mut count, mut pruned) = (0, index.pruned()?);
    while count < lines.len() {
        let ranges = archive.ranges(count)?;
        let is_old = match before {
            Before::Time(time) => lines[count].ms < *time,
            Before::Baseline(_) => ranges.iter().all(|range| {
                let start = offsets.get(&range.partition).copied();
                range.next <= start.unwrap_or(1)
            }),
        };
        if !is_old {
            break;
        }
        for range in ranges {
            // A later chunk may replace its end.
            let next = archive.end_of((count, range));
            let end = pruned.entry(range.partition).or_insert(next);
            *end = next.max(*end);
        }
        count += 1;
        let update = Update::new("reading the index", count as u64, "chunks");
        progress.update(&update.of(lines.len() as u64));
    }
    if count > 0 {
        // In this order: an entry that has no line any more must not be missing without a trace.
        index.set_pruned(&lock, &pruned)?;
        index.rewrite(&lock, &lines[count..])?;
    }
    let segments = segments_to_delete(dir, (&lines[..count], &lines[count..]))?;
    let is_older = |name: &String| match before {
        Before::Time(time) => time_of(name).is_some_and(|ms| ms < *time),
        Before::Baseline(kept) => name < kept,
    };
    let mut baselines = baselines(dir)?;
    baselines.retain(is_older);
    let report = PruneReport {
        chunks: count,
        segments: segments.len(),
        baselines: baselines.len(),
    };
    let files = segments.iter().chain(&baselines);
    let total = (segments.len() + baselines.len()) as u64;
    let deleted = |count| Update::new("deleting files", count, "files").of(total);
    progress.update(&deleted(0));
    for (name, count) in files.zip(1..) {
        delete(&dir.join(name))?;
        progress.update(&deleted(count));
    }
    Ok(report)
}

/// The segments of which no chunk is left, and those as old that no line of the index has ever named.
fn segments_to_delete(
    dir: &Path,
    (pruned, left): (&[IndexLine], &[IndexLine]),
) -> Result<BTreeSet<String>, ArchiveError> {
    let left: BTreeSet<&str> = left.iter().map(|line| line.file.as_str()).collect();
    let mut files: BTreeSet<String> = pruned.iter().map(|line| line.file.clone()).collect();
    let end = pruned.iter().map(|line| line.ms).max().unwrap_or(0);
    let entries = || std::fs::read_dir(dir)?.collect::<std::io::Result<Vec<_>>>();
    for entry in entries().map_err(ArchiveError::file(dir))? {
        if let Ok(name) = entry.file_name().into_string()
            && name.ends_with(SEGMENT)
            && time_of(&name).is_some_and(|ms| ms < end)
        {
            files.insert(name);
        }
    }
    files.retain(|name| !left.contains(name.as_str()));
    Ok(files)
}

fn delete(path: &Path) -> Result<(), ArchiveError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ArchiveError::file(path)(error))
        }
        _ => Ok(()),
    }
}

/// When a segment or a baseline was begun, in milliseconds since 1970.
fn time_of(name: &str) -> Option<u64> {
    name.split('-').next()?.parse().ok()
}

/// The offset of each partition from which a rebuild reads.
fn offsets_of(
    dir: &Path,
    name: &str,
    progress: &dyn Progress,
) -> Result<BTreeMap<Partition, u64>, ArchiveError> {
    let mut baseline = Baseline::open(dir, name)?;
    loop {
        let page = baseline.next_page()?;
        progress.update(&baseline.progress("reading the baseline"));
        if page.is_none() {
            break;
        }
    }
    Ok(baseline.offsets.unwrap_or_default())
}
