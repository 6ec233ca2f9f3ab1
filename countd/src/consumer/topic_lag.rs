//! The topic as the workers of a process share it: what its brokers say, and how far each worker has counted.

use super::assignment::AssignedPartitions;
use super::position::load_topic_offsets;
use crate::domain::error::StoreError;
use crate::domain::health::Health;
use crate::domain::keys::Partition;
use crate::log::kafka::{Committer, Topic, TopicError, Watermarks};
use crate::redis::store::Store;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// The interval between two reports of the state, and publications of offsets.
const INTERVAL: Duration = Duration::from_secs(2);

/// By partition of the topic and worker, the offset up to which the worker has counted its records.
type Progress = BTreeMap<(u16, usize), u64>;

/// The topic, watched. Cheap to clone.
#[derive(Clone)]
pub struct WatchedTopic {
    topic: Topic,
    watermarks: watch::Receiver<Watermarks>,
    committer: Committer,
    progress: Arc<Mutex<Progress>>,
}

impl WatchedTopic {
    /// Starts to watch a topic. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// librdkafka rejects a setting.
    pub fn start(topic: &Topic) -> Result<WatchedTopic, TopicError> {
        let (watermarks, committer) = Watermarks::watch(topic.clone())?;
        Ok(WatchedTopic {
            topic: topic.clone(),
            watermarks,
            committer,
            progress: Arc::default(),
        })
    }

    /// The topic.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// The number of its partitions.
    pub fn partitions(&self) -> u16 {
        self.topic.identity().partitions
    }

    /// What its brokers say.
    pub fn watermarks(&self) -> &watch::Receiver<Watermarks> {
        &self.watermarks
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records how far a worker has counted, instead of what was recorded of it before.
    pub fn record(&self, worker: usize, counted: impl Iterator<Item = (u16, u64)>) {
        let mut progress = self.progress();
        progress.retain(|(_, of), _| *of != worker);
        progress.extend(counted.map(|(partition, offset)| ((partition, worker), offset)));
    }

    /// The number of records of assigned partitions that are not counted. `None` if it is not known.
    pub fn lag(&self, assigned: &[Partition]) -> Option<u64> {
        let watermarks = self.watermarks.borrow();
        if watermarks.problem.is_some() || watermarks.refusal.is_some() {
            return None;
        }
        let mut counted: BTreeMap<u16, u64> = BTreeMap::new();
        for ((partition, _), offset) in &*self.progress() {
            let least = counted.entry(*partition).or_insert(*offset);
            *least = (*least).min(*offset);
        }
        let identity = self.topic.identity();
        let mut partitions: Vec<u16> = assigned.iter().map(|p| identity.partition_of(*p)).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let mut lag = 0;
        for partition in partitions {
            let (_, end) = watermarks.bounds.get(&partition)?;
            lag += end.saturating_sub(*counted.get(&partition)?);
        }
        Some(lag)
    }

    /// Reports the state of the topic, and publishes the positions of assigned partitions as offsets of the consumer group of the
    /// configuration, until `stop` turns true.
    pub async fn report(
        self,
        store: Store,
        health: Health,
        assigned: AssignedPartitions,
        mut stop: watch::Receiver<bool>,
    ) {
        let reporting = async {
            loop {
                let problem = self.watermarks.borrow().problem.clone();
                health.set_topic_problem(problem);
                let partitions = Arc::clone(&assigned.borrow());
                let lag = self.lag(&partitions);
                metrics::gauge!("countd_kafka_lag_records")
                    .set(lag.map_or(f64::NAN, |lag| lag as f64));
                if let Err(error) = self.publish(&store, &partitions).await {
                    tracing::debug!(%error, "offsets are not published");
                }
                tokio::time::sleep(INTERVAL).await;
            }
        };
        tokio::select! {
            () = reporting => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    async fn publish(&self, store: &Store, partitions: &[Partition]) -> Result<(), StoreError> {
        let positions = load_topic_offsets(store, partitions).await?;
        let mut offsets: BTreeMap<u16, u64> = BTreeMap::new();
        for (partition, position) in partitions.iter().zip(positions) {
            let Some(position) = position else {
                continue;
            };
            let least = offsets.entry(self.topic.identity().partition_of(*partition));
            let least = least.or_insert(position);
            *least = (*least).min(position);
        }
        self.committer.publish(&offsets);
        Ok(())
    }
}
