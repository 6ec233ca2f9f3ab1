//! The topic of a worker: reads records beside the entries of streams, and counts them with positions of their own.
//!
//! A partition of the topic has the records of several partitions of the data, each with its position. Reading begins at the smallest of
//! them, and records below a partition's own position are skipped. A worker remembers up to which offset it has seen all records of each
//! of its partitions. If some of what it has accumulated was dropped, the next poll finds that the partition is behind, and seeks back.

use super::super::topic_lag::WatchedTopic;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::kafka::{Reader, Records};
use crate::log::{EventLog, PartitionEntries, Streams};
use crate::redis::layout::Truncation;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// The maximum number of records of a read.
const MAX_RECORDS: usize = 16_384;
/// The maximum size of the records of a read, in bytes.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Which records of a partition a worker has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The offset after the last record that is accumulated, or the position.
    pub next: u64,
    /// All records before this offset are accumulated or committed.
    pub until: u64,
}

impl Seen {
    /// All records before an offset, and none after it.
    pub fn at(next: u64) -> Seen {
        Seen { next, until: next }
    }

    /// Follows what is accumulated or committed now.
    pub fn follow(&mut self, next: u64) {
        if next < self.next {
            // What was accumulated was dropped, or Redis was set back.
            *self = Seen::at(next);
        } else {
            // Another consumer may have committed more.
            self.next = next;
            self.until = self.until.max(next);
        }
    }
}

/// A read of streams under way: it may wait, while records of the topic arrive.
struct StreamRead {
    offsets: BTreeMap<Partition, u64>,
    /// The number of times that positions were loaded before. What was read before a later time is of another history.
    generation: u64,
    task: JoinHandle<(Streams, Result<Vec<PartitionEntries>, StoreError>)>,
}

/// The topic of a worker.
pub struct WorkerTopic {
    pub(super) watched: WatchedTopic,
    pub(super) worker: usize,
    pub(super) reader: Option<Reader>,
    /// What reads the streams, unless a read is under way.
    streams: Option<Streams>,
    reading: Option<StreamRead>,
    generation: u64,
    pub(super) seen: BTreeMap<Partition, Seen>,
    /// The partitions of which the reader has not passed any record that was not seen.
    pub(super) readable: BTreeSet<Partition>,
    pub(super) advanced_at: Instant,
    pub(super) has_caught_up: bool,
    /// The memory of the records of a read, for the next one.
    pub(super) spare: Records,
    /// Partitions of the topic that end before a position, until the layout says so.
    pub(super) truncations: Vec<Truncation>,
}

/// What a poll has read.
pub(super) struct Reads {
    /// The entries of streams, and the offsets from which they were read.
    pub streams: Vec<PartitionEntries>,
    pub offsets: BTreeMap<Partition, u64>,
    /// Whether a read of streams has ended.
    pub has_streams: bool,
    pub records: Records,
    /// Whether there are no more records.
    pub is_end: bool,
}

impl WorkerTopic {
    /// The topic of the worker with this number. `streams` reads its streams.
    pub fn new(watched: WatchedTopic, worker: usize, streams: Streams) -> WorkerTopic {
        WorkerTopic {
            watched,
            worker,
            reader: None,
            streams: Some(streams),
            reading: None,
            generation: 0,
            seen: BTreeMap::new(),
            readable: BTreeSet::new(),
            advanced_at: Instant::now(),
            has_caught_up: false,
            spare: Records::default(),
            truncations: Vec::new(),
        }
    }

    /// Forgets the read of streams that is under way: positions were loaded after it began.
    pub fn forget_reads(&mut self) {
        self.generation += 1;
    }

    /// Ends reading: the worker has no partitions.
    pub fn release(&mut self) {
        self.reader = None;
        self.seen.clear();
        self.readable.clear();
        self.watched.record(self.worker, std::iter::empty());
    }

    /// The partition of the topic that has the records of a partition.
    pub(super) fn partition_of(&self, partition: Partition) -> u16 {
        self.watched.topic().identity().partition_of(partition)
    }

    /// Begins a read of streams, unless one is under way.
    pub(super) fn begin_read(
        &mut self,
        offsets: &BTreeMap<Partition, u64>,
        limit: usize,
        wait: Duration,
    ) {
        let Some(mut streams) = self.streams.take() else {
            return;
        };
        let from: Vec<(Partition, u64)> = offsets.iter().map(|(p, next)| (*p, *next)).collect();
        let task = tokio::spawn(async move {
            let read = streams.read(&from, limit, wait).await;
            (streams, read)
        });
        self.reading = Some(StreamRead {
            offsets: offsets.clone(),
            generation: self.generation,
            task,
        });
    }

    /// Waits for entries of streams or records, and takes what has arrived.
    pub(super) async fn read(&mut self, wait: Duration) -> Result<Reads, StoreError> {
        let mut reads = Reads {
            streams: Vec::new(),
            offsets: BTreeMap::new(),
            has_streams: false,
            records: Records::default(),
            is_end: true,
        };
        let reader = &mut self.reader;
        let arrival = async {
            match reader {
                Some(reader) => reader.wait(wait).await,
                None => tokio::time::sleep(wait).await,
            }
        };
        let ended = match &mut self.reading {
            Some(reading) => tokio::select! {
                biased;
                ended = &mut reading.task => Some(ended),
                () = arrival => None,
            },
            None => {
                arrival.await;
                None
            }
        };
        // A task that ends only now is awaited by the next call, which gets back what it reads with.
        if let Some(ended) = ended
            && let Some(reading) = self.reading.take()
        {
            let (streams, read) = match ended {
                Ok(ended) => ended,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(error) => {
                        let reason = format!("a read of streams: {error}");
                        return Err(StoreError::Unexpected(reason));
                    }
                },
            };
            self.streams = Some(streams);
            let entries = read?;
            reads.has_streams = true;
            if reading.generation == self.generation {
                (reads.streams, reads.offsets) = (entries, reading.offsets);
            }
        }
        if let Some(reader) = &mut self.reader {
            reads.records = std::mem::take(&mut self.spare);
            reads.is_end = reader.take(&mut reads.records, MAX_RECORDS, MAX_BYTES);
        }
        Ok(reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dropped_is_seen_again_and_what_others_have_committed_is_not() {
        let mut seen = Seen {
            next: 10,
            until: 50,
        };
        // A commit of an idle partition, or of another consumer within what was seen.
        seen.follow(30);
        assert_eq!((seen.next, seen.until), (30, 50));
        // Another consumer is ahead.
        seen.follow(60);
        assert_eq!((seen.next, seen.until), (60, 60));
        // A batch was dropped.
        seen.follow(20);
        assert_eq!(seen, Seen::at(20));
    }
}
