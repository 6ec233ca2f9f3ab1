//! Which records of the topic a worker reads.

use super::state::Worker;
use super::topic::Seen;
use crate::domain::config::LostRecords;
use crate::domain::error::StoreError;
use crate::domain::health::PartitionPart;
use crate::domain::keys::Partition;
use crate::log::kafka::{Reader, ReaderError, TopicError};
use crate::redis::layout::Truncation;
use std::collections::{BTreeMap, BTreeSet};

impl Worker {
    /// Assigns the partitions of the topic that the worker needs to its reader, each from the first offset that it has not seen.
    pub(super) fn assign_topic(&mut self) -> Result<(), TopicError> {
        let owned: Vec<Partition> = self.partitions.iter().collect();
        let next: Vec<u64> = owned
            .iter()
            .map(|partition| self.next_topic_offset(*partition).unwrap_or(0))
            .collect();
        let blocked: BTreeSet<Partition> = owned
            .iter()
            .copied()
            .filter(|partition| self.is_topic_blocked(*partition))
            .collect();
        let Some(topic) = &mut self.topic else {
            return Ok(());
        };
        topic.seen.retain(|partition, _| {
            // Both are in ascending order.
            owned.binary_search(partition).is_ok()
        });
        let mut from: BTreeMap<u16, u64> = BTreeMap::new();
        for (partition, next) in owned.iter().zip(next) {
            let seen = topic.seen.entry(*partition);
            let seen = seen.or_insert_with(|| Seen::at(next));
            seen.follow(next);
            let until = seen.until;
            if !blocked.contains(partition) {
                let least = from.entry(topic.watched.topic().identity().partition_of(*partition));
                let least = least.or_insert(until);
                *least = (*least).min(until);
            }
        }
        topic.readable.clear();
        let mut reader = match topic.reader.take() {
            Some(reader) => reader,
            None => Reader::new(
                topic.watched.topic().clone(),
                topic.watched.watermarks().clone(),
            )?,
        };
        let refusal = reader.watermarks().refusal.clone();
        // What was recorded stays: new records have got the offsets of counted ones, also if the topic ends after the position by now.
        let layout = self.store.layout();
        let mut failures: BTreeMap<u16, String> = BTreeMap::new();
        let mut skipped: BTreeMap<u16, u64> = BTreeMap::new();
        from.retain(|partition, from| {
            if let Some(refusal) = &refusal {
                failures.insert(*partition, refusal.clone());
                return false;
            }
            let mut recorded = layout.truncations().iter();
            if let Some(truncation) = recorded.find(|of| of.partition == *partition) {
                failures.insert(*partition, truncation.to_string());
                return false;
            }
            // What others have counted meanwhile is skipped as it arrives.
            let at = reader.next(*partition).map_or(*from, |at| at.min(*from));
            match reader.check(*partition, at) {
                // Not before the first look at the topic.
                None => return false,
                Some(Ok(())) => *from = at,
                Some(Err(ReaderError::Lost { first, count })) => {
                    match reader.topic().settings().lost_records {
                        _ if *from >= first => {}
                        LostRecords::Skip => {
                            metrics::counter!("countd_kafka_lost_records_total").increment(count);
                            tracing::error!(
                                topic_partition = *partition,
                                count,
                                "the topic has removed records before they were counted; they are skipped"
                            );
                            skipped.insert(*partition, first);
                            *from = first;
                        }
                        LostRecords::Stop => {
                            failures.insert(*partition, format!("the topic has removed up to {count} records of its partition {partition} before they were counted (offsets {from} to {}): kafka.lost_records = \"skip\" gives them up", first - 1));
                            return false;
                        }
                    }
                }
                Some(Err(ReaderError::Truncated { end })) => {
                    let truncation = Truncation {
                        partition: *partition,
                        end,
                        position: *from,
                    };
                    failures.insert(*partition, truncation.to_string());
                    topic.truncations.push(truncation);
                    return false;
                }
            }
            true
        });
        let reader = topic.reader.insert(reader);
        let assigned = reader.assign(&from);
        for (partition, seen) in &mut topic.seen {
            let of_topic = topic.watched.topic().identity().partition_of(*partition);
            if let Some(first) = skipped.get(&of_topic) {
                seen.until = seen.until.max(*first);
            }
            // A seek back may not be possible now.
            let at = reader.next(of_topic);
            if at.is_some_and(|at| at <= seen.until) && !blocked.contains(partition) {
                topic.readable.insert(*partition);
            }
        }
        self.report_failures(&owned, &failures);
        assigned
    }

    /// Records which partitions of the topic end before a position, so that no process appends to it, and none goes on when the partition has
    /// grown beyond the position.
    pub(super) async fn record_truncations(&mut self) -> Result<(), StoreError> {
        let found = self
            .topic
            .as_mut()
            .map(|topic| std::mem::take(&mut topic.truncations));
        for truncation in found.unwrap_or_default() {
            tracing::error!("{truncation}");
            self.store.record_truncation(truncation).await?;
        }
        Ok(())
    }

    /// Records in the health which partitions cannot be read from the topic, by partition of the topic.
    fn report_failures(&self, owned: &[Partition], failures: &BTreeMap<u16, String>) {
        let Some(topic) = &self.topic else {
            return;
        };
        let part = PartitionPart::Topic;
        if failures.is_empty() && !self.health.has_any_failed(part) {
            return;
        }
        for partition in owned {
            match failures.get(&topic.partition_of(*partition)) {
                Some(reason) => drop(self.health.fail(*partition, part, reason)),
                None => self.health.recover(*partition, part),
            }
        }
    }
}
