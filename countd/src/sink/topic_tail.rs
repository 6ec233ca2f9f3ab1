//! Reads the counted records of the topic, from the offsets of the sink on.
//!
//! Events that are counted from streams are in the topic, too, and are skipped: the sink reads the streams. Records that are not counted yet wait
//! in memory, because their counters do not include them.

use super::changes::Changes;
use super::error::SinkError;
use super::tables::Tables;
use crate::consumer::{DecodedEntry, decode_record, load_topic_offsets};
use crate::domain::config::Config;
use crate::domain::keys::Partition;
use crate::log::kafka::{Reader, ReaderError, Records, Topic, TopicError, Watermarks};
use crate::redis::store::Store;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The maximum number of records that wait. Beyond it, no more are read until some are counted.
const MAX_WAITING: usize = 50_000;
/// The maximum size of the records of a read, in bytes.
const MAX_BYTES: usize = 8 << 20;

/// The topic as a sink reads it.
pub struct TopicTail {
    config: Arc<Config>,
    store: Store,
    reader: Reader,
    /// The memory of the records of a read, for the next one.
    records: Records,
    logs: BTreeMap<u16, TopicLog>,
    /// The partition whose records are written first.
    first: u16,
}

/// A partition of the topic.
struct TopicLog {
    /// The offset of the first record that is not written.
    offset: u64,
    /// The offset of the next record to read.
    next: u64,
    waiting: VecDeque<WaitingRecord>,
}

/// A record that was read.
struct WaitingRecord {
    offset: u64,
    /// The partition of the data that counts it.
    partition: Partition,
    decoded: DecodedEntry,
}

/// What was read of the topic.
#[derive(Default)]
pub struct TopicEntries {
    /// The new offsets of the partitions whose records were read and are counted.
    pub next: BTreeMap<u16, u64>,
    /// Whether records were removed before they were read.
    pub has_lost: bool,
    /// The consumer lag behind the counted records, before this read. An upper bound: forwarded records are included.
    pub lag: u64,
}

impl TopicLog {
    /// A partition that is read from an offset on.
    fn at(offset: u64) -> TopicLog {
        TopicLog {
            offset,
            next: offset,
            waiting: VecDeque::new(),
        }
    }

    /// The first record, if it is counted.
    fn pop(&mut self, positions: &[Option<u64>]) -> Option<DecodedEntry> {
        let first = self.waiting.front()?;
        let position = positions.get(usize::from(first.partition)).copied()??;
        match first.offset < position {
            true => self.waiting.pop_front().map(|record| record.decoded),
            false => None,
        }
    }

    /// The offset of the first record that is not counted, or has not been read.
    fn end(&self) -> u64 {
        self.waiting.front().map_or(self.next, |first| first.offset)
    }
}

impl TopicTail {
    /// Reads the topic from these offsets on. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// librdkafka rejects a setting.
    pub fn new(
        config: Arc<Config>,
        (store, topic): (Store, Topic),
        offsets: &BTreeMap<u16, u64>,
    ) -> Result<TopicTail, TopicError> {
        let (watermarks, _) = Watermarks::watch(topic.clone())?;
        let logs = offsets.iter();
        Ok(TopicTail {
            config,
            store,
            logs: logs
                .map(|(p, offset)| (*p, TopicLog::at(*offset)))
                .collect(),
            reader: Reader::new(topic, watermarks)?,
            records: Records::default(),
            first: 0,
        })
    }

    /// Identifies the topic.
    pub fn name(&self) -> String {
        let identity = self.reader.topic().identity();
        let id = identity.id.as_deref().unwrap_or_default();
        format!("{} {id}", identity.name)
    }

    /// Whether the offsets of all partitions are known.
    pub fn is_complete(&self) -> bool {
        self.logs.len() == usize::from(self.reader.topic().identity().partitions)
    }

    /// The offsets of the first records that are not written.
    pub fn offsets(&self) -> impl Iterator<Item = (u16, u64)> {
        self.logs.iter().map(|(p, log)| (*p, log.offset))
    }

    /// Continues at the first records that are not counted. All that is counted now is found by a pass.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn restart(&mut self) -> Result<(), SinkError> {
        let (positions, watermarks) = (self.positions().await?, self.reader.watermarks().clone());
        let identity = self.reader.topic().identity();
        self.logs.clear();
        for (partition, position) in (0..).zip(positions) {
            // A damaged position stays where it is.
            let Some(position) = position else { continue };
            let partition = identity.partition_of(partition);
            // Records that were removed before they were counted will never be.
            let first = watermarks
                .bounds
                .get(&partition)
                .map_or(0, |(first, _)| *first);
            let offset = position.max(first);
            let log = self.logs.entry(partition);
            let log = log.or_insert_with(|| TopicLog::at(offset));
            if offset < log.offset {
                *log = TopicLog::at(offset);
            }
        }
        Ok(())
    }

    /// Adds what up to about `limit` counted records name to `changes`.
    ///
    /// # Errors
    /// Redis is unavailable, or the topic cannot be read: it is not that of the data, or ends before an offset.
    pub async fn read(
        &mut self,
        tables: &Tables,
        limit: usize,
        changes: &mut Changes,
    ) -> Result<TopicEntries, SinkError> {
        let mut read = TopicEntries::default();
        if let Some(refusal) = self.reader.watermarks().refusal.clone() {
            return Err(TopicError::Data(refusal).into());
        }
        read.has_lost = !self.receive(limit)?;
        if read.has_lost {
            return Ok(read);
        }
        // Records that are counted were read before, so all that their counters include is read from Redis later.
        let positions = self.positions().await?;
        let mut left = limit;
        let (logs, first) = (&mut self.logs, self.first);
        let (low, high): (Vec<_>, Vec<_>) = logs.iter_mut().partition(|(p, _)| **p < first);
        // Each partition has its turn, also if there is more than can be written at once.
        for (partition, log) in high.into_iter().chain(low) {
            while left > 0
                && let Some(decoded) = log.pop(&positions)
            {
                changes.add_decoded(tables, decoded);
                left -= 1;
                self.first = partition.wrapping_add(1);
            }
            let end = log.end();
            if end > log.offset {
                read.next.insert(*partition, end);
            }
        }
        read.lag = self.lag(&positions);
        Ok(read)
    }

    /// The changes of the records before these offsets are written.
    pub fn advance(&mut self, next: &BTreeMap<u16, u64>) {
        for (partition, next) in next {
            if let Some(log) = self.logs.get_mut(partition) {
                log.offset = *next;
            }
        }
    }

    /// Reads records. Returns false if records were removed before they were read.
    fn receive(&mut self, limit: usize) -> Result<bool, TopicError> {
        let mut from = BTreeMap::new();
        for (partition, log) in &self.logs {
            match self.reader.check(*partition, log.next) {
                // Not before the first look at the topic.
                None => return Ok(true),
                Some(Ok(())) => drop(from.insert(*partition, log.next)),
                Some(Err(ReaderError::Lost { .. })) => return Ok(false),
                Some(Err(ReaderError::Truncated { end })) => {
                    let problem = format!(
                        "partition {partition} of the topic ends at offset {end}, before the offset {} of the sink: it was created again, or has lost records",
                        log.next
                    );
                    return Err(TopicError::Data(problem));
                }
            }
        }
        self.reader.assign(&from)?;
        let waiting: usize = self.logs.values().map(|log| log.waiting.len()).sum();
        if waiting >= MAX_WAITING {
            return Ok(true);
        }
        self.reader.take(&mut self.records, limit, MAX_BYTES);
        let (keys, partitions) = (self.store.keys(), self.reader.topic().identity().partitions);
        for record in self.records.iter() {
            let Some(log) = self.logs.get_mut(&record.topic_partition) else {
                continue;
            };
            log.next = record.offset + 1;
            if record.is_copy {
                continue;
            }
            let origin = record.origin(keys, partitions);
            let partition = origin.partition();
            let (_, decoded) = decode_record(record, origin.misplaced(), &self.config);
            log.waiting.push_back(WaitingRecord {
                offset: record.offset,
                partition,
                decoded,
            });
        }
        self.records.clear();
        Ok(true)
    }

    /// The positions of all partitions of the data in the topic.
    async fn positions(&self) -> Result<Vec<Option<u64>>, SinkError> {
        let all: Vec<Partition> = (0..self.store.keys().partitions()).collect();
        Ok(load_topic_offsets(&self.store, &all).await?)
    }

    fn lag(&self, positions: &[Option<u64>]) -> u64 {
        let identity = self.reader.topic().identity();
        let mut counted: BTreeMap<u16, u64> = BTreeMap::new();
        for (partition, position) in (0..).zip(positions) {
            let most = counted.entry(identity.partition_of(partition)).or_default();
            *most = (*most).max(position.unwrap_or(0));
        }
        let logs = self.logs.iter();
        let left = logs.map(|(p, log)| {
            let counted = counted.get(p).copied().unwrap_or(0);
            counted.saturating_sub(log.offset)
        });
        left.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_taken_in_order_once_they_are_counted() {
        let mut log = TopicLog::at(5);
        assert_eq!(log.end(), 5);
        for (offset, partition) in [(5, 0), (7, 1), (8, 0)] {
            log.waiting.push_back(WaitingRecord {
                offset,
                partition,
                decoded: DecodedEntry::Skipped,
            });
        }
        log.next = 10;
        assert!(log.pop(&[Some(5), Some(9)]).is_none(), "not counted");
        assert!(log.pop(&[Some(6), Some(7)]).is_some());
        assert_eq!(log.end(), 7);
        assert!(
            log.pop(&[Some(9), Some(7)]).is_none(),
            "the one before is not"
        );
        assert!(
            log.pop(&[Some(9), None]).is_none(),
            "the position is damaged"
        );
        assert!(log.pop(&[Some(9), Some(8)]).is_some());
        assert!(log.pop(&[Some(9), Some(8)]).is_some());
        // What follows are copies.
        assert_eq!(log.end(), 10);
    }
}
