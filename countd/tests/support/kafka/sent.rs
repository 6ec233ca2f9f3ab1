//! Reads that clients have sent, compared with the topic.

use super::expected::expected;
use super::topic::{Record, Topic};
use crate::support::{Api, on_note};
use std::collections::{BTreeMap, BTreeSet};

/// Reads without idempotency keys, by entity (`note:1`). An acknowledged read is in the topic once. Without an acknowledgement, it may be in the
/// topic once, or not.
#[derive(Default)]
pub struct SentReads {
    acknowledged: BTreeMap<String, i64>,
    sent: BTreeMap<String, i64>,
    /// How many were acknowledged by the API.
    of_api: u64,
}

impl SentReads {
    /// Produces records, which are reads with the keys of their entities. Returns when all are in the log.
    #[track_caller]
    pub fn produce(&mut self, topic: &Topic, records: &[(String, String)]) {
        topic.produce(records);
        for (entity, _) in records {
            self.add(entity.clone(), true);
        }
    }

    /// Sends a read of a note through the API, without retries. It may fail.
    #[track_caller]
    pub fn act(&mut self, api: &Api, note: u64) {
        // Users have limits.
        let action = on_note(note, 1 + note);
        let response = api.try_post("/action/read", &action.to_string());
        let is_acknowledged = match response {
            Ok((200, _)) => true,
            Ok((status, text)) => {
                assert!(status >= 500, "{status}: {text}");
                false
            }
            // The process was killed.
            Err(_) => false,
        };
        self.of_api += u64::from(is_acknowledged);
        self.add(format!("note:{note}"), is_acknowledged);
    }

    /// Adds the reads of another thread.
    pub fn merge(&mut self, other: SentReads) {
        for (counts, others) in [
            (&mut self.acknowledged, other.acknowledged),
            (&mut self.sent, other.sent),
        ] {
            for (entity, count) in others {
                *counts.entry(entity).or_default() += count;
            }
        }
        self.of_api += other.of_api;
    }

    fn add(&mut self, entity: String, is_acknowledged: bool) {
        if is_acknowledged {
            *self.acknowledged.entry(entity.clone()).or_default() += 1;
        }
        *self.sent.entry(entity).or_default() += 1;
    }

    /// The number of reads that the API has acknowledged.
    pub fn acknowledged_by_api(&self) -> u64 {
        self.of_api
    }

    /// Asserts that each entity has as many reads in the topic as were acknowledged, or more, but not more than were sent.
    #[track_caller]
    pub fn assert_in_topic(&self, records: &[Record]) {
        let mut reads = BTreeMap::new();
        for ((metric, entity), count) in expected(records) {
            if metric == "read" {
                reads.insert(entity, count);
            }
        }
        let of = |counts: &BTreeMap<String, i64>, entity| counts.get(entity).copied().unwrap_or(0);
        let entities: BTreeSet<&String> = self.sent.keys().chain(reads.keys()).collect();
        for entity in entities {
            let found = of(&reads, entity);
            let range = of(&self.acknowledged, entity)..=of(&self.sent, entity);
            assert!(
                range.contains(&found),
                "{found} reads of {entity} in the topic, {range:?} acknowledged and sent"
            );
        }
        let sum = |counts: &BTreeMap<String, i64>| counts.values().sum::<i64>();
        eprintln!(
            "reads: {} acknowledged ({} by the API), {} in the topic, {} sent",
            sum(&self.acknowledged),
            self.of_api,
            sum(&reads),
            sum(&self.sent)
        );
    }
}
