//! What the topic has changed since the offsets of the shadows.

use super::erased::{Erased, Place};
use super::error::RebuildError;
use super::observe::{Observation, Observer, Row};
use super::shadow::{Additions, Shadows};
use super::topic::TailRecord;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::Partition;
use crate::log::archive::{Outcome, topic_outcome};
use std::collections::{HashMap, HashSet};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["HMGET {outcomes} 1"];

/// The number of records of all partitions that are kept in memory.
const MAX_RECORDS: usize = 200_000;
/// The number of outcomes that are read at once.
const OUTCOMES: usize = 1_000;

impl Observer {
    /// Makes long tails a part of the shadows.
    pub(super) async fn bound_tails(&mut self, shadows: &mut Shadows) -> Result<(), RebuildError> {
        let topic = self.topic.as_ref().filter(|_| self.catches_up);
        let longest = topic.and_then(|topic| topic.longest_tail(MAX_RECORDS));
        match longest {
            Some(partition) => self.fold_topic(shadows, partition).await,
            None => Ok(()),
        }
    }

    /// Sums up what counted records of the topic after the offset of the shadows have changed of what was observed.
    pub(super) async fn add_topic_tail(
        &mut self,
        shadows: &Shadows,
        partition: Partition,
        (schema, observation): (&Name, &mut Observation),
    ) -> Result<(), RebuildError> {
        let range = (shadows.next_topic(partition), observation.topic);
        self.read_topic_until(partition, observation.topic).await?;
        let records = self.tail_records(partition, range);
        if records.is_empty() {
            return Ok(());
        }
        let uncounted = self.uncounted(partition, &records).await?;
        let rows = observation.rows.iter_mut();
        let mut rows: HashMap<Entity, &mut Row> =
            rows.map(|row| (row.entity.clone(), row)).collect();
        let counted = self.tail_records(partition, range).into_iter();
        for record in counted.filter(|record| !uncounted.contains(&record.offset)) {
            for change in record.changes.iter().filter(|of| of.schema == *schema) {
                if let (Some(row), Some((idx, delta))) =
                    (rows.get_mut(&change.entity), change.delta)
                    && record.offset >= row.erased
                {
                    row.tail.add(idx, delta);
                }
            }
        }
        Ok(())
    }

    async fn read_topic_until(
        &mut self,
        partition: Partition,
        offset: u64,
    ) -> Result<(), RebuildError> {
        match &mut self.topic {
            Some(topic) => topic.read_until(&mut self.changes, partition, offset).await,
            None => Ok(()),
        }
    }

    fn tail_records(&self, partition: Partition, range: (u64, u64)) -> Vec<&TailRecord> {
        let topic = self.topic.iter();
        topic
            .flat_map(|topic| topic.tail(partition, range))
            .collect()
    }

    /// The offsets of those of some counted records that were duplicates or became dead letters.
    async fn uncounted(
        &self,
        partition: Partition,
        records: &[&TailRecord],
    ) -> Result<HashSet<u64>, RebuildError> {
        let mut uncounted = HashSet::new();
        for records in records.chunks(OUTCOMES) {
            let fields = records.iter().map(|record| topic_outcome(record.offset));
            let mut cmd = redis::cmd("HMGET");
            cmd.arg(self.store.keys().outcomes(partition));
            cmd.arg(fields.collect::<Vec<_>>());
            let outcomes: Vec<Option<u64>> = cmd.query_async(&mut self.store.reads()).await?;
            let outcomes = records.iter().zip(outcomes);
            uncounted.extend(outcomes.filter_map(|(record, outcome)| {
                let outcome = Outcome::from_number(outcome?)?;
                (outcome != Outcome::Counted).then_some(record.offset)
            }));
        }
        Ok(uncounted)
    }

    /// Advances the shadows of a partition to its positions in the log and in the topic, as they are at one moment.
    pub(super) async fn fold_topic(
        &mut self,
        shadows: &mut Shadows,
        partition: Partition,
    ) -> Result<(), RebuildError> {
        let observed = self.read_positions(shadows, partition).await?;
        let shadow = shadows.next_topic(partition);
        if shadows.next(partition) >= observed.position && shadow >= observed.topic {
            return Ok(());
        }
        self.read_topic_until(partition, observed.topic).await?;
        let mut entries = Vec::new();
        let outcomes = self.outcomes(partition).await?;
        let mut from = shadows.next(partition);
        // With erasures that are not counted yet: they have happened.
        while from <= observed.last {
            let (records, is_end) = self.records(partition, from, &outcomes).await?;
            let last = records.last().map_or(from, |record| record.entry.offset);
            for record in records {
                let offset = record.entry.offset;
                if offset <= observed.last {
                    entries.push((offset, self.changes.of(&record).await?));
                }
            }
            from = if is_end { observed.last + 1 } else { last + 1 };
        }
        let (mut erased, mut additions) = (Erased::default(), Additions::default());
        for (offset, changes) in &entries {
            erased.find(*offset, changes);
        }
        let changes = entries.iter().flat_map(|(_, changes)| changes);
        erased.delete_shadows(changes, shadow, &mut additions);
        for (offset, changes) in entries {
            let kept = changes.into_iter().filter(|_| offset < observed.position);
            kept.filter(|change| erased.keeps(Place::Entry(offset), change))
                .for_each(|change| additions.add(change));
        }
        let records = self.tail_records(partition, (shadow, observed.topic));
        let uncounted = self.uncounted(partition, &records).await?;
        for record in records
            .into_iter()
            .filter(|of| !uncounted.contains(&of.offset))
        {
            let kept = record.changes.iter();
            kept.filter(|change| erased.keeps(Place::Record(record.offset), change))
                .for_each(|change| additions.add(change.clone()));
        }
        let position = observed.position.max(shadows.next(partition));
        additions.next.insert(partition, position);
        additions
            .topic
            .insert(partition, observed.topic.max(shadow));
        shadows.add(additions).await?;
        if let Some(topic) = &mut self.topic {
            topic.forget_before(partition, observed.topic);
        }
        Ok(())
    }
}
