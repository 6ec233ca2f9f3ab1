//! Adds up what the archive has.

use super::error::{RebuildError, panicked};
use super::run::Run;
use super::shadow::Additions;
use super::state;
use crate::domain::keys::Partition;
use crate::domain::progress::Update;
use crate::log::archive::ArchiveError;
use crate::log::archive::{Archive, Record};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// The number of entities whose shadows change together.
const ENTITIES: usize = 2_000;

impl Run<'_> {
    /// Replays the archive as it is now.
    ///
    /// # Errors
    /// The archive is damaged, or does not have what is needed.
    pub(super) async fn replay_archive(
        &mut self,
        dir: &Path,
        has_baseline: bool,
    ) -> Result<(), RebuildError> {
        let archive = open(dir).await?;
        self.check(&archive, has_baseline, None)?;
        self.replay("reading the archive", &archive, None).await
    }

    /// Lets logs keep what is not archived, and replays what the archive has before that.
    ///
    /// # Errors
    /// The archive is damaged, or does not have what is needed.
    pub(super) async fn hold(
        &mut self,
        dir: &Path,
        has_baseline: bool,
    ) -> Result<(), RebuildError> {
        let holds = self.set_holds().await?;
        let archive = open(dir).await?;
        self.check(&archive, has_baseline, Some(&holds))?;
        self.replay("reading the end of the archive", &archive, Some(&holds))
            .await
    }

    /// Lets logs keep what is not archived. Returns the first such offset of each.
    ///
    /// # Errors
    /// Counted entries are not archived.
    pub(super) async fn set_holds(&mut self) -> Result<BTreeMap<Partition, u64>, RebuildError> {
        let holds = state::set_holds(&self.store).await?;
        let missing = holds.iter().find(|(_, hold)| hold.is_none());
        if let Some((partition, _)) = missing {
            return Err(RebuildError::Refused(format!(
                "nothing of partition {partition} is archived: start a consumer with log.archive.dir"
            )));
        }
        let holds = holds.into_iter().filter_map(|(p, hold)| Some((p, hold?)));
        let holds: BTreeMap<Partition, u64> = holds.collect();
        self.observer.holds = holds.clone().into_iter().collect();
        Ok(holds)
    }

    /// Checks that the archive has all entries from the offsets of the shadows on.
    fn check(
        &self,
        archive: &Archive,
        has_baseline: bool,
        until: Option<&BTreeMap<Partition, u64>>,
    ) -> Result<(), RebuildError> {
        for partition in 0..self.store.keys().partitions() {
            let from = self.shadows.next(partition);
            let coverage = archive.coverage.get(&partition);
            let end = coverage.map_or(1, |coverage| coverage.end());
            let until = until.map_or(end, |until| until.get(&partition).copied().unwrap_or(1));
            let first = coverage.and_then(|coverage| coverage.ranges.first());
            if let Some((first, _)) = first
                && *first > from
                && !has_baseline
                && until > from
            {
                return Err(RebuildError::Refused(format!(
                    "the archive of partition {partition} begins at offset {first}: entries before it are lost, so --from BASELINE is needed"
                )));
            }
            match coverage {
                Some(coverage) if until > from => {
                    coverage.check_range(partition, (from, until))?;
                }
                None if until > from => {
                    return Err(RebuildError::Refused(format!(
                        "the archive has nothing of partition {partition}: is it the directory of log.archive.dir?"
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Replays the entries of the archive from the offsets of the shadows on, up to these offsets.
    async fn replay(
        &mut self,
        step: &str,
        archive: &Arc<Archive>,
        until: Option<&BTreeMap<Partition, u64>>,
    ) -> Result<(), RebuildError> {
        let total: u64 = archive.lines().iter().map(|line| line.entries).sum();
        let mut done = 0;
        let read = |at: usize| {
            let archive = Arc::clone(archive);
            spawn_blocking(move || archive.read(at))
        };
        let mut following = (!archive.is_empty()).then(|| read(0));
        for at in 0..archive.len() {
            let Some(chunk) = following.take() else {
                break;
            };
            // The next chunk is decompressed meanwhile.
            following = (at + 1 < archive.len()).then(|| read(at + 1));
            let records = chunk.await.map_err(panicked)??;
            self.replay_records(&records, until).await?;
            done += archive.lines()[at].entries;
            self.progress
                .update(&Update::new(step, done, "entries").of(total));
            self.beat().await?;
        }
        Ok(())
    }

    async fn replay_records(
        &mut self,
        records: &[Record],
        until: Option<&BTreeMap<Partition, u64>>,
    ) -> Result<(), RebuildError> {
        let mut additions = Additions::default();
        for record in records {
            let (partition, offset) = (record.partition, record.entry.offset);
            let end = until.map_or(Some(u64::MAX), |until| until.get(&partition).copied());
            if offset < self.shadows.next(partition) || Some(offset) >= end {
                continue;
            }
            self.observer.add(&mut additions, record).await?;
            additions.next.insert(partition, offset + 1);
            self.report.replayed += 1;
            if additions.entities.len() >= ENTITIES {
                self.shadows.add(std::mem::take(&mut additions)).await?;
            }
        }
        self.shadows.add(additions).await
    }
}

/// Opens an archive.
async fn open(dir: &Path) -> Result<Arc<Archive>, RebuildError> {
    let dir = dir.to_owned();
    let opened = tokio::task::spawn_blocking(move || {
        let archive = Archive::open(&dir)?;
        Ok::<_, ArchiveError>(Arc::new(archive))
    });
    Ok(opened.await.map_err(panicked)??)
}
