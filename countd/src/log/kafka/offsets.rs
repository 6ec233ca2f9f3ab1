//! The first and the last offsets of the topic's partitions, and whether it is still the topic of the data: watched by one task of a process.

use super::client::{self, Context};
use super::error::TopicError;
use super::topic::Topic;
use crate::domain::config::{Config, KafkaConfig};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

/// The interval between two looks at the offsets.
const INTERVAL: Duration = Duration::from_millis(500);
/// The timeout of a request to the brokers.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// What is known of the topic.
#[derive(Clone, Debug, Default)]
pub struct Watermarks {
    /// The number of looks that found the topic of the data.
    pub generation: u64,
    /// By partition of the topic, the offset of the first record and that after the last one.
    pub bounds: BTreeMap<u16, (u64, u64)>,
    /// Why the topic must not be read: it is not that of the data.
    pub refusal: Option<String>,
    /// Why the topic was not reachable at the last look.
    pub problem: Option<String>,
}

/// The offsets after the last record of each partition of the topic.
///
/// # Errors
/// No broker is reachable.
pub async fn end_offsets(topic: &Topic) -> Result<Vec<u64>, TopicError> {
    let topic = topic.clone();
    let ends = spawn_blocking(move || {
        let mut config = client::of_consumer(topic.settings());
        config.remove("group.id");
        let consumer: BaseConsumer<Context> = client::create(&config)?;
        let identity = topic.identity();
        let ends = list(&consumer, &identity.name, identity.partitions, Offset::End)?;
        Ok(ends.into_values().collect())
    });
    ends.await
        .map_err(|error| TopicError::Unavailable(error.to_string()))?
}

/// Which offset of each partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// That of the first record.
    First,
    /// The one after the last record.
    Last,
}

/// The offsets of a topic of the configuration's brokers, by partition.
///
/// # Errors
/// No broker is reachable.
pub async fn offsets_of(
    config: &Config,
    name: &str,
    partitions: u16,
    ends: Ends,
) -> Result<Vec<u64>, TopicError> {
    let (settings, name) = (config.kafka.clone(), name.to_owned());
    let end = match ends {
        Ends::First => Offset::Beginning,
        Ends::Last => Offset::End,
    };
    let offsets = spawn_blocking(move || {
        let mut config = client::of_consumer(&settings);
        config.remove("group.id");
        let consumer: BaseConsumer<Context> = client::create(&config)?;
        Ok(list(&consumer, &name, partitions, end)?
            .into_values()
            .collect())
    });
    offsets
        .await
        .map_err(|error| TopicError::Unavailable(error.to_string()))?
}

/// One end of each partition.
fn list(
    consumer: &BaseConsumer<Context>,
    topic: &str,
    partitions: u16,
    end: Offset,
) -> Result<BTreeMap<u16, u64>, TopicError> {
    let mut requested = TopicPartitionList::with_capacity(usize::from(partitions));
    for partition in 0..partitions {
        let added = requested.add_partition_offset(topic, i32::from(partition), end);
        added.map_err(|error| TopicError::of_request(&error))?;
    }
    // The special offsets are special timestamps, too.
    let found = consumer
        .offsets_for_times(requested, TIMEOUT)
        .map_err(|error| TopicError::of_request(&error))?;
    let mut offsets = BTreeMap::new();
    for element in found.elements() {
        element
            .error()
            .map_err(|error| TopicError::of_request(&error))?;
        let partition = u16::try_from(element.partition());
        let offset = match element.offset() {
            Offset::Offset(offset) => u64::try_from(offset).ok(),
            _ => None,
        };
        if let (Ok(partition), Some(offset)) = (partition, offset) {
            offsets.insert(partition, offset);
        }
    }
    match offsets.len() == usize::from(partitions) {
        true => Ok(offsets),
        false => Err(TopicError::Unavailable(
            "some offsets of the topic are unknown".to_owned(),
        )),
    }
}

impl Watermarks {
    /// Watches the topic until the receivers are dropped. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// librdkafka rejects a setting.
    pub fn watch(topic: Topic) -> Result<(watch::Receiver<Watermarks>, Committer), TopicError> {
        let consumer = client::create(&client::of_consumer(topic.settings()))?;
        let consumer: Arc<BaseConsumer<Context>> = Arc::new(consumer);
        let (sender, receiver) = watch::channel(Watermarks::default());
        let committer = Committer {
            consumer: Arc::clone(&consumer),
            topic: topic.clone(),
            last: Arc::default(),
        };
        tokio::spawn(run(topic, consumer, sender));
        Ok((receiver, committer))
    }
}

async fn run(
    topic: Topic,
    consumer: Arc<BaseConsumer<Context>>,
    sender: watch::Sender<Watermarks>,
) {
    while !sender.is_closed() {
        let looked = {
            let (topic, consumer) = (topic.clone(), Arc::clone(&consumer));
            spawn_blocking(move || look(&topic, &consumer)).await
        };
        let looked = looked.unwrap_or_else(|error| Err(TopicError::Unavailable(error.to_string())));
        // The offsets may be those of a topic that was created again.
        let looked = match looked {
            Ok(bounds) => topic.verify().await.map(|()| bounds),
            Err(error) => Err(error),
        };
        let guard = topic.guard();
        sender.send_modify(|state| match looked {
            Ok(bounds) => {
                for (partition, (_, end)) in &bounds {
                    guard.record_end(*partition, *end, Instant::now());
                }
                state.bounds = bounds;
                state.generation += 1;
                (state.problem, state.refusal) = (None, None);
            }
            Err(error) if error.is_transient() => state.problem = Some(error.to_string()),
            Err(error) => (state.problem, state.refusal) = (None, Some(error.to_string())),
        });
        let (refusal, has_problem) = {
            let state = sender.borrow();
            (state.refusal.clone(), state.problem.is_some())
        };
        let is_refused = refusal.is_some();
        // A look that failed says nothing: another watcher of the process may know more.
        if !has_problem {
            if let Some(error) = &refusal
                && guard.refusal().is_none()
            {
                tracing::error!(%error, "the topic is not used");
            }
            guard.set_refusal(refusal);
        }
        metrics::gauge!("countd_kafka_unreachable").set(f64::from(u8::from(has_problem)));
        metrics::gauge!("countd_kafka_topic_refused").set(f64::from(u8::from(is_refused)));
        tokio::time::sleep(INTERVAL).await;
    }
}

/// The bounds of all partitions.
fn look(
    topic: &Topic,
    consumer: &BaseConsumer<Context>,
) -> Result<BTreeMap<u16, (u64, u64)>, TopicError> {
    // Serves the callbacks of the client.
    while consumer.poll(Duration::ZERO).is_some() {}
    let identity = topic.identity();
    let (name, partitions) = (identity.name.as_str(), identity.partitions);
    let first = list(consumer, name, partitions, Offset::Beginning)?;
    let last = list(consumer, name, partitions, Offset::End)?;
    let bounds = first.into_iter().zip(last.into_values());
    Ok(bounds
        .map(|((partition, first), last)| (partition, (first, last)))
        .collect())
}

/// Publishes offsets to the consumer group of the configuration, for lag tools.
#[derive(Clone)]
pub struct Committer {
    consumer: Arc<BaseConsumer<Context>>,
    topic: Topic,
    last: Arc<Mutex<BTreeMap<u16, u64>>>,
}

impl Committer {
    /// The settings of the topic.
    pub fn settings(&self) -> &KafkaConfig {
        self.topic.settings()
    }

    /// Publishes the offsets that have changed. Returns once they are on their way.
    pub fn publish(&self, offsets: &BTreeMap<u16, u64>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = TopicPartitionList::new();
        let name = &self.topic.identity().name;
        for (partition, offset) in offsets {
            if last.get(partition) == Some(offset) {
                continue;
            }
            if let Ok(offset) = i64::try_from(*offset) {
                let offset = Offset::Offset(offset);
                // Numbers of partitions are valid.
                let _ = list.add_partition_offset(name, i32::from(*partition), offset);
            }
        }
        if list.count() == 0 {
            return;
        }
        match self.consumer.commit(&list, CommitMode::Async) {
            Ok(()) => last.clone_from(offsets),
            Err(error) => log_failure(&error),
        }
    }
}

fn log_failure(error: &KafkaError) {
    tracing::debug!(%error, "offsets are not published");
}
