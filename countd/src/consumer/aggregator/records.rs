//! Records of the topic, and the outcomes of what is not counted.

use super::{Aggregator, HeldEntry};
use crate::consumer::batch::{PositionUpdate, TopicUpdate};
use crate::consumer::decoder::DecodedEntry;
use crate::consumer::increments::Increments;
use crate::consumer::position::Position;
use crate::domain::config::LogKind;
use crate::domain::keys::Partition;
use crate::log::LogEntry;
use crate::log::archive::{Outcome, topic_outcome};
use std::fmt::Write;

impl Aggregator<'_> {
    /// Like [`add_entries`](Self::add_entries), for records of a partition in the topic. They have the offsets of the topic, with gaps.
    pub fn add_records(
        &mut self,
        (partition, position): (Partition, &Position),
        entries: Vec<LogEntry>,
        decoded: &[DecodedEntry],
    ) -> Option<HeldEntry> {
        let next = entries.last()?.offset + 1;
        let first_dead = self.increments.batch.dead_letters.len();
        let positions = &mut self.increments.batch.positions;
        let update = positions.entry(partition);
        let update = update.or_insert_with(|| PositionUpdate::at(position));
        let before = update.topic;
        let from = before.map_or(position.topic, |topic| topic.from);
        update.topic = Some(TopicUpdate { from, next });
        let mut held = None;
        self.is_topic = true;
        for (entry, decoded) in entries.into_iter().zip(decoded) {
            let offset = entry.offset;
            if let Err(reason) = self.add_entry((partition, position), entry, decoded) {
                let positions = &mut self.increments.batch.positions;
                if let Some(update) = positions.get_mut(&partition) {
                    // The records before it are committed. Offsets between them and this one are of other partitions.
                    let next = before.map_or(offset, |topic| topic.next.max(offset));
                    update.topic = (next > from).then_some(TopicUpdate { from, next });
                    if update.is_empty() {
                        positions.remove(&partition);
                    }
                }
                held = Some(reason);
                break;
            }
        }
        self.is_topic = false;
        for dead in &mut self.increments.batch.dead_letters[first_dead..] {
            let _ = write!(dead.reason, " (record {} of the topic)", dead.offset);
        }
        held
    }

    /// Records that an entry is not counted, if entries are archived or copied to a topic.
    pub(super) fn record_outcome(
        &mut self,
        (partition, offset): (Partition, u64),
        outcome: Outcome,
    ) {
        let Increments { rules, batch, .. } = &mut self.increments;
        let copies = rules.config.log.kind == LogKind::Kafka;
        if copies || rules.locator.layout().archives {
            let field = match self.is_topic {
                true => topic_outcome(offset),
                false => offset.to_string(),
            };
            let outcomes = &mut batch.outcomes;
            outcomes.add(rules.locator.keys(), (partition, field), outcome);
        }
    }
}
