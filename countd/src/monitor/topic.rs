//! The lag of the topic, from the positions in Redis. Unlike the lag that a consumer reports, it is known in every process and while commits
//! fail.

use super::samples::{Family, Samples};
use crate::consumer::load_topic_offsets;
use crate::domain::keys::Partition;
use crate::log::kafka::{Topic, Watermarks};
use crate::redis::store::Store;
use std::collections::BTreeMap;
use tokio::sync::watch;

const LAG: &str = "countd_topic_lag_records";
const END: &str = "countd_topic_end_records_total";
const COUNTED: &str = "countd_topic_counted_records_total";

#[rustfmt::skip]
pub const FAMILIES: [Family; 3] = [
    Family::gauge(LAG, "Records of the topic that are not counted, with the ends of transactions"),
    Family::counter(END, "The sum of the offsets at the ends of the partitions of the topic"),
    Family::counter(COUNTED, "The sum of the offsets up to which the partitions of the topic are counted"),
];

/// A topic, and what its brokers say.
#[derive(Clone)]
pub struct MonitoredTopic {
    topic: Topic,
    watermarks: watch::Receiver<Watermarks>,
}

impl MonitoredTopic {
    /// Watches a topic. `None` if librdkafka rejects a setting, which is logged. Must be called within a Tokio runtime.
    pub fn watch(topic: &Topic) -> Option<MonitoredTopic> {
        match Watermarks::watch(topic.clone()) {
            Ok((watermarks, _)) => Some(MonitoredTopic {
                topic: topic.clone(),
                watermarks,
            }),
            Err(error) => {
                tracing::warn!(%error, "the lag of the topic cannot be collected");
                None
            }
        }
    }

    /// Compares the ends of the partitions with the positions in Redis. Without samples if one of them is unknown.
    pub async fn collect(&self, store: &Store) -> Samples {
        let all: Vec<Partition> = (0..store.keys().partitions()).collect();
        let offsets = match load_topic_offsets(store, &all).await {
            Ok(offsets) => offsets,
            Err(error) => {
                tracing::debug!(%error, "the positions in the topic cannot be collected");
                return Samples::default();
            }
        };
        let identity = self.topic.identity();
        let mut counted: BTreeMap<u16, u64> = BTreeMap::new();
        for (partition, offset) in all.iter().zip(offsets) {
            let Some(offset) = offset else {
                return Samples::default();
            };
            // Several partitions of the data can be in one of the topic.
            let least = counted.entry(identity.partition_of(*partition));
            let least = least.or_insert(offset);
            *least = (*least).min(offset);
        }
        // The positions were read first: they are not beyond the ends.
        let watermarks = self.watermarks.borrow();
        if watermarks.problem.is_some() || watermarks.refusal.is_some() {
            return Samples::default();
        }
        let ends = counted
            .keys()
            .map(|partition| watermarks.bounds.get(partition));
        let Some(ends) = ends.collect::<Option<Vec<_>>>() else {
            return Samples::default();
        };
        let (mut lag, mut end_sum, mut counted_sum) = (0, 0, 0);
        for ((_, end), counted) in ends.into_iter().zip(counted.values()) {
            lag += end.saturating_sub(*counted);
            end_sum += end;
            counted_sum += counted;
        }
        let mut samples = Samples::default();
        for (name, value) in [(LAG, lag), (END, end_sum), (COUNTED, counted_sum)] {
            samples.add(name, &[], value as f64);
        }
        samples
    }
}
