//! One poll of a worker that reads the topic beside streams.

use super::super::batch::{PositionUpdate, TopicUpdate};
use super::super::decoder::DecodedEntry;
use super::super::records::decode_record;
use super::poll::{EntrySource, MAX_ADDED, READ_TIMEOUT};
use super::state::Worker;
use super::topic::Seen;
use crate::domain::error::StoreError;
use crate::domain::health::PartitionPart;
use crate::domain::keys::Partition;
use crate::log::LogEntry;
use crate::log::kafka::Records;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often the positions of partitions without records advance while the worker has read everything.
const ADVANCE_INTERVAL: Duration = Duration::from_secs(2);
/// The same while it has not.
const ADVANCE_INTERVAL_UNDER_LOAD: Duration = Duration::from_secs(30);

impl Worker {
    /// Reads streams and the topic once, and flushes the accumulator if it is due. Returns the delay before the next poll.
    pub(super) async fn poll_both(
        &mut self,
        offsets: &BTreeMap<Partition, u64>,
        wait: Duration,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Duration, StoreError> {
        if let Err(error) = self.assign_topic() {
            tracing::warn!(%error, "the topic cannot be read");
        }
        self.record_truncations().await?;
        let limit = self.read_limit.get();
        let Some(topic) = &mut self.topic else {
            return Ok(READ_TIMEOUT);
        };
        topic.begin_read(offsets, limit, READ_TIMEOUT);
        let mut reads = tokio::select! {
            reads = topic.read(wait) => reads?,
            _ = stop.wait_for(|stop| *stop) => return Ok(Duration::ZERO),
        };
        topic.has_caught_up = reads.is_end;
        let is_idle = reads.streams.is_empty() && reads.records.is_empty();
        let is_caught_up = match reads.has_streams {
            true => self.read_limit.adapt(&reads.streams, self.partitions.len()),
            // The streams have nothing new.
            false => true,
        };
        let is_caught_up = is_caught_up && reads.is_end;
        self.has_caught_up |= is_caught_up;
        let is_blocked = self.renumber_foreign_ids(&reads.streams).await;
        self.aggregate(reads.streams, &reads.offsets).await?;
        self.add_topic(&reads.records).await?;
        if let Some(topic) = &mut self.topic {
            reads.records.clear();
            topic.spare = reads.records;
        }
        self.advance_idle(false);
        self.flush_if_due(is_idle).await?;
        self.record_progress();
        Ok(match is_blocked && reads.is_end {
            true => READ_TIMEOUT,
            false => self.next_delay(false, is_caught_up),
        })
    }

    /// The offset in the topic after the accumulated records of a partition, or its position. `None` if the worker does not own it.
    pub(super) fn next_topic_offset(&self, partition: Partition) -> Option<u64> {
        let position = self.partitions.position(partition)?;
        let accumulated = self.accumulator.next_topic_offset(partition);
        Some(accumulated.unwrap_or(position.topic))
    }

    /// Whether the records of a partition must not be counted now.
    pub(super) fn is_topic_blocked(&self, partition: Partition) -> bool {
        self.blocked.is_paused(partition)
            || self
                .health
                .has_failed(partition, PartitionPart::DeadLetters)
    }

    /// Adds records to the accumulator.
    async fn add_topic(&mut self, records: &Records) -> Result<(), StoreError> {
        let Some(topic) = &self.topic else {
            return Ok(());
        };
        let (keys, count) = (
            self.store.keys(),
            topic.watched.topic().identity().partitions,
        );
        // By partition, in their order.
        let mut order: Vec<(Partition, usize)> = Vec::with_capacity(records.len());
        for (at, record) in records.iter().enumerate() {
            // Streams have what was copied from them.
            if !record.is_copy {
                order.push((record.origin(keys, count).partition(), at));
            }
        }
        order.sort_unstable();
        // Those that were not added completely.
        let mut left = BTreeSet::new();
        for places in order.chunk_by(|(one, _), (other, _)| one == other) {
            let (Some((partition, _)), Some(topic)) = (places.first().copied(), &self.topic) else {
                continue;
            };
            let seen = topic.seen.get(&partition);
            let Some(seen) = seen.filter(|_| topic.readable.contains(&partition)) else {
                continue;
            };
            let is_seen = |(_, at): &(Partition, usize)| {
                let record = records.get(*at);
                record.is_some_and(|record| record.offset < seen.until)
            };
            let places = &places[places.partition_point(is_seen)..];
            if places.is_empty() {
                continue;
            }
            if self.is_topic_blocked(partition) {
                left.insert(partition);
                continue;
            }
            for places in places.chunks(MAX_ADDED) {
                let decode = |(_, at): &(Partition, usize)| {
                    let record = records.get(*at)?;
                    let misplaced = record.origin(keys, count).misplaced();
                    Some(decode_record(record, misplaced, &self.catalog.config))
                };
                let (entries, decoded) = places.iter().filter_map(decode).unzip();
                if !self.add_records(partition, entries, decoded).await? {
                    left.insert(partition);
                    break;
                }
            }
        }
        let Some(topic) = &mut self.topic else {
            return Ok(());
        };
        let Some(reader) = &topic.reader else {
            return Ok(());
        };
        for (partition, seen) in &mut topic.seen {
            if left.contains(partition) || !topic.readable.contains(partition) {
                continue;
            }
            let of_topic = topic.watched.topic().identity().partition_of(*partition);
            if let Some(next) = reader.next(of_topic) {
                seen.until = seen.until.max(next);
            }
        }
        Ok(())
    }

    /// Adds records of a partition. Returns false if not all of them were added, so that they have to be read again: those before were
    /// dropped, or one of them is held.
    async fn add_records(
        &mut self,
        partition: Partition,
        entries: Vec<LogEntry>,
        decoded: Vec<DecodedEntry>,
    ) -> Result<bool, StoreError> {
        let next = self.next_topic_offset(partition);
        let seen = |worker: &Worker| {
            let topic = worker.topic.as_ref()?;
            topic.seen.get(&partition).copied()
        };
        // Committed alone, they would advance the position past what was dropped.
        if next.is_none() || next != seen(self).map(|seen| seen.next) {
            return Ok(false);
        }
        let Some(last) = entries.last().map(|entry| entry.offset) else {
            return Ok(true);
        };
        self.add_decoded((partition, EntrySource::Topic), entries, decoded)
            .await?;
        let next = self.next_topic_offset(partition);
        let is_complete = next == Some(last + 1);
        if let (Some(topic), Some(next)) = (&mut self.topic, next) {
            topic.seen.insert(partition, Seen::at(next));
        }
        Ok(is_complete)
    }

    /// Adds updates of positions in the topic to the accumulator, for partitions whose position is behind what was seen: the smallest
    /// position decides where reading begins. Does so at intervals, or now.
    pub(super) fn advance_idle(&mut self, now: bool) {
        let Some(topic) = &mut self.topic else {
            return;
        };
        let interval = match topic.has_caught_up {
            true => ADVANCE_INTERVAL,
            false => ADVANCE_INTERVAL_UNDER_LOAD,
        };
        if !now && topic.advanced_at.elapsed() < interval {
            return;
        }
        topic.advanced_at = Instant::now();
        let behind: Vec<(Partition, Seen)> = topic
            .seen
            .iter()
            .filter(|(_, seen)| seen.until > seen.next)
            .map(|(partition, seen)| (*partition, *seen))
            .collect();
        let mut advanced = Vec::new();
        for (partition, seen) in behind {
            if self.is_topic_blocked(partition)
                || self.next_topic_offset(partition) != Some(seen.next)
            {
                continue;
            }
            let Some(position) = self.partitions.position(partition) else {
                continue;
            };
            let positions = &mut self.accumulator.group_mut(partition).batch.positions;
            let update = positions.entry(partition);
            let update = update.or_insert_with(|| PositionUpdate::at(position));
            let from = update.topic.map_or(position.topic, |topic| topic.from);
            update.topic = Some(TopicUpdate {
                from,
                next: seen.until,
            });
            advanced.push((partition, seen.until));
        }
        if let Some(topic) = &mut self.topic {
            for (partition, until) in advanced {
                topic.seen.insert(partition, Seen::at(until));
            }
        }
    }

    /// Records how far the partitions of the topic are counted, for the lag.
    fn record_progress(&self) {
        let Some(topic) = &self.topic else {
            return;
        };
        let mut counted: BTreeMap<u16, u64> = BTreeMap::new();
        for (partition, seen) in &topic.seen {
            // What is accumulated is not counted yet.
            let pending = self.accumulator.next_topic_offset(*partition);
            let position = self.partitions.position(*partition);
            let counted_until = match (pending, position) {
                (Some(_), Some(position)) => position.topic,
                _ => seen.until,
            };
            let least = counted.entry(topic.partition_of(*partition));
            let least = least.or_insert(counted_until);
            *least = (*least).min(counted_until);
        }
        topic.watched.record(topic.worker, counted.into_iter());
    }
}
