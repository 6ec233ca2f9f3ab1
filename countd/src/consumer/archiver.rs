//! Archives counted entries of the partitions of this process, and trims their logs.
//!
//! The archiver follows the positions: it reads what was counted from the logs, which keep it until it is archived. If it cannot write, the
//! logs grow and counting goes on. After a crash the next owner of a partition continues where the archived offset is.

use super::assignment::AssignedPartitions;
use super::backoff::Backoff;
use super::position::load_next_offsets;
use super::untrimmed::UntrimmedLogs;
use crate::domain::config::Config;
use crate::domain::error::StoreError;
use crate::domain::health::Health;
use crate::domain::keys::Partition;
use crate::log::Streams;
use crate::log::archive::{self, ArchiveError, ArchivedRange, Chunk, Index, OffsetRange};
use crate::log::archive::{ArchiveGuard, Outcome, Record, Segment};
use crate::redis::store::Store;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["HGETALL {outcomes}", "HSETNX {archived} 0 1"];

/// The maximum size of the payloads of a chunk in bytes, and of a read.
const MAX_CHUNK_BYTES: usize = 8 << 20;
/// The maximum number of entries of a read of a partition.
const MAX_READ: usize = 10_000;

/// The archiver of a process.
pub(super) struct Archiver {
    store: Store,
    config: Arc<Config>,
    health: Health,
    log: Streams,
    index: Index,
    guard: ArchiveGuard,
    segment: Option<Segment>,
    untrimmed: UntrimmedLogs,
}

impl Archiver {
    pub(super) fn new(store: Store, config: Arc<Config>, health: Health, dir: PathBuf) -> Archiver {
        Archiver {
            log: Streams::new(store.clone(), &config),
            index: Index::of(&dir),
            guard: ArchiveGuard::new(store.clone(), &dir),
            segment: None,
            untrimmed: UntrimmedLogs::new(&config),
            store,
            config,
            health,
        }
    }

    /// Archives until `stop` turns true, and then once more.
    pub(super) async fn run(
        mut self,
        assigned: AssignedPartitions,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut backoff = Backoff::new();
        let interval = Duration::from_millis(self.config.log.archive.flush_ms);
        loop {
            let is_last = *stop.borrow();
            let partitions = Arc::clone(&assigned.borrow());
            let mut delay = interval;
            match self.archive(&partitions).await {
                Ok(is_complete) => {
                    backoff.reset();
                    metrics::gauge!("countd_archive_failed").set(0.0);
                    self.health.set_archive_problem(None);
                    if !is_complete {
                        delay = Duration::ZERO;
                    }
                }
                Err(error) => {
                    delay = backoff.next_delay();
                    metrics::gauge!("countd_archive_failed").set(1.0);
                    self.health.set_archive_problem(Some(error.to_string()));
                    tracing::warn!(%error, "cannot archive; the logs keep the entries");
                    self.segment = None;
                    if is_last {
                        return;
                    }
                }
            }
            if is_last && !delay.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = stop.wait_for(|stop| *stop), if !is_last => {}
            }
        }
    }

    /// Archives what was counted. Returns whether nothing is left.
    async fn archive(&mut self, partitions: &[Partition]) -> Result<bool, ArchiveError> {
        let waiting = self.waiting(partitions).await?;
        self.guard.keep().await?;
        let mut is_complete = true;
        let (mut chunk, mut bytes) = (Chunk::default(), 0);
        for (partition, from, position) in waiting {
            // A chunk holds a partition once.
            let (range, records) = self.read(partition, (from, position)).await?;
            is_complete &= range.next == position;
            let payloads = records.iter().map(|record| record.entry.payload.len());
            bytes += payloads.sum::<usize>();
            chunk.ranges.push(range);
            chunk.records.extend(records);
            if bytes >= MAX_CHUNK_BYTES {
                bytes = 0;
                is_complete &= self.append(std::mem::take(&mut chunk)).await?;
            }
        }
        if !chunk.ranges.is_empty() {
            is_complete &= self.append(chunk).await?;
        }
        self.trim().await?;
        Ok(is_complete)
    }

    /// The partitions with counted entries that are not archived: the first such offset, and the position.
    async fn waiting(
        &mut self,
        partitions: &[Partition],
    ) -> Result<Vec<(Partition, u64, u64)>, StoreError> {
        // Before the positions, so that they are not behind.
        let archived = archive::load(&self.store, partitions).await?;
        let positions = load_next_offsets(&self.store, partitions).await?;
        for (partition, archived) in partitions.iter().zip(&archived) {
            // Redis has lost writes. What the log has at these offsets now is not archived, and must not be trimmed.
            let next = self.untrimmed.next(*partition);
            if next.is_some_and(|next| *archived < Some(next)) {
                self.untrimmed.remove(*partition);
            }
        }
        let mut waiting = Vec::new();
        for ((partition, archived), position) in partitions.iter().zip(archived).zip(positions) {
            let (Some(position), true) = (position, archived != position) else {
                continue;
            };
            let from = match archived {
                Some(archived) => archived,
                None => self.start(*partition, position).await?,
            };
            if from < position {
                waiting.push((*partition, from, position));
            }
        }
        Ok(waiting)
    }

    /// Starts the archive of a partition: at the first entry that its log has, or at its position.
    async fn start(&self, partition: Partition, position: u64) -> Result<u64, StoreError> {
        let limits = (1, usize::MAX);
        let (entries, _) = self.log.read_counted(partition, 1, limits).await?;
        let first = entries.first().map_or(position, |entry| entry.offset);
        let first = first.min(position);
        let key = self.store.keys().archived(partition);
        let mut pipe = redis::pipe();
        pipe.cmd("HSETNX").arg(&key).arg(partition).arg(first);
        let _: Vec<u8> = pipe.query_async(&mut self.store.commands()).await?;
        let started = archive::load(&self.store, &[partition]).await?;
        Ok(started.into_iter().flatten().next().unwrap_or(first))
    }

    /// Reads entries of a partition with their outcomes, up to its position.
    async fn read(
        &self,
        partition: Partition,
        (from, position): (u64, u64),
    ) -> Result<(OffsetRange, Vec<Record>), StoreError> {
        let limits = (MAX_READ, MAX_CHUNK_BYTES);
        let (mut entries, mut is_end) = self.log.read_counted(partition, from, limits).await?;
        if entries.is_empty() && !is_end {
            // The next entry is longer.
            let limits = (1, usize::MAX);
            (entries, is_end) = self.log.read_counted(partition, from, limits).await?;
        }
        is_end |= entries.last().is_some_and(|entry| entry.offset >= position);
        entries.retain(|entry| entry.offset < position);
        let next = match entries.last() {
            Some(last) if !is_end => last.offset + 1,
            _ => position,
        };
        let outcomes = self.outcomes(partition).await?;
        let records = entries.into_iter().map(|entry| Record {
            partition,
            outcome: *outcomes.get(&entry.offset).unwrap_or(&Outcome::Counted),
            entry,
        });
        let range = OffsetRange {
            partition,
            from,
            next,
        };
        Ok((range, records.collect()))
    }

    /// The outcomes of the entries of a partition that were not counted.
    async fn outcomes(&self, partition: Partition) -> Result<HashMap<u64, Outcome>, StoreError> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(self.store.keys().outcomes(partition));
        let stored: HashMap<String, u64> = cmd.query_async(&mut self.store.reads()).await?;
        let unknown = || StoreError::Unexpected("an unknown outcome of an entry".to_owned());
        // Those of a former topic have other fields.
        let stored = stored.into_iter();
        let stored = stored.filter_map(|(field, number)| Some((field.parse().ok()?, number)));
        let outcomes = stored.map(|(offset, number)| {
            let outcome = Outcome::from_number(number).ok_or_else(unknown)?;
            Ok((offset, outcome))
        });
        outcomes.collect()
    }

    /// Archives a chunk. Returns false if other processes were faster for some partitions.
    async fn append(&mut self, chunk: Chunk) -> Result<bool, ArchiveError> {
        let settings = &self.config.log.archive;
        let (dir, level) = (self.index.dir().to_owned(), settings.level);
        let full = settings.segment_bytes;
        let segment = self.segment.take().filter(|segment| segment.len() < full);
        let written = spawn_blocking(move || {
            let mut segment = match segment {
                Some(segment) => segment,
                None => Segment::create(&dir)?,
            };
            let line = segment.append(&chunk, level)?;
            Ok::<_, ArchiveError>((segment, line, chunk))
        });
        let (segment, line, chunk) = written.await.map_err(panicked)??;
        self.segment = Some(segment);
        let index = self.index.clone();
        let lock = spawn_blocking(move || index.lock());
        let lock = lock.await.map_err(panicked)??;
        // While the index is locked, no other process archives. A chunk that another process has overtaken must not get a line: the line
        // would replace what is archived.
        let partitions: Vec<Partition> = chunk.ranges.iter().map(|r| r.partition).collect();
        let archived = archive::load(&self.store, &partitions).await?;
        let is_next = chunk.ranges.iter().zip(archived);
        if !is_next
            .into_iter()
            .all(|(range, archived)| archived == Some(range.from))
        {
            tracing::debug!("another process has archived these entries");
            return Ok(false);
        }
        if !self.guard.permits(&partitions).await? {
            tracing::warn!("Redis has lost writes; the archive is checked");
            self.untrimmed.retain(&[]);
            return Ok(false);
        }
        if !self.segment.as_ref().is_some_and(Segment::exists) {
            tracing::debug!("the segment was pruned");
            self.segment = None;
            return Ok(false);
        }
        let ranges = archived_ranges(&chunk);
        let index = self.index.clone();
        let appended = spawn_blocking(move || {
            index.append(&lock, &line)?;
            Ok::<_, ArchiveError>(lock)
        });
        let lock = appended.await.map_err(panicked)??;
        let advanced = archive::advance(&self.store, &ranges).await?;
        drop(lock);
        metrics::counter!("countd_archived_entries_total").increment(chunk.records.len() as u64);
        let mut sizes: HashMap<Partition, (u64, u64)> = HashMap::new();
        for record in &chunk.records {
            let (entries, bytes) = sizes.entry(record.partition).or_default();
            *entries += 1;
            *bytes += record.entry.size as u64;
        }
        for (range, is_advanced) in ranges.iter().zip(&advanced) {
            if *is_advanced {
                let size = sizes.remove(&range.partition).unwrap_or_default();
                self.untrimmed.add(range.partition, range.next, size);
            }
        }
        Ok(advanced.into_iter().all(|is_advanced| is_advanced))
    }

    /// Trims logs up to what is archived.
    async fn trim(&mut self) -> Result<(), StoreError> {
        self.untrimmed.trim(&self.store, &self.log).await
    }
}

/// What Redis records of a chunk.
fn archived_ranges(chunk: &Chunk) -> Vec<ArchivedRange> {
    let mut last: HashMap<Partition, &Record> = HashMap::new();
    for record in &chunk.records {
        last.insert(record.partition, record);
    }
    let ranges = chunk.ranges.iter().map(|range| ArchivedRange {
        partition: range.partition,
        from: range.from,
        next: range.next,
        last: last
            .get(&range.partition)
            .map(|record| record.entry.clone()),
    });
    ranges.collect()
}

fn panicked(error: tokio::task::JoinError) -> ArchiveError {
    ArchiveError::Store(StoreError::Unexpected(format!("the archiver: {error}")))
}
