//! Reads the first and the last offsets of the topic's partitions, and whether it is still the topic of the data: one task of a process watches
//! them.

use super::client::{self, Context};
use super::error::TopicError;
use super::topic::Topic;
use super::watermarks::Watermarks;
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
    /// Watches the topic until the receivers are dropped. One task does so for all callers. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// librdkafka rejects a setting.
    pub fn watch(topic: Topic) -> Result<(watch::Receiver<Watermarks>, Committer), TopicError> {
        let watcher = topic.watcher().clone();
        let mut watch = watcher.watch();
        if let Some((sender, consumer)) = &*watch {
            let committer = Committer::new(topic, Arc::clone(consumer));
            return Ok((sender.subscribe(), committer));
        }
        let consumer = client::create(&client::of_consumer(topic.settings()))?;
        let consumer: Arc<BaseConsumer<Context>> = Arc::new(consumer);
        let (sender, receiver) = watch::channel(Watermarks::default());
        *watch = Some((sender.clone(), Arc::clone(&consumer)));
        let committer = Committer::new(topic.clone(), Arc::clone(&consumer));
        tokio::spawn(run(topic, consumer, sender));
        Ok((receiver, committer))
    }
}

async fn run(
    topic: Topic,
    consumer: Arc<BaseConsumer<Context>>,
    sender: watch::Sender<Watermarks>,
) {
    while !topic.watcher().ends(&sender) {
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
        // A look that failed says nothing.
        if !has_problem {
            match (guard.refusal(), &refusal) {
                (None, Some(error)) => tracing::error!(%error, "the topic is not used"),
                (Some(_), None) => tracing::info!("the topic is used again"),
                _ => {}
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
    last: Arc<Mutex<Published>>,
}

/// What was published.
#[derive(Default)]
struct Published {
    offsets: BTreeMap<u16, u64>,
    /// When all offsets were published.
    all_at: Option<Instant>,
}

/// How often offsets are published that have not changed: commits are not confirmed, and brokers remove old ones of groups without members.
const REPUBLISH: Duration = Duration::from_secs(30);

impl Committer {
    fn new(topic: Topic, consumer: Arc<BaseConsumer<Context>>) -> Committer {
        Committer {
            consumer,
            topic,
            last: Arc::default(),
        }
    }

    /// The settings of the topic.
    pub fn settings(&self) -> &KafkaConfig {
        self.topic.settings()
    }

    /// Publishes the offsets that have changed, and every 30 seconds the others. Returns once they are on their way.
    pub fn publish(&self, offsets: &BTreeMap<u16, u64>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.all_at.is_none_or(|at| at.elapsed() >= REPUBLISH) {
            last.offsets.clear();
            last.all_at = Some(Instant::now());
        }
        let mut list = TopicPartitionList::new();
        let name = &self.topic.identity().name;
        for (partition, offset) in offsets {
            if last.offsets.get(partition) == Some(offset) {
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
            Ok(()) => last.offsets.clone_from(offsets),
            Err(error) => log_failure(&error),
        }
    }
}

fn log_failure(error: &KafkaError) {
    tracing::debug!(%error, "offsets are not published");
}
