//! The topic as a rebuild reads it: records that count from the topic are kept in memory from the offsets of the shadows on, until they are
//! a part of the shadows.

use super::changes::{Change, Changes};
use super::error::RebuildError;
use crate::domain::keys::{Keys, Partition};
use crate::log::archive::{Outcome, Record};
use crate::log::kafka::{Origin, Scanned, Scanner, Topic, TopicError};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// How long the topic may have no record that it has to have.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a record of the topic changes if it is counted.
pub struct TailRecord {
    /// Its offset.
    pub offset: u64,
    /// The changes.
    pub changes: Vec<Change>,
}

/// The topic from the offsets of the shadows on.
pub struct TopicSource {
    scanner: Scanner,
    keys: Keys,
    tails: BTreeMap<Partition, VecDeque<TailRecord>>,
    /// The number of records in the tails.
    len: usize,
    /// When the last record arrived.
    progressed: Instant,
}

impl TopicSource {
    /// A source that reads nothing yet.
    ///
    /// # Errors
    /// librdkafka rejects a setting.
    pub fn new(topic: &Topic) -> Result<TopicSource, RebuildError> {
        Ok(TopicSource {
            scanner: Scanner::new(topic.clone())?,
            keys: topic.keys(),
            tails: BTreeMap::new(),
            len: 0,
            progressed: Instant::now(),
        })
    }

    /// The topic.
    pub fn topic(&self) -> &Topic {
        self.scanner.topic()
    }

    /// The partition of the topic with the records of a partition.
    pub fn partition_of(&self, partition: Partition) -> u16 {
        self.topic().identity().partition_of(partition)
    }

    /// Reads from these offsets on, without what was read before.
    pub fn begin(&mut self, from: BTreeMap<u16, u64>) -> Result<(), RebuildError> {
        self.tails.clear();
        self.len = 0;
        self.progressed = Instant::now();
        Ok(self.scanner.assign(from)?)
    }

    /// The offset after the last record that was read of a partition of the topic.
    pub fn next(&self, of_topic: u16) -> u64 {
        self.scanner.next(of_topic)
    }

    /// Reads records. Returns none if none arrives for a moment.
    ///
    /// # Errors
    /// The topic has removed records, or none arrives for too long.
    pub async fn read(&mut self) -> Result<Vec<Scanned>, RebuildError> {
        let records = self.scanner.read().await?;
        if !records.is_empty() {
            self.progressed = Instant::now();
        } else if self.progressed.elapsed() >= PATIENCE {
            let problem = "no broker sends the records that the topic should have".to_owned();
            return Err(TopicError::Unavailable(problem).into());
        }
        Ok(records)
    }

    /// Reads a partition up to an offset: the records before it are in its tail then.
    pub async fn read_until(
        &mut self,
        changes: &mut Changes,
        partition: Partition,
        offset: u64,
    ) -> Result<(), RebuildError> {
        let of_topic = self.partition_of(partition);
        self.progressed = Instant::now();
        while self.next(of_topic) < offset {
            for scanned in self.read().await? {
                self.add_to_tail(changes, scanned).await?;
            }
        }
        Ok(())
    }

    /// Adds a record to the tail of its partition, unless it is a copy or changes nothing.
    pub async fn add_to_tail(
        &mut self,
        changes: &mut Changes,
        scanned: Scanned,
    ) -> Result<(), RebuildError> {
        let offset = scanned.record.offset;
        let Some((partition, changes)) = self.changes_of(changes, scanned).await? else {
            return Ok(());
        };
        if !changes.is_empty() {
            let tail = self.tails.entry(partition).or_default();
            tail.push_back(TailRecord { offset, changes });
            self.len += 1;
        }
        Ok(())
    }

    /// The partition of a record, and what it changes if it is counted. `None` for copies, and for records that no partition counts.
    pub async fn changes_of(
        &self,
        changes: &mut Changes,
        scanned: Scanned,
    ) -> Result<Option<(Partition, Vec<Change>)>, RebuildError> {
        let record = scanned.record;
        let count = self.topic().identity().partitions;
        let Origin::Key(partition) = record.as_borrowed().origin(self.keys, count) else {
            return Ok(None);
        };
        if record.is_copy {
            return Ok(None);
        }
        let record = Record {
            partition,
            outcome: Outcome::Counted,
            entry: record.into_entry(),
        };
        Ok(Some((partition, changes.of(&record).await?)))
    }

    /// The records of a partition that have been read, from an offset on and before another.
    pub fn tail(
        &self,
        partition: Partition,
        (from, until): (u64, u64),
    ) -> impl Iterator<Item = &TailRecord> {
        let tail = self.tails.get(&partition).into_iter().flatten();
        tail.skip_while(move |record| record.offset < from)
            .take_while(move |record| record.offset < until)
    }

    /// Forgets records of a partition before an offset: they are a part of its shadows.
    pub fn forget_before(&mut self, partition: Partition, offset: u64) {
        if let Some(tail) = self.tails.get_mut(&partition) {
            let count = tail.partition_point(|record| record.offset < offset);
            tail.drain(..count);
            self.len -= count;
        }
    }

    /// The partition with the longest tail, if all tails have more records than `max` together.
    pub fn longest_tail(&self, max: usize) -> Option<Partition> {
        if self.len <= max {
            return None;
        }
        let longest = self.tails.iter().max_by_key(|(_, tail)| tail.len());
        longest.map(|(partition, _)| *partition)
    }
}
